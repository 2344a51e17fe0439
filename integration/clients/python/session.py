"""Sessions whose transcript must be the same directly and through the proxy: every line is something pika saw."""

import hashlib

import pika
import pika.exceptions

from common import connect, main, properties_text


def show(label, value=""):
    print("%s: %s" % (label, value), flush=True)


def show_message(label, method, properties, body):
    digest = hashlib.md5(body).hexdigest()
    show(label, "%s %s %d bytes %s" % (method, sorted(properties_text(properties).items()), len(body), digest))


def attempt(label, connection, call):
    """Run call on a fresh channel and show how the broker ends that channel or connection."""
    channel = connection.channel()
    try:
        show(label, call(channel))
    except (pika.exceptions.ChannelClosed, pika.exceptions.ConnectionClosed) as error:
        show(label, "%s %s" % (type(error).__name__, error.args))
    except pika.exceptions.UnroutableError as error:
        returned = error.messages[0]
        show_message(label + " returned", returned.method, returned.properties, returned.body)
    if channel.is_open:
        channel.close()


def next_message(channel, inbox):
    while not inbox:
        channel.connection.process_data_events(time_limit=0.1)
    return inbox.pop(0)


def work(url, exchange, kind):
    """Publish, consume, confirm and RPC on one exchange and the queue of the same name."""
    connection = connect(url)
    channel = connection.channel()
    show("exchange", channel.exchange_declare(exchange, kind, durable=True).method)
    show("queue", channel.queue_declare(exchange, durable=True).method)
    show("bind", channel.queue_bind(exchange, exchange, "any").method)
    show("passive", channel.queue_declare(exchange, passive=True).method)
    channel.confirm_delivery()
    inbox = []
    channel.basic_qos(prefetch_count=10)
    tag = channel.basic_consume(exchange, lambda _c, *message: inbox.append(message), consumer_tag="worker")
    show("tag", tag)
    for size in (0, 1, 2, 1000, 131064, 131065, 300000):
        channel.basic_publish(exchange, "key.%d" % size, b"z" * size, pika.BasicProperties(type="sized"), mandatory=True)
        message = next_message(channel, inbox)
        show_message("delivery", *message)
        channel.basic_ack(message[0].delivery_tag)
    channel.basic_publish(exchange, "again", b"again", mandatory=True)
    first = next_message(channel, inbox)
    channel.basic_nack(first[0].delivery_tag, requeue=True)
    again = next_message(channel, inbox)
    show_message("redelivery", *again)
    channel.basic_reject(again[0].delivery_tag, requeue=False)
    rpc(connection, channel, exchange, inbox)
    channel.basic_cancel(tag)
    show("empty", channel.basic_get(exchange))
    channel.basic_publish(exchange, "left", b"one", mandatory=True)
    show_message("get", *channel.basic_get(exchange, auto_ack=True))
    channel.basic_publish(exchange, "left", b"two", mandatory=True)
    show("purge", channel.queue_purge(exchange).method)
    connection.close()


def rpc(connection, server, exchange, inbox):
    """Direct reply-to: the reply comes back to the channel that asked."""
    client = connection.channel()
    replies = []
    client.basic_consume("amq.rabbitmq.reply-to", lambda _c, *message: replies.append(message), auto_ack=True)
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="call-1")
    client.basic_publish(exchange, "rpc", b"question", properties)
    request = next_message(server, inbox)
    show("request", request[2])
    answer = pika.BasicProperties(correlation_id=request[1].correlation_id)
    server.basic_publish("", request[1].reply_to, b"answer", answer)
    server.basic_ack(request[0].delivery_tag)
    reply = next_message(client, replies)
    show("reply", "%s %s" % (reply[1].correlation_id, reply[2]))
    client.close()


def plain(url):
    """What has nothing to do with sharding."""
    connection = connect(url)
    channel = connection.channel()
    name = channel.queue_declare("", exclusive=True).method
    show("server-named", name)
    channel.confirm_delivery()
    channel.basic_publish("", name.queue, b"to myself", mandatory=True)
    show_message("get by shortcut", *channel.basic_get("", auto_ack=True))
    show("exclusive elsewhere", end_of(connect(url), lambda c: c.queue_declare(name.queue, passive=True)))
    cancel_notify(connection)
    transactions(connection)
    errors(connection)
    for size in (4087, 4088, 131063, 131064, 131065, 262128, 1 << 20):
        channel.basic_publish("", name.queue, (bytes(range(256)) * (size // 256 + 1))[:size], mandatory=True)
        show_message("large", *channel.basic_get(name.queue, auto_ack=True))
    connection.close()
    again = connect(url)
    show("exclusive gone", end_of(again, lambda c: c.queue_declare(name.queue, passive=True)))


def end_of(connection, call):
    channel = connection.channel()
    try:
        return call(channel)
    except pika.exceptions.ChannelClosed as error:
        return error.args
    finally:
        connection.close()


def cancel_notify(connection):
    channel = connection.channel()
    channel.queue_declare("going", exclusive=True)
    cancelled = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("going", lambda *_: None, consumer_tag="watcher")
    other = connection.channel()
    show("delete", other.queue_delete("going").method)
    while not cancelled:
        connection.process_data_events(time_limit=0.1)
    show("cancelled", cancelled[0].method)


def transactions(connection):
    channel = connection.channel()
    channel.queue_declare("ledger", exclusive=True)
    show("tx", channel.tx_select().method)
    channel.basic_publish("", "ledger", b"undone")
    show("rollback", channel.tx_rollback().method)
    channel.basic_publish("", "ledger", b"done")
    show("commit", channel.tx_commit().method)
    show("count", channel.queue_declare("ledger", exclusive=True).method)


def errors(connection):
    attempt("consume missing", connection, lambda c: c.basic_consume("missing", lambda *_: None))
    attempt("get missing", connection, lambda c: c.basic_get("missing"))
    attempt("passive missing", connection, lambda c: c.exchange_declare("missing", passive=True))
    attempt("purge missing", connection, lambda c: c.queue_purge("missing"))
    attempt("delete missing", connection, lambda c: c.queue_delete("missing"))
    attempt("bind missing", connection, lambda c: c.queue_bind("missing", "amq.topic", "a.#"))
    attempt("reserved", connection, lambda c: c.queue_declare("amq.mine"))
    attempt("reserved exchange", connection, lambda c: c.exchange_declare("amq.mine", "topic"))
    attempt("other arguments", connection, lambda c: c.queue_declare("ledger", exclusive=True, arguments={"x-max-length": 5}))
    attempt("default exchange", connection, lambda c: c.exchange_delete(""))
    attempt("other type", connection, lambda c: c.exchange_declare("amq.topic", "direct", durable=True))

    def publish_missing(channel):
        channel.confirm_delivery()
        return channel.basic_publish("missing", "k", b"lost", mandatory=True)

    def publish_unroutable(channel):
        channel.confirm_delivery()
        return channel.basic_publish("amq.direct", "nobody", b"back", mandatory=True)

    attempt("publish missing", connection, publish_missing)
    attempt("publish unroutable", connection, publish_unroutable)


main({"work": work, "plain": plain})
