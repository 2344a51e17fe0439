"""Log in with EXTERNAL and show who that is: a message with another user_id would be refused."""

import sys

import pika

parameters = pika.URLParameters(sys.argv[1])
parameters.credentials = pika.credentials.ExternalCredentials()
connection = pika.BlockingConnection(parameters)
channel = connection.channel()
channel.confirm_delivery()
queue = channel.queue_declare("", exclusive=True).method.queue
for user in ("guest", "proxy", "app1"):
    try:
        channel.basic_publish("", queue, b"mine", pika.BasicProperties(user_id=user))
        print(user)
    except pika.exceptions.ChannelClosedByBroker:
        channel = connection.channel()
        channel.confirm_delivery()
connection.close()
