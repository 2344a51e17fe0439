"""The client matrix's session with kombu: session.py URL EXCHANGE QUEUE KIND [restart]."""

import logging
import sys

import kombu
from amqp.exceptions import ConnectionForced, NotFound
from kombu.mixins import ConsumerMixin

MESSAGES = 20
PATIENCE = 60  # seconds for every wait: only something that is broken takes so long


class Worker(ConsumerMixin):
    """Consumes until one message came after its connection was lost: kombu makes it anew. The message is its own, or another's."""

    def __init__(self, session, wait, own):
        self.session, self.connection, self.wait, self.own, self.lost = session, session.connection, wait, own, None

    def get_consumers(self, consumer_class, channel):
        return [consumer_class([self.session.queue], callbacks=[self.on_message])]

    def consume(self, *args, **kwargs):
        try:
            yield from super().consume(*args, timeout=PATIENCE, **kwargs)
        except ConnectionForced as lost:
            self.lost = lost
            raise

    def on_consume_ready(self, *_args, **_kwargs):
        if not self.lost:
            print("wait", self.wait, flush=True)
        elif self.own:
            self.session.publish("after", "after")

    def on_message(self, body, message):
        assert self.lost and body == ("after" if self.own else "meanwhile"), body
        message.ack()
        self.should_stop = True


class Session:
    def __init__(self, url, exchange, queue, kind):
        self.connection = kombu.Connection(url, transport_options={"confirm_publish": True})
        self.exchange = kombu.Exchange(exchange, kind, durable=True)
        self.queue = kombu.Queue(queue, self.exchange, routing_key="any", durable=True)

    def declare(self):
        self.channel = self.connection.channel()
        self.bound = self.queue(self.channel)
        assert self.bound.declare() == self.queue.name
        return "exchange, queue and binding"

    def publish(self, key, body, **properties):
        """Returns when the message is confirmed; on a connection that is made anew where it was lost."""
        with self.connection.Producer(on_return=self.returned) as producer:
            producer.publish(body, exchange=self.exchange, routing_key=key, mandatory=True, retry=True, **properties)

    def returned(self, *what):
        raise AssertionError("returned: %r" % (what,))

    def confirm(self):
        for index in range(MESSAGES):
            self.publish("key.%d" % index, "message %d" % index)
        return "%d messages" % MESSAGES

    def collect(self, inbox, count):
        while len(inbox) < count:
            self.connection.drain_events(timeout=PATIENCE)

    def consume(self):
        seen = []

        def on_message(body, message):
            info = message.delivery_info
            assert (info["exchange"], info["routing_key"]) == (self.exchange.name, "key." + body.split()[1]), info
            seen.append(body)
            message.ack()

        self.consuming = self.connection.channel()
        with self.connection.Consumer([self.queue], self.consuming, callbacks=[on_message], prefetch_count=10):
            self.collect(seen, MESSAGES)
        assert len(set(seen)) == MESSAGES, seen
        return "%d messages, each once" % MESSAGES

    def ack(self):
        """Closes the channel: what had not been acknowledged would be in the queue again."""
        self.consuming.close()
        ok = self.bound.queue_declare(passive=True)
        assert (ok.message_count, ok.consumer_count) == (0, 0), ok
        return "nothing left"

    def nack(self):
        inbox = []
        with self.connection.Consumer([self.queue], callbacks=[lambda _body, message: inbox.append(message)]):
            self.publish("again", "again")
            for count in (1, 2):
                self.collect(inbox, count)
                inbox[-1].requeue() if count == 1 else inbox[-1].reject()
        assert [m.delivery_info["redelivered"] for m in inbox] == [False, True], inbox
        return "redelivered, then dropped"

    def get(self):
        for index in range(3):
            self.publish(str(index), "get %d" % index)
        for _ in range(3):
            message = self.bound.get()
            assert message and message.payload == "get " + message.delivery_info["routing_key"], message
            message.ack()
        assert self.bound.get() is None
        return "3 messages, then empty"

    def rpc(self):
        questions, replies = [], []
        own = kombu.Queue(self.queue.name + "-replies", exclusive=True, durable=False)(self.channel)

        def on_reply(body, message):
            replies.append((message.properties["correlation_id"], body))

        with self.connection.Consumer([self.queue], callbacks=[lambda *asked: questions.append(asked)]):
            with kombu.Consumer(self.channel, [own], callbacks=[on_reply], no_ack=True):
                self.publish("rpc", "question", reply_to=own.name, correlation_id="call")
                self.collect(questions, 1)
                # Not in the callback, which may run while the question's confirm is awaited: the broker may confirm both at
                # once, and py-amqp waits for one each.
                self.answer(*questions[0])
                self.collect(replies, 1)
        assert replies == [("call", "answer")], replies
        return "reply queue"

    def answer(self, body, message):
        assert body == "question", body
        with self.connection.Producer() as producer:
            producer.publish("answer", routing_key=message.properties["reply_to"],
                             correlation_id=message.properties["correlation_id"])
        message.ack()

    def error(self):
        try:
            kombu.Queue("missing")(self.connection.channel()).queue_declare(passive=True)
        except NotFound as refused:
            self.bound.queue_declare(passive=True)
            return "%d %s; the connection goes on" % (refused.reply_code, refused.reply_text)
        raise AssertionError("a missing queue was declared")

    def reconnect(self):
        return self.work(Worker(self, "reconnect", own=True))

    def restart(self):
        """What it is connected to ends, and is started again: gets what was published meanwhile."""
        return self.work(Worker(self, "restart", own=False))

    def work(self, worker):
        worker.run()
        self.connection.close()
        return "after %d %s" % (worker.lost.reply_code, worker.lost.reply_text)


logging.getLogger("kombu").setLevel(logging.CRITICAL)  # it warns of the connection that it is told to lose
session = Session(*sys.argv[1:5])
steps = ("declare", "confirm", "consume", "ack", "nack", "get", "rpc", "error", "reconnect")
print("version", kombu.__version__)
for step in ("declare", "restart") if sys.argv[5:] else steps:
    print("ok %s: %s" % (step, getattr(session, step)()), flush=True)
