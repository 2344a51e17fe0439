// Command amqp091-go is the client matrix's session with the Go library: it prints one line for each step, and ends at
// the first thing that is wrong.
//
//	amqp091-go URL EXCHANGE QUEUE KIND [restart]
//
// With "restart" it only declares, and sees what it is connected to end and start again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// patience bounds every wait; only something that is broken reaches it.
const patience = time.Minute

const messages = 20

type session struct {
	url, exchange, queue, kind string

	conn   *amqp.Connection
	ch     *amqp.Channel
	inbox  <-chan amqp.Delivery
	closed chan *amqp.Error
}

type step struct {
	name string
	do   func() (string, error)
}

func main() {
	if len(os.Args) != 5 && len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: amqp091-go URL EXCHANGE QUEUE KIND [restart]")
		os.Exit(2)
	}
	s := session{url: os.Args[1], exchange: os.Args[2], queue: os.Args[3], kind: os.Args[4]}
	fmt.Println("version", version())
	steps := []step{
		{"declare", s.declare}, {"confirm", s.confirm}, {"consume", s.consume}, {"ack", s.ack}, {"nack", s.nack},
		{"get", s.get}, {"rpc", s.rpc}, {"error", s.fail}, {"reconnect", s.reconnect},
	}
	if len(os.Args) == 6 {
		steps = []step{steps[0], {os.Args[5], s.restart}}
	}
	for _, step := range steps {
		said, err := step.do()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", step.name, err)
			os.Exit(1)
		}
		fmt.Printf("ok %s: %s\n", step.name, said)
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/rabbitmq/amqp091-go" {
			return module.Version
		}
	}
	return "unknown"
}

func (s *session) connect() (err error) {
	if s.conn, err = amqp.Dial(s.url); err != nil {
		return err
	}
	s.closed = s.conn.NotifyClose(make(chan *amqp.Error, 1))
	if s.ch, err = s.conn.Channel(); err != nil {
		return err
	}
	return s.ch.Confirm(false)
}

func (s *session) declare() (string, error) {
	if err := s.connect(); err != nil {
		return "", err
	}
	if err := s.ch.ExchangeDeclare(s.exchange, s.kind, true, false, false, false, nil); err != nil {
		return "", err
	}
	q, err := s.ch.QueueDeclare(s.queue, true, false, false, false, nil)
	if err != nil {
		return "", err
	}
	if q.Name != s.queue || q.Messages != 0 {
		return "", fmt.Errorf("declared %+v", q)
	}
	return "exchange, queue and binding", s.ch.QueueBind(s.queue, "any", s.exchange, false, nil)
}

// publish waits for the message's confirm.
func (s *session) publish(exchange, key, body string, more ...func(*amqp.Publishing)) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	msg := amqp.Publishing{Body: []byte(body)}
	for _, set := range more {
		set(&msg)
	}
	confirm, err := s.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, msg)
	if err != nil {
		return err
	}
	if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
		return fmt.Errorf("message %q: acked %v, %v", body, acked, err)
	}
	return nil
}

func (s *session) confirm() (string, error) {
	returns := s.ch.NotifyReturn(make(chan amqp.Return, messages))
	for i := range messages {
		if err := s.publish(s.exchange, fmt.Sprintf("key.%d", i), fmt.Sprintf("message %d", i)); err != nil {
			return "", err
		}
	}
	if len(returns) > 0 {
		return "", fmt.Errorf("returned: %+v", <-returns)
	}
	return fmt.Sprintf("%d messages", messages), nil
}

func receive[T any](from <-chan T) (T, error) {
	select {
	case v, open := <-from:
		if !open {
			return v, errors.New("the channel was closed")
		}
		return v, nil
	case <-time.After(patience):
		var none T
		return none, errors.New("nothing came")
	}
}

