"""The acceptance programs: what a pika user does with a sharded exchange and its pseudo-queue."""

import threading
import time

import pika

from common import all_properties, connect, main, properties_text, say


# A consumer gives up, and reports what is missing, when nothing has arrived for this many seconds.
IDLE_LIMIT = 30


def key_of(index):
    """Routing keys of one to four words, and every 100th one empty or odd."""
    if index % 100 == 99:
        return ("", ".", "a..b", "key with spaces %d" % index)[index // 100 % 4] + ("" if index < 400 else str(index))
    return "key-%d" % index + (".word" * (index % 4))


def user_of(url):
    return pika.URLParameters(url).credentials.username


def publish(url, exchange, count):
    """Declare the sharded exchange and publish count messages, each confirmed before the next."""
    connection = connect(url)
    channel = connection.channel()
    channel.exchange_declare(exchange, "x-modulus-hash", durable=True)
    channel.confirm_delivery()
    user = user_of(url)
    for index in range(int(count)):
        # mandatory: pika raises UnroutableError when the message reaches no queue, NackError when refused
        channel.basic_publish(exchange, key_of(index), b"body %d" % index, all_properties(index, user), mandatory=True)
    connection.close()
    say(confirmed=int(count))


class Consumer(threading.Thread):
    """One connection consuming on its own thread until all consumers together have seen `count` messages."""

    def __init__(self, url, queue, prefetch, shared):
        super().__init__(daemon=True)
        self.url, self.queue, self.prefetch, self.shared = url, queue, prefetch, shared
        self.received, self.most_unacked, self.error = [], 0, None

    def run(self):
        try:
            self.consume()
        except Exception as error:  # reported by the main thread
            self.error = repr(error)
            self.shared.stop()

    def consume(self):
        connection = connect(self.url)
        channel = connection.channel()
        if self.prefetch:
            channel.basic_qos(prefetch_count=self.prefetch)
        unacked = []

        def on_message(_channel, method, properties, body):
            self.received.append((method, properties, body))
            unacked.append(method.delivery_tag)
            self.most_unacked = max(self.most_unacked, len(unacked))

        channel.basic_consume(self.queue, on_message)
        self.shared.ready.wait()
        while not self.shared.over():
            connection.process_data_events(time_limit=0.05)
            for tag in unacked:
                channel.basic_ack(tag)
                self.shared.add()
            unacked.clear()
        connection.close()


class Shared:
    """Counts what all consumers have acknowledged; finished when that reaches the number expected."""

    def __init__(self, consumers, expected):
        self.ready = threading.Barrier(consumers)
        self.finished, self.left, self.lock = threading.Event(), expected, threading.Lock()
        self.last = time.monotonic()

    def over(self):
        return self.finished.is_set() or time.monotonic() - self.last > IDLE_LIMIT

    def add(self):
        with self.lock:
            self.left -= 1
            self.last = time.monotonic()
            if self.left <= 0:
                self.finished.set()

    def stop(self):
        self.ready.abort()
        self.finished.set()


def consume(url, queue, count, consumers, prefetch):
    """Consume count messages by several connections and compare each with what publish sent."""
    shared = Shared(int(consumers), int(count))
    threads = [Consumer(url, queue, int(prefetch), shared) for _ in range(int(consumers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    problems = [thread.error for thread in threads if thread.error]
    seen = {}
    for thread in threads:
        for method, properties, body in thread.received:
            index = int(body.split()[1])
            seen[index] = seen.get(index, 0) + 1
            problems += differences(index, queue, user_of(url), method, properties)
    problems += ["message %d arrived %d times" % (i, seen.get(i, 0)) for i in range(int(count)) if seen.get(i) != 1]
    say(each=[len(thread.received) for thread in threads], most_unacked=[thread.most_unacked for thread in threads],
        problems=problems[:20], problem_count=len(problems))


def differences(index, exchange, user, method, properties):
    """What differs between a delivered message and the published one."""
    found = []
    if method.exchange != exchange:
        found.append("message %d: exchange %r instead of %r" % (index, method.exchange, exchange))
    if method.routing_key != key_of(index):
        found.append("message %d: routing key %r instead of %r" % (index, method.routing_key, key_of(index)))
    want, got = properties_text(all_properties(index, user)), properties_text(properties)
    if properties.headers and "BCC" in properties.headers:
        found.append("message %d: BCC was delivered: %s" % (index, got["headers"]))
    for name in sorted(set(want) | set(got)):
        if want.get(name) != got.get(name):
            found.append("message %d: %s is %s instead of %s" % (index, name, got.get(name), want.get(name)))
    return found


def declare(url, queue):
    connection = connect(url)
    channel = connection.channel()
    answers = []
    for passive in (False, True):
        ok = channel.queue_declare(queue, durable=True, passive=passive).method
        answers.append({"queue": ok.queue, "messages": ok.message_count, "consumers": ok.consumer_count})
    connection.close()
    say(answers=answers)


def get(url, queue):
    """basic_get until empty."""
    connection = connect(url)
    channel = connection.channel()
    seen, left = [], []
    while True:
        method, _properties, body = channel.basic_get(queue)
        if method is None:
            break
        seen.append(int(body.split()[1]))
        left.append(method.message_count)
        channel.basic_ack(method.delivery_tag)
    connection.close()
    say(count=len(seen), distinct=len(set(seen)), left=left)


def purge(url, queue):
    connection = connect(url)
    ok = connection.channel().queue_purge(queue).method
    connection.close()
    say(purged=ok.message_count)


def shortcut(url, exchange):
    """queue='' means the channel's last declared queue, also when that is a pseudo-queue."""
    connection = connect(url)
    channel = connection.channel()
    channel.queue_declare(exchange, durable=True)
    channel.queue_bind("", exchange, "any")
    channel.confirm_delivery()
    for index in range(40):
        channel.basic_publish(exchange, key_of(index), b"body %d" % index, mandatory=True)
    first, _properties, _body = channel.basic_get("", auto_ack=True)
    received = []
    tag = channel.basic_consume("", lambda _c, method, _p, _b: received.append(method.routing_key), auto_ack=True)
    deadline = time.monotonic() + IDLE_LIMIT
    while len(received) < 39 and time.monotonic() < deadline:
        connection.process_data_events(time_limit=0.05)
    channel.basic_cancel(tag)
    for index in range(7):
        channel.basic_publish(exchange, key_of(index), b"body %d" % index, mandatory=True)
    purged = channel.queue_purge("").method.message_count
    connection.close()
    keys = sorted([first.routing_key] + received)
    say(keys=len(keys), expected=keys == sorted(key_of(i) for i in range(40)), purged=purged)


main({f.__name__: f for f in (publish, consume, declare, get, purge, shortcut)})
