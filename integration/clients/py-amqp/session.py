"""The client matrix's session with py-amqp: session.py URL EXCHANGE QUEUE KIND."""

import sys
from urllib.parse import unquote, urlsplit

import amqp

MESSAGES = 20
PATIENCE = 60  # seconds for every wait: only something that is broken takes so long


class Session:
    def __init__(self, url, exchange, queue, kind):
        self.url = urlsplit(url)
        self.exchange, self.queue, self.kind = exchange, queue, kind

    def connect(self):
        self.connection = amqp.Connection(
            "%s:%d" % (self.url.hostname, self.url.port), self.url.username, self.url.password,
            virtual_host=unquote(self.url.path[1:]), confirm_publish=True,
        )
        self.connection.connect()
        self.channel = self.connection.channel()

    def declare(self):
        self.connect()
        self.channel.exchange_declare(self.exchange, self.kind, durable=True, auto_delete=False)
        ok = self.channel.queue_declare(self.queue, durable=True, auto_delete=False)
        assert (ok.queue, ok.message_count) == (self.queue, 0), ok
        self.channel.queue_bind(self.queue, self.exchange, "any")
        return "exchange, queue and binding"

    def publish(self, key, body):
        """Waits for the confirm; what comes back would be in the channel's events."""
        self.channel.events["basic_return"].add(self.returned)
        self.channel.basic_publish_confirm(amqp.Message(body), self.exchange, key, mandatory=True)

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

        def on_message(message):
            number = message.body.split()[1]
            info = message.delivery_info
            assert (info["exchange"], info["routing_key"]) == (self.exchange, "key." + number), info
            seen.append(message.body)
            message.channel.basic_ack(message.delivery_tag)

        self.channel.basic_qos(0, 10, False)
        self.channel.basic_consume(self.queue, callback=on_message)
        self.collect(seen, MESSAGES)
        assert len(set(seen)) == MESSAGES, seen
        return "%d messages, each once" % MESSAGES

    def ack(self):
        """Closes the channel: what had not been acknowledged would be in the queue again."""
        self.channel.close()
        self.channel = self.connection.channel()
        ok = self.channel.queue_declare(self.queue, passive=True)
        assert (ok.message_count, ok.consumer_count) == (0, 0), ok
        return "nothing left"

    def nack(self):
        inbox = []
        tag = self.channel.basic_consume(self.queue, callback=inbox.append)
        self.publish("again", "again")
        for count in (1, 2):
            self.collect(inbox, count)
            self.channel.basic_reject(inbox[-1].delivery_tag, requeue=count == 1)
        assert [m.delivery_info["redelivered"] for m in inbox] == [False, True], inbox
        self.channel.basic_cancel(tag)
        return "redelivered, then dropped"

    def get(self):
        for index in range(3):
            self.publish(str(index), "get %d" % index)
        for _ in range(3):
            message = self.channel.basic_get(self.queue)
            assert message and message.body == "get " + message.delivery_info["routing_key"], message
            self.channel.basic_ack(message.delivery_tag)
        assert self.channel.basic_get(self.queue) is None
        return "3 messages, then empty"

    def rpc(self):
        asker, requests, replies = self.connection.channel(), [], []
        asker.basic_consume("amq.rabbitmq.reply-to", no_ack=True, callback=replies.append)
        tag = self.channel.basic_consume(self.queue, callback=requests.append)
        question = amqp.Message("question", reply_to="amq.rabbitmq.reply-to", correlation_id="call")
        asker.basic_publish(question, self.exchange, "rpc")
        self.collect(requests, 1)
        asked = requests[0]
        answer = amqp.Message("answer", correlation_id=asked.properties["correlation_id"])
        self.channel.basic_publish(answer, "", asked.properties["reply_to"])
        self.channel.basic_ack(asked.delivery_tag)
        self.collect(replies, 1)
        assert (replies[0].body, replies[0].properties["correlation_id"]) == ("answer", "call"), replies
        self.channel.basic_cancel(tag)
        asker.close()
        return "direct reply-to"

    def error(self):
        try:
            self.connection.channel().queue_declare("missing", passive=True)
        except amqp.exceptions.NotFound as refused:
            self.channel.queue_declare(self.queue, passive=True)
            return "%d %s; the connection goes on" % (refused.reply_code, refused.reply_text)
        raise AssertionError("a missing queue was declared")

    def reconnect(self):
        print("wait reconnect", flush=True)
        try:
            self.connection.drain_events(timeout=PATIENCE)
        except amqp.exceptions.ConnectionForced as lost:
            self.connect()
            self.publish("0", "get 0")
            assert self.channel.basic_get(self.queue, no_ack=True).body == "get 0"
            self.connection.close()
            return "after %d %s" % (lost.reply_code, lost.reply_text)
        raise AssertionError("the connection was not closed")


session = Session(*sys.argv[1:])
print("version", amqp.__version__)
for step in ("declare", "confirm", "consume", "ack", "nack", "get", "rpc", "error", "reconnect"):
    print("ok %s: %s" % (step, getattr(session, step)()), flush=True)
