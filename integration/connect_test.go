package integration

import (
	"iter"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// connectErrors tries to connect with each client library, in order, and yields its name and what it says.
func connectErrors(t *testing.T, url string) iter.Seq2[string, string] {
	t.Helper()
	return func(yield func(client, said string) bool) {
		said := "connected"
		conn, err := amqp.Dial(url)
		if err == nil {
			_ = conn.Close()
		} else {
			said = err.Error()
		}
		_ = yield("amqp091-go", said) &&
			yield("pika", python(t, "connect.py", url)) &&
			yield("amqplib", node(t, "connect.js", url))
	}
}
