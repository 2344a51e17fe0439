"""What the pika programs share: connecting, and a text form of properties that keeps the types apart."""

import datetime
import decimal
import json
import sys

import pika


def connect(url):
    parameters = pika.URLParameters(url)
    parameters.blocked_connection_timeout = 120
    return pika.BlockingConnection(parameters)


def say(**fields):
    """Print one JSON object on a line of its own: the Go tests read these."""
    print(json.dumps(fields, sort_keys=True), flush=True)


def text(value):
    """A readable form of a header value in which 1, True, 1.0, "1" and b"1" all differ."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s=%s" % (k, text(value[k])) for k in sorted(value))
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(text(v) for v in value)
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int):  # pika reads 64-bit numbers into a class of its own
        return "int:%d" % value
    return "%s:%r" % (type(value).__name__, value)


PROPERTY_NAMES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)


def properties_text(properties):
    """The properties that are set; an empty headers table is not the same as none."""
    values = {name: getattr(properties, name) for name in PROPERTY_NAMES}
    return {name: text(value) for name, value in values.items() if value is not None}


def all_properties(index, user):
    """All 14 basic properties, with a headers table of every kind of value pika can write."""
    return pika.BasicProperties(
        content_type="image/png", content_encoding="identity", headers=odd_headers(index),
        delivery_mode=1 + index % 2, priority=index % 10, correlation_id="correlation %d" % index,
        reply_to="reply.%d" % index, expiration="600000", message_id="message-%d" % index,
        timestamp=1500000000 + index, type="kind %d" % (index % 7), user_id=user, app_id="acceptance",
        cluster_id="cluster %d" % index,
    )


def odd_headers(index):
    """Header tables differ from message to message, so that each shape is edited at each place."""
    shapes = (
        None,
        {},
        {"a": 1},
        {"": "an empty name", "empty": "", "none": None, "yes": True, "no": False},
        {"n" * 128: "a long name", "long": "x" * 3000},
        {"small": -1, "big": 2 ** 40, "negative": -2 ** 31, "decimal": decimal.Decimal("-12.345")},
        {"time": datetime.datetime(2001, 9, 9, 1, 46, 40), "bytes": b"\x00\xff\xce raw"},
        {"table": {"in": {"in": {"deep": [1, "two", {"three": 3}, []]}}, "empty": {}}, "list": []},
        {"utf8": "naïve ☃", "CC": ["nobody.listens", "to.this"]},
        {"x-death": [{"count": 3, "reason": "expired", "queue": "q", "routing-keys": ["a", "b"]}]},
        {"BCC2": ["not", "BCC"], "bcc": ["lower case"], "AB": "BCC"},
    )
    return shapes[index % len(shapes)]


def main(commands):
    """Run `program COMMAND ARGS...`; a failure prints the exception and exits 1."""
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit("usage: %s %s ARGS..." % (sys.argv[0], "|".join(sorted(commands))))
    commands[sys.argv[1]](*sys.argv[2:])
