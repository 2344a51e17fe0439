package integration

import (
	"context"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// goScenarios are sessions of amqp091-go that have nothing to do with sharding.
var goScenarios = map[string]scenario{
	"work":            goWork,
	"rpc":             goRPC,
	"transactions":    goTransactions,
	"returns":         goReturns,
	"exclusive":       goExclusive,
	"cancel notify":   goCancelNotify,
	"channel errors":  goChannelErrors,
	"prefetch":        goPrefetch,
	"many channels":   goManyChannels,
	"exchange plumbs": goExchanges,
	"small frame_max": goFrameMax,
}

func (tr *transcript) delivery(d amqp.Delivery) {
	tr.add("tag=%q %d redelivered=%v %q %q left=%d type=%q %v: %d octets %08x", d.ConsumerTag, d.DeliveryTag, d.Redelivered,
		d.Exchange, d.RoutingKey, d.MessageCount, d.Type, d.Headers, len(d.Body), crc32.ChecksumIEEE(d.Body))
}

// goWork: declare, bind, publish with confirms, consume, get, purge and delete, with bodies around the frame's size.
func goWork(t *testing.T, e *env, url string, tr *transcript) {
	ch := confirming(t, url)
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 1))
	exchange, queue := e.name("jobs"), e.name("jobs-queue")
	require.NoError(t, ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	q, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 100})
	require.NoError(t, err)
	tr.add("declared %+v", q)
	require.NoError(t, ch.QueueBind(queue, "job.#", exchange, false, nil))
	deliveries, err := ch.Consume(queue, "worker", false, false, false, false, nil)
	require.NoError(t, err)
	for _, size := range []int{0, 1, 4088, 131063, 131064, 131065, 262128, 262129, 1 << 20} {
		m := amqp.Publishing{Type: "job", Headers: amqp.Table{"size": int64(size)}, DeliveryMode: 2, Body: body(size)}
		require.NoError(t, ch.PublishWithContext(t.Context(), exchange, fmt.Sprintf("job.%d", size), true, false, m))
		tr.add("confirm %+v", wait(t, "the confirm", confirms))
		d := wait(t, "the delivery", deliveries)
		tr.delivery(d)
		require.NoError(t, d.Ack(false))
	}
	require.NoError(t, ch.Cancel("worker", false))
	publish(t, ch, exchange, "job.get", text("got"))
	d, ok, err := ch.Get(queue, true)
	require.NoError(t, err)
	tr.add("get %v", ok)
	tr.delivery(d)
	_, ok, err = ch.Get(queue, true)
	tr.add("get %v %v", ok, err)
	publish(t, ch, exchange, "job.purge", text("purged"))
	n, err := ch.QueuePurge(queue, false)
	tr.add("purge %d %v", n, err)
	require.NoError(t, ch.QueueUnbind(queue, "job.#", exchange, nil))
	n, err = ch.QueueDelete(queue, true, true, false)
	tr.add("delete %d %v", n, err)
	tr.add("delete %v", ch.ExchangeDelete(exchange, true, false))
}

// goRPC: direct reply-to between two connections.
func goRPC(t *testing.T, e *env, url string, tr *transcript) {
	server, client := open(t, url), open(t, url)
	q, err := server.QueueDeclare(e.name("rpc"), false, true, false, false, nil)
	require.NoError(t, err)
	requests, err := server.Consume(q.Name, "", true, false, false, false, nil)
	require.NoError(t, err)
	replies, err := client.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	require.NoError(t, err)
	for i := range 3 {
		m := amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: fmt.Sprint(i), Body: []byte("question")}
		require.NoError(t, client.PublishWithContext(t.Context(), "", q.Name, false, false, m))
		request := wait(t, "the request", requests)
		require.NotEqual(t, "amq.rabbitmq.reply-to", request.ReplyTo)
		m = amqp.Publishing{CorrelationId: request.CorrelationId, Body: []byte("answer")}
		require.NoError(t, server.PublishWithContext(t.Context(), "", request.ReplyTo, false, false, m))
		reply := wait(t, "the reply", replies)
		tr.add("%q %q %q %d", reply.CorrelationId, reply.Body, reply.Exchange, reply.DeliveryTag)
	}
	err = client.PublishWithContext(t.Context(), "", q.Name, false, false, amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to.nobody"})
	tr.add("publish %v", err)
}

func goTransactions(t *testing.T, e *env, url string, tr *transcript) {
	ch := open(t, url)
	q, err := ch.QueueDeclare(e.name("ledger"), false, true, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.Tx())
	send := func(what string) {
		require.NoError(t, ch.PublishWithContext(t.Context(), "", q.Name, false, false, text(what)))
	}
	send("undone")
	require.NoError(t, ch.TxRollback())
	send("done")
	send("done too")
	q, err = ch.QueueDeclarePassive(q.Name, false, true, false, false, nil)
	tr.add("before the commit %+v %v", q, err)
	require.NoError(t, ch.TxCommit())
	q, err = ch.QueueDeclarePassive(q.Name, false, true, false, false, nil)
	tr.add("after the commit %+v %v", q, err)
	end := ch.NotifyClose(make(chan *amqp.Error, 1))
	tr.add("confirms too: %v", ch.Confirm(false))
	tr.add("%v", closed(t, end))
}

