package inventory

import (
	"context"
	crypto "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/config/amqpopen"
	"github.com/shardmq/shardmq/shards/control"
	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	connectTimeout = 5 * time.Second
	// stepTimeout is how long RabbitMQ has to answer what is asked for one purpose.
	stepTimeout = 5 * time.Second
	// insistEvery is how often what is insisted on is said.
	insistEvery = time.Second
	// announceEvery is how often proxies report at the least; a look that is over
	// sooner might miss one.
	announceEvery = 1200 * time.Millisecond
)

var errLost = errors.New("the connection was lost")

// Listener listens to the proxies of one vhost.
type Listener struct {
	Addresses                 []string // host:port, tried in this order
	Vhost, Username, Password string
	// Dial replaces the TCP dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Listen gathers what proxies say for at least that long; where no proxy has ever
// run it does not wait. What could not be heard or read is in the View's Warnings.
// Without a connection it returns an error, and ctx's cause when that ends.
func (l *Listener) Listen(ctx context.Context, atLeast time.Duration) (*View, error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) })()
	v := &View{}
	for _, step := range []struct {
		what  string
		limit time.Duration
		do    func() error
	}{
		{"listen to proxies", max(atLeast, announceEvery) + stepTimeout, func() error { return v.hear(ctx, conn, l, max(atLeast, announceEvery)) }},
		{"read the stored state", stepTimeout, func() error { return v.readStored(conn, l.Username) }},
		{"look for silent proxies", stepTimeout, func() error { return v.findSilent(conn) }},
	} {
		err := errLost
		if !conn.IsClosed() {
			err = within(conn, step.limit, step.do)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			v.miss(fmt.Errorf("%s: %w", step.what, err))
		}
		if err != nil && conn.IsClosed() {
			break // nor can anything else be asked
		}
	}
	return v, nil
}

// within runs fn, whose requests fail once limit is over: what is on a node that is
// down may not answer for a minute.
func within(conn *amqp.Connection, limit time.Duration, fn func() error) error {
	timer := time.AfterFunc(limit, func() { _ = conn.CloseDeadline(time.Now()) })
	err := fn()
	if !timer.Stop() {
		return fmt.Errorf("RabbitMQ has not answered within %s", limit)
	}
	return err
}

// Insist publishes messages to the proxies every second, until ctx ends.
func (l *Listener) Insist(ctx context.Context, messages ...[]byte) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) })()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("tell proxies: %w", err)
	}
	again := time.NewTicker(insistEvery)
	defer again.Stop()
	for {
		for _, body := range messages {
			if err := l.publish(ctx, ch, body); err != nil && ctx.Err() == nil {
				return fmt.Errorf("tell proxies: %w", err)
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// publish sends a message to the proxies, as they do: what does not name its sender
// they do not believe.
func (l *Listener) publish(ctx context.Context, ch *amqp.Channel, body []byte) error {
	return ch.PublishWithContext(ctx, coordination.MembersExchange, "", false, false,
		amqp.Publishing{ContentType: "application/json", UserId: l.Username, Body: body})
}

func (l *Listener) connect(ctx context.Context) (*amqp.Connection, error) {
	var errs []error
	for _, address := range l.Addresses {
		conn, err := l.connectTo(ctx, address)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("listen to proxies: %w", errors.Join(errs...))
}

func (l *Listener) connectTo(ctx context.Context, address string) (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dial := l.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	socket, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	conn, err := amqpopen.Open(socket, amqp.Config{
		SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: l.Username, Password: l.Password}},
		Vhost: l.Vhost, Heartbeat: connectTimeout, Locale: "en_US",
		Properties: amqp.Table{"product": "shardmq", "connection_name": "shardmq shards"},
	})
	if err != nil {
		return nil, control.Plain(err)
	}
	return conn, nil
}

// anyProxies reports whether proxies have ever run in the vhost.
func anyProxies(conn *amqp.Connection) (bool, error) {
	ch, err := conn.Channel()
	if err != nil {
		return false, err
	}
	defer ch.Close()
	err = ch.ExchangeDeclarePassive(coordination.MembersExchange, amqp.ExchangeFanout, true, false, false, false, nil)
	if closedWith(err, amqp.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// openInbox has what proxies say delivered.
func openInbox(ch *amqp.Channel) (<-chan amqp.Delivery, error) {
	var random [8]byte
	_, _ = crypto.Read(random[:]) // never fails
	q, err := ch.QueueDeclare(coordination.InboxQueue+hex.EncodeToString(random[:]), false, true, true, false, amqp.Table{"x-queue-type": "classic"})
	if err != nil {
		return nil, err
	}
	if err := ch.QueueBind(q.Name, "", coordination.MembersExchange, false, nil); err != nil {
		return nil, err
	}
	return ch.Consume(q.Name, "", true, true, false, false, nil)
}

// hear asks everybody to report and takes in what comes from proxies, which log
// in as this user.
func (v *View) hear(ctx context.Context, conn *amqp.Connection, l *Listener, atLeast time.Duration) error {
	there, err := anyProxies(conn)
	if err != nil || !there {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	messages, err := openInbox(ch)
	if err != nil {
		return err
	}
	if err := l.publish(ctx, ch, coordination.Who("")); err != nil {
		return err
	}
	timer := time.NewTimer(atLeast)
	defer timer.Stop()
	for {
		select {
		case d, open := <-messages:
			if !open {
				return errLost
			}
			v.take(d, l.Username)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take takes in one message of the fanout exchange.
func (v *View) take(d amqp.Delivery, user string) {
	where := "exchange '" + coordination.MembersExchange + "'"
	if d.UserId != user {
		v.foreign(where) // none of a proxy's, as the broker vouches
		return
	}
	switch m, err := coordination.DecodeMessage(d.Body); {
	case err == nil:
		v.Add(m)
	case !errors.Is(err, coordination.ErrKind): // kinds may be added
		v.unread(where, err)
	}
}
