"""The client matrix's session with pika: session.py URL EXCHANGE QUEUE KIND [restart]."""

import sys
import time

import pika

MESSAGES = 20
PATIENCE = 60  # seconds for every wait: only something that is broken takes so long


class Session:
    def __init__(self, url, exchange, queue, kind):
        self.parameters = pika.URLParameters(url)
        self.exchange, self.queue, self.kind = exchange, queue, kind

    def connect(self):
        self.connection = pika.BlockingConnection(self.parameters)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def declare(self):
        self.connect()
        self.channel.exchange_declare(self.exchange, self.kind, durable=True)
        ok = self.channel.queue_declare(self.queue, durable=True).method
        assert (ok.queue, ok.message_count) == (self.queue, 0), ok
        self.channel.queue_bind(self.queue, self.exchange, "any")
        return "exchange, queue and binding"

    def publish(self, key, body, **properties):
        # mandatory: pika raises UnroutableError or NackError where it is not stored
        self.channel.basic_publish(self.exchange, key, body, pika.BasicProperties(**properties), mandatory=True)

    def confirm(self):
        for index in range(MESSAGES):
            self.publish("key.%d" % index, b"message %d" % index)
        return "%d messages" % MESSAGES

    def received(self):
        for method, properties, body in self.channel.consume(self.queue, inactivity_timeout=PATIENCE):
            assert method is not None, "nothing came"
            yield method, properties, body

    def consume(self):
        self.channel.basic_qos(prefetch_count=10)
        seen = set()
        for method, _properties, body in self.received():
            number = body.decode().split()[1]
            assert body not in seen and (method.exchange, method.routing_key) == (self.exchange, "key." + number), method
            seen.add(body)
            self.channel.basic_ack(method.delivery_tag)
            if len(seen) == MESSAGES:
                break
        return "%d messages, each once" % MESSAGES

    def ack(self):
        """Closes the channel: what had not been acknowledged would be in the queue again."""
        self.channel.close()
        self.channel = self.connection.channel()
        ok = self.channel.queue_declare(self.queue, passive=True).method
        assert (ok.message_count, ok.consumer_count) == (0, 0), ok
        self.channel.confirm_delivery()
        return "nothing left"

    def nack(self):
        self.publish("again", b"again")
        flags = []
        for method, _properties, body in self.received():
            assert body == b"again", body
            flags.append(method.redelivered)
            self.channel.basic_nack(method.delivery_tag, requeue=len(flags) == 1)
            if len(flags) == 2:
                break
        assert flags == [False, True], flags
        self.channel.cancel()
        return "redelivered, then dropped"

    def get(self):
        for index in range(3):
            self.publish(str(index), b"get %d" % index)
        for _ in range(3):
            method, _properties, body = self.channel.basic_get(self.queue)
            assert method and body.decode() == "get " + method.routing_key, (method, body)
            self.channel.basic_ack(method.delivery_tag)
        assert self.channel.basic_get(self.queue) == (None, None, None)
        return "3 messages, then empty"

    def rpc(self):
        asker = self.connection.channel()
        answers = []
        asker.basic_consume("amq.rabbitmq.reply-to", lambda *reply: answers.append(reply[2:]), auto_ack=True)
        asker.basic_publish(self.exchange, "rpc", b"question",
                            pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="call"))
        for method, properties, body in self.received():
            assert body == b"question", body
            self.channel.basic_publish("", properties.reply_to, b"answer",
                                       pika.BasicProperties(correlation_id=properties.correlation_id))
            self.channel.basic_ack(method.delivery_tag)
            break
        deadline = time.monotonic() + PATIENCE
        while not answers and time.monotonic() < deadline:
            self.connection.process_data_events(time_limit=1)
        assert [(p.correlation_id, b) for p, b in answers] == [("call", b"answer")], answers
        self.channel.cancel()
        asker.close()
        return "direct reply-to"

    def error(self):
        try:
            self.connection.channel().queue_declare("missing", passive=True)
        except pika.exceptions.ChannelClosedByBroker as refused:
            self.channel.queue_declare(self.queue, passive=True)
            return "%d %s; the connection goes on" % (refused.reply_code, refused.reply_text)
        raise AssertionError("a missing queue was declared")

    def lose(self):
        """Waits for the end of the connection."""
        try:
            for _ in range(PATIENCE):
                self.connection.process_data_events(time_limit=1)
        except pika.exceptions.ConnectionClosedByBroker as lost:
            return "after %d %s" % (lost.reply_code, lost.reply_text)
        raise AssertionError("the connection was not closed")

    def reconnect(self):
        print("wait reconnect", flush=True)
        lost = self.lose()
        self.connect()
        self.publish("0", b"get 0")
        assert self.channel.basic_get(self.queue, auto_ack=True)[2] == b"get 0"
        self.connection.close()
        return lost

    def restart(self):
        """What it is connected to ends, and is started again: gets what was published meanwhile."""
        print("wait restart", flush=True)
        lost = self.lose()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect()
                break
            except pika.exceptions.AMQPConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        method, _properties, body = next(self.received())
        assert body == b"meanwhile", body
        self.channel.basic_ack(method.delivery_tag)
        self.connection.close()
        return lost


session = Session(*sys.argv[1:5])
steps = ("declare", "confirm", "consume", "ack", "nack", "get", "rpc", "error", "reconnect")
print("version", pika.__version__)
for step in ("declare", "restart") if sys.argv[5:] else steps:
    print("ok %s: %s" % (step, getattr(session, step)()), flush=True)