// goReturns: unroutable mandatory messages come back.
func goReturns(t *testing.T, e *env, url string, tr *transcript) {
	ch := confirming(t, url)
	returns, confirms := ch.NotifyReturn(make(chan amqp.Return, 1)), ch.NotifyPublish(make(chan amqp.Confirmation, 1))
	exchange := e.name("jobs")
	require.NoError(t, ch.ExchangeDeclare(exchange, "direct", false, true, false, false, nil))
	for _, name := range []string{exchange, "", "amq.topic", "amq.headers"} {
		m := amqp.Publishing{Headers: amqp.Table{"a": "b"}, Body: []byte("back")}
		require.NoError(t, ch.PublishWithContext(t.Context(), name, "nobody", true, false, m))
		r := wait(t, "the return", returns)
		tr.add("return %d %s %q %q %s %v", r.ReplyCode, r.ReplyText, r.Exchange, r.RoutingKey, r.Body, r.Headers)
		tr.add("confirm %+v", wait(t, "the confirm", confirms))
	}
}

func goExclusive(t *testing.T, e *env, url string, tr *transcript) {
	conn := dial(t, url)
	ch := channel(t, conn)
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	require.NoError(t, err)
	tr.add("%+v", q)
	tr.add("bind the last declared: %v", ch.QueueBind("", "k", "amq.direct", false, nil))
	other := dial(t, url)
	_, err = channel(t, other).QueueDeclarePassive(q.Name, false, false, true, false, nil)
	tr.add("elsewhere: %v", err)
	_, err = channel(t, other).Consume(q.Name, "", true, false, false, false, nil)
	tr.add("elsewhere: %v", err)
	_, err = ch.Consume(q.Name, "only", true, true, false, false, nil)
	require.NoError(t, err)
	_, err = channel(t, conn).Consume(q.Name, "second", true, false, false, false, nil)
	tr.add("beside an exclusive consumer: %v", err)
	end := conn.NotifyClose(make(chan *amqp.Error, 1))
	_, err = ch.Consume(q.Name, "only", true, false, false, false, nil)
	tr.add("tag in use: %v %v", err, closed(t, end))
	eventually(t, "the exclusive queue's end", func() string {
		if e.exists(q.Name) {
			return "it exists"
		}
		return ""
	})
}

func goCancelNotify(t *testing.T, e *env, url string, tr *transcript) {
	ch := open(t, url)
	q, err := ch.QueueDeclare(e.name("going"), false, false, false, false, nil)
	require.NoError(t, err)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	deliveries, err := ch.Consume(q.Name, "watcher", false, false, false, false, nil)
	require.NoError(t, err)
	n, err := open(t, url).QueueDelete(q.Name, false, false, false)
	tr.add("delete %d %v", n, err)
	tr.add("cancelled %s", wait(t, "the cancel", cancelled))
	wait(t, "the consumer's end", deliveries)
	tr.add("still open: %v", ch.Qos(1, 0, false))
}

// goPrefetch: basic.qos binds, per consumer and per channel.
func goPrefetch(t *testing.T, e *env, url string, tr *transcript) {
	for _, global := range []bool{false, true} {
		ch := confirming(t, url)
		q, err := ch.QueueDeclare("", false, false, true, false, nil)
		require.NoError(t, err)
		publishKeys(t, ch, "", []string{q.Name, q.Name, q.Name, q.Name, q.Name})
		require.NoError(t, ch.Qos(2, 0, global))
		deliveries, err := ch.Consume(q.Name, "", false, false, false, false, nil)
		require.NoError(t, err)
		one, two := wait(t, "the first", deliveries), wait(t, "the second", deliveries)
		q, err = ch.QueueDeclarePassive(q.Name, false, false, true, false, nil)
		tr.add("global=%v: %d ready, %v", global, q.Messages, err)
		require.NoError(t, one.Nack(false, true))
		d := wait(t, "one more", deliveries)
		tr.add("%d", d.DeliveryTag)
		require.NoError(t, two.Reject(false))
		require.NoError(t, ch.Ack(d.DeliveryTag, true))
		tr.add("%d", wait(t, "the next", deliveries).DeliveryTag)
	}
}

func goManyChannels(t *testing.T, e *env, url string, tr *transcript) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := dial(t, url)
	q, err := channel(t, conn).QueueDeclare(e.name("many"), false, true, false, false, nil)
	require.NoError(t, err)
	for range 300 {
		ch := channel(t, conn)
		require.NoError(t, ch.Confirm(false))
		require.NoError(t, tryPublish(ctx, ch, "", q.Name, text("one each")))
	}
	q, err = channel(t, conn).QueueDeclarePassive(q.Name, false, true, false, false, nil)
	tr.add("%+v %v", q, err)
	tr.add("heartbeat %v, %d channels", conn.Config.Heartbeat > time.Second, conn.Config.ChannelMax)
}