func (s *session) consume() (_ string, err error) {
	if err := s.ch.Qos(10, 0, false); err != nil {
		return "", err
	}
	if s.inbox, err = s.ch.Consume(s.queue, "worker", false, false, false, false, nil); err != nil {
		return "", err
	}
	seen := map[string]bool{}
	for len(seen) < messages {
		d, err := receive(s.inbox)
		if err != nil {
			return "", fmt.Errorf("after %d messages: %w", len(seen), err)
		}
		var number int
		if _, err := fmt.Sscanf(string(d.Body), "message %d", &number); err != nil || seen[string(d.Body)] ||
			d.Exchange != s.exchange || d.RoutingKey != fmt.Sprintf("key.%d", number) || d.ConsumerTag != "worker" {
			return "", fmt.Errorf("came: %q, exchange %q, key %q, tag %q", d.Body, d.Exchange, d.RoutingKey, d.ConsumerTag)
		}
		seen[string(d.Body)] = true
		if err := d.Ack(false); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d messages, each once", messages), nil
}

// ack closes the channel: what had not been acknowledged would be in the queue again.
func (s *session) ack() (_ string, err error) {
	if err := s.ch.Close(); err != nil {
		return "", err
	}
	if s.ch, err = s.conn.Channel(); err != nil {
		return "", err
	}
	q, err := s.ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
	if err != nil || q.Messages != 0 || q.Consumers != 0 {
		return "", fmt.Errorf("left: %+v, %v", q, err)
	}
	return "nothing left", s.ch.Confirm(false)
}

func (s *session) nack() (_ string, err error) {
	if s.inbox, err = s.ch.Consume(s.queue, "worker", false, false, false, false, nil); err != nil {
		return "", err
	}
	if err := s.publish(s.exchange, "again", "again"); err != nil {
		return "", err
	}
	for _, redelivered := range []bool{false, true} {
		d, err := receive(s.inbox)
		if err != nil || string(d.Body) != "again" || d.Redelivered != redelivered {
			return "", fmt.Errorf("came: %q, redelivered %v, %v", d.Body, d.Redelivered, err)
		}
		if err := d.Nack(false, !redelivered); err != nil {
			return "", err
		}
	}
	return "redelivered, then dropped", s.ch.Cancel("worker", false)
}

func (s *session) get() (string, error) {
	for i := range 3 {
		if err := s.publish(s.exchange, fmt.Sprint(i), fmt.Sprintf("get %d", i)); err != nil {
			return "", err
		}
	}
	for range 3 {
		d, ok, err := s.ch.Get(s.queue, false)
		if err != nil || !ok || string(d.Body) != "get "+d.RoutingKey {
			return "", fmt.Errorf("got %v %q with key %q, %v", ok, d.Body, d.RoutingKey, err)
		}
		if err := d.Ack(false); err != nil {
			return "", err
		}
	}
	if _, ok, err := s.ch.Get(s.queue, false); ok || err != nil {
		return "", fmt.Errorf("got a fourth: %v, %v", ok, err)
	}
	return "3 messages, then empty", nil
}

func (s *session) rpc() (string, error) {
	const replyTo = "amq.rabbitmq.reply-to"
	requests, err := s.ch.Consume(s.queue, "server", false, false, false, false, nil)
	if err != nil {
		return "", err
	}
	asker, err := s.conn.Channel()
	if err != nil {
		return "", err
	}
	replies, err := asker.Consume(replyTo, "", true, false, false, false, nil)
	if err != nil {
		return "", err
	}
	err = asker.Publish(s.exchange, "rpc", false, false, amqp.Publishing{Body: []byte("question"), ReplyTo: replyTo, CorrelationId: "call"})
	if err != nil {
		return "", err
	}
	request, err := receive(requests)
	if err != nil {
		return "", err
	}
	err = s.ch.Publish("", request.ReplyTo, false, false, amqp.Publishing{Body: []byte("answer"), CorrelationId: request.CorrelationId})
	if err = errors.Join(err, request.Ack(false)); err != nil {
		return "", err
	}
	reply, err := receive(replies)
	if err != nil || string(reply.Body) != "answer" || reply.CorrelationId != "call" {
		return "", fmt.Errorf("reply %q to %q, %v", reply.Body, reply.CorrelationId, err)
	}
	return "direct reply-to", errors.Join(asker.Close(), s.ch.Cancel("server", false))
}

func (s *session) fail() (string, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return "", err
	}
	_, err = ch.QueueDeclarePassive("missing", false, false, false, false, nil)
	var refused *amqp.Error
	if !errors.As(err, &refused) || !ch.IsClosed() {
		return "", fmt.Errorf("a missing queue was declared, or: %v", err)
	}
	if _, err := s.ch.QueueDeclarePassive(s.queue, true, false, false, false, nil); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s; the connection goes on", refused.Code, refused.Reason), nil
}

func (s *session) reconnect() (string, error) {
	fmt.Println("wait reconnect")
	lost, err := receive(s.closed)
	if err != nil {
		return "", err
	}
	if err := s.connect(); err != nil {
		return "", err
	}
	if err := s.publish(s.exchange, "0", "get 0"); err != nil {
		return "", err
	}
	d, ok, err := s.ch.Get(s.queue, true)
	if err != nil || !ok || string(d.Body) != "get 0" {
		return "", fmt.Errorf("got %v %q, %v", ok, d.Body, err)
	}
	return fmt.Sprintf("after %d %s", lost.Code, lost.Reason), s.conn.Close()
}
