"""The client matrix's session with Celery: session.py URL EXCHANGE QUEUE KIND [restart]. Its worker runs in a thread."""

import logging
import queue as queues
import sys

import celery
import kombu
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Reject

TASKS = 20
PATIENCE = 60  # seconds for every wait: only something that is broken takes so long

url, exchange, queue, kind = sys.argv[1:5]
app = celery.Celery("session", broker=url, backend="rpc://")
app.conf.update(
    task_queues=[kombu.Queue(queue, kombu.Exchange(exchange, kind, durable=True), routing_key="any")],
    task_default_queue=queue,
    broker_transport_options={"confirm_publish": True},
)
done, lost = queues.Queue(), queues.Queue()


class Losses(logging.Handler):
    """Hears of the connection that the worker loses, with what the broker said."""

    def emit(self, record):
        if record.exc_info:
            lost.put(record.exc_info[1])


@app.task(ignore_result=True, bind=True)
def work(self, text):
    done.put((text, self.request.delivery_info))


@app.task(ignore_result=True, bind=True, acks_late=True)
def refuse(self, text):
    done.put((text, self.request.delivery_info))
    raise Reject("refused", requeue=not self.request.delivery_info["redelivered"])


@app.task
def add(a, b):
    return a + b


def declare():
    """Celery declares a queue when it first uses it, and so does this, to see the broker's answer."""
    with app.connection_for_write() as connection:
        assert app.amqp.queues[queue](connection.channel()).declare() == queue
    return "exchange, queue and binding"


def confirm():
    for index in range(TASKS):
        work.apply_async(("message %d" % index,), routing_key="key.%d" % index)
    return "%d messages" % TASKS


def consume():
    seen = set()
    for _ in range(TASKS):
        text, info = done.get(timeout=PATIENCE)
        assert (info["exchange"], info["routing_key"]) == (exchange, "key." + text.split()[1]), info
        seen.add(text)
    assert len(seen) == TASKS, seen
    return "%d messages, each once" % TASKS


def nack():
    refuse.apply_async(("again",), routing_key="again")
    flags = [done.get(timeout=PATIENCE)[1]["redelivered"] for _ in range(2)]
    assert flags == [False, True], flags
    return "redelivered, then dropped"


def rpc():
    """The result backend rpc:// has a queue for the replies to this client."""
    assert add.apply_async((19, 23), routing_key="rpc").get(timeout=PATIENCE) == 42
    return "reply queue"


def lose(wait):
    """Says so and waits until the worker has lost its connection."""
    logger = logging.getLogger("celery.worker.consumer.consumer")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(Losses())
    print("wait", wait, flush=True)
    error = lost.get(timeout=PATIENCE)
    return "after %d %s" % (error.reply_code, error.reply_text)


def reconnect():
    said = lose("reconnect")
    sys.stdin.readline()  # says that the other connections are closed too: on one that is not yet, this would come twice
    work.apply_async(("after 1",), routing_key="after")
    assert done.get(timeout=PATIENCE)[0] == "after 1"
    return said


def restart():
    """What the worker is connected to ends, and is started again: gets what was published meanwhile."""
    said = lose("restart")
    assert done.get(timeout=PATIENCE)[0] == "meanwhile"
    return said


def ack():
    """The worker that had them is gone: what had not been acknowledged would be in the queue again."""
    with app.connection_for_read() as connection:
        assert app.amqp.queues[queue](connection.channel()).get() is None
    return "nothing left"


def step(name, do):
    print("ok %s: %s" % (name, do()), flush=True)


def session():
    step("consume", consume)
    step("nack", nack)
    print("n/a get: Celery only consumes")
    step("rpc", rpc)
    print("n/a error: Celery has no call that the broker refuses; see kombu")
    step("reconnect", reconnect)
    app.control.shutdown()


print("version", celery.__version__)
step("declare", declare)
if not sys.argv[5:]:
    step("confirm", confirm)
# without the event loop, which now and then sleeps over a delivery for ten seconds when it is not in the main thread
with start_worker(app, use_eventloop=False, perform_ping_check=False, loglevel="CRITICAL", shutdown_timeout=PATIENCE):
    if sys.argv[5:]:
        step("restart", restart)
    else:
        session()
if not sys.argv[5:]:
    step("ack", ack)
