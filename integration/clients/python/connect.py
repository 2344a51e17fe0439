"""Try to connect and show what pika says about it."""

import sys

import pika
import pika.exceptions

try:
    pika.BlockingConnection(pika.URLParameters(sys.argv[1])).close()
    print("connected")
except pika.exceptions.AMQPError as error:
    print("%s: %s" % (type(error).__name__, error if str(error) else error.args))
