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

	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	connectTimeout = 5 * time.Second
	// announceEvery is how often proxies report at the least; a look that is over
	// sooner might miss one.
	announceEvery = 1200 * time.Millisecond
	// storedAtMost bounds the states read from the queue, of which there is one
	// unless a leader has just gone.
	storedAtMost = 100
)

// Listener listens to the proxies of one vhost.
type Listener struct {
	Addresses                 []string // host:port, tried in this order
	Vhost, Username, Password string
	// Dial replaces the TCP dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Listen gathers what proxies say for at least that long. Where no proxy has ever
// run it returns an empty View at once.
func (l *Listener) Listen(ctx context.Context, atLeast time.Duration) (*View, error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) })()
	v := &View{}
	if there, err := anyProxies(conn); err != nil || !there {
		return v, err
	}
	if err := v.gather(ctx, conn, l.Username, max(atLeast, announceEvery)); err != nil {
		return nil, fmt.Errorf("listen to proxies: %w", err)
	}
	if err := v.readStored(conn, l.Username); err != nil {
		return nil, fmt.Errorf("read the stored state: %w", err)
	}
	return v, v.findSilent(conn)
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
	conn, err := amqp.Open(socket, amqp.Config{
		SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: l.Username, Password: l.Password}},
		Vhost: l.Vhost, Heartbeat: connectTimeout, Locale: "en_US",
		Properties: amqp.Table{"product": "shardmq", "connection_name": "shardmq shards"},
	})
	if err != nil {
		_ = socket.Close()
		return nil, err
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

// gather asks everybody to report and takes in what comes from proxies, which log
// in as this user.
func (v *View) gather(ctx context.Context, conn *amqp.Connection, user string, atLeast time.Duration) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	messages, err := openInbox(ch)
	if err != nil {
		return err
	}
	who := amqp.Publishing{ContentType: "application/json", UserId: user, Body: coordination.Who("")}
	if err := ch.PublishWithContext(ctx, coordination.MembersExchange, "", false, false, who); err != nil {
		return err
	}
	timer := time.NewTimer(atLeast)
	defer timer.Stop()
	for {
		select {
		case d, open := <-messages:
			if !open {
				return errors.New("the connection was lost")
			}
			if d.UserId != user {
				continue // none of a proxy's, as the broker vouches
			}
			if m, err := coordination.DecodeMessage(d.Body); err == nil {
				v.Add(m)
			} else if !errors.Is(err, coordination.ErrKind) {
				return err
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readStored reads what the last leader has decided, while no proxy leads. A
// leader consumes the queue, so what is in it is not to be had then.
func (v *View) readStored(conn *amqp.Connection, user string) error {
	if v.Led {
		return nil
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() // gives back what has been read
	q, err := ch.QueueDeclarePassive(coordination.StateQueue, true, false, false, false, nil)
	if closedWith(err, amqp.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if v.Led = q.Consumers > 0; v.Led {
		return nil
	}
	for range storedAtMost {
		d, some, err := ch.Get(coordination.StateQueue, false)
		if err != nil || !some {
			return err
		}
		if d.UserId != user {
			continue
		}
		state, err := coordination.DecodeState(d.Body)
		if err != nil {
			return err
		}
		v.stored(state)
	}
	return nil
}

// findSilent looks for proxies that the leader counts on and that are connected,
// but have said nothing.
func (v *View) findSilent(conn *amqp.Connection) error {
	for _, id := range v.granted() {
		if v.reports[id] != nil {
			continue
		}
		connected, err := isConnected(conn, id)
		if err != nil {
			return fmt.Errorf("look for proxy %s: %w", id, err)
		}
		if connected {
			v.Silent = append(v.Silent, id)
		}
	}
	return nil
}

// isConnected looks for the exclusive queue that a connected proxy has.
func isConnected(conn *amqp.Connection, id string) (bool, error) {
	ch, err := conn.Channel()
	if err != nil {
		return false, err
	}
	defer ch.Close()
	_, err = ch.QueueDeclarePassive(coordination.MemberQueue+id, false, true, true, false, nil)
	switch {
	case closedWith(err, amqp.ResourceLocked):
		return true, nil
	case closedWith(err, amqp.NotFound):
		return false, nil
	}
	return err == nil, err
}

func closedWith(err error, code int) bool {
	closed, ok := errors.AsType[*amqp.Error](err)
	return ok && closed.Code == code
}
