package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// crowd is a fleet's consumers.
type crowd struct {
	f    *fleet
	l    *ledger
	rng  *rand.Rand
	here []*member
	next int
}

func (f *fleet) crowd(l *ledger, seed uint64) *crowd {
	c := &crowd{f: f, l: l, rng: rand.New(rand.NewPCG(seed, 1))}
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Log(c.report())
		}
		c.leaveAll()
	})
	return c
}

// member is a client with one consumer of the exchange. It comes back when it may lose its connection.
type member struct {
	c        *crowd
	id       int
	proxy    int
	prefetch int
	manners  manners
	running  sync.WaitGroup

	mu                  sync.Mutex // held while a delivery is handled
	cancelling, leaving bool
	gone                chan struct{} // closed when it leaves
	conn                *amqp.Connection
	ch                  *amqp.Channel
	tcp                 net.Conn
	session             *session
	got                 int
}

// manners are how a member settles what it gets.
type manners interface {
	// take is called with the member's lock held.
	take(m *member, d amqp.Delivery, k *taking)
	// holds is how many it has not settled.
	holds() int
}

// prompt acknowledges each message at once.
type prompt struct{}

func (prompt) take(m *member, d amqp.Delivery, k *taking) {
	if d.Ack(false) == nil {
		m.c.l.ack(k)
	}
}

func (prompt) holds() int { return 0 }

const memberTag = "member"

// join adds a consumer at that proxy and returns when it has its consume-ok.
func (c *crowd) join(proxy, prefetch int, how manners) *member {
	c.f.t.Helper()
	m := &member{c: c, id: c.next, proxy: proxy, prefetch: prefetch, manners: how, gone: make(chan struct{})}
	c.next++
	deliveries, err := m.open()
	for c.f.faulty.Load() && err != nil {
		eventually(c.f.t, "a consumer", func() string {
			if deliveries, err = m.open(); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	require.NoError(c.f.t, err, "client %d joins at proxy %d", m.id, proxy)
	c.here = append(c.here, m)
	m.running.Go(func() { m.run(deliveries) })
	return m
}

// open begins a session.
func (m *member) open() (<-chan amqp.Delivery, error) {
	conn, tcp, err := m.c.f.dial(m.proxy)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if !m.has(conn, ch, tcp) {
		_ = conn.Close()
		return nil, errLeft
	}
	if err = ch.Qos(m.prefetch, 0, false); err != nil {
		_ = conn.Close()
		return nil, err
	}
	deliveries, err := ch.Consume(m.c.f.o.exchange, memberTag, false, false, false, false, nil)
	if err != nil {
		_ = conn.Close()
	}
	return deliveries, err
}

var errLeft = errors.New("the client has left")

// has gives the member its new connection, unless it has left meanwhile.
func (m *member) has(conn *amqp.Connection, ch *amqp.Channel, tcp net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving || m.cancelling {
		return false
	}
	m.conn, m.ch, m.tcp, m.session = conn, ch, tcp, &session{}
	return true
}

// run handles deliveries until the member leaves.
func (m *member) run(deliveries <-chan amqp.Delivery) {
	for {
		ends := m.ch.NotifyClose(make(chan *amqp.Error, 1))
		cancelled := m.ch.NotifyCancel(make(chan string, 1))
		for d := range deliveries {
			m.handle(d)
		}
		if m.ended(ends, cancelled) {
			return
		}
		if deliveries = m.reopen(); deliveries == nil {
			return
		}
	}
}

func (m *member) handle(d amqp.Delivery) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving {
		return // a delivery that the client does not take; it goes back when the channel ends
	}
	m.got++
	var k *taking
	if _, none := m.manners.(*backlogged); !none {
		k = m.c.l.take(string(d.Body), m.session, d.Redelivered)
	}
	m.manners.take(m, d, k)
}

// ended notes how a session came to its end and tells whether that is the member's end too.
func (m *member) ended(ends <-chan *amqp.Error, cancelled <-chan string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving || m.cancelling {
		return true
	}
	m.c.l.end(m.session, true)
	reason := "its deliveries ended"
	select {
	case err := <-ends:
		reason = fmt.Sprintf("its channel was closed: %v", err)
	case <-cancelled:
		reason = "its consumer was cancelled"
	default:
	}
	_ = m.conn.Close()
	if !m.c.f.mayLose(m.proxy) {
		m.c.l.problem("client %d at proxy %d: %s", m.id, m.proxy, reason)
	}
	return false
}

// reopen begins another session, at another proxy if its own is gone; nil if the member leaves meanwhile.
func (m *member) reopen() <-chan amqp.Delivery {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		select {
		case <-m.gone:
			return nil
		case <-retry.C:
		}
		m.c.l.reconnected()
		if living := m.c.f.living(); !slices.Contains(living, m.proxy) {
			m.proxy = living[m.id%len(living)]
		}
		deliveries, err := m.open()
		if err == nil {
			return deliveries
		}
		if !errors.Is(err, errLeft) && !m.c.f.mayLose(m.proxy) {
			m.c.l.problem("client %d at proxy %d cannot consume: %v", m.id, m.proxy, err)
		}
	}
}

// received is how many deliveries the member has had.
func (m *member) received() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got
}

// The ways to leave.
const (
	byCancel = iota
	byChannel
	byConnection
	byBreak
	waysToLeave
)

// leave ends the member; it has no more part in anything when it returns.
func (m *member) leave(way int) {
	if way == byCancel {
		m.cancel()
	}
	m.mu.Lock()
	if m.leaving {
		m.mu.Unlock()
		return
	}
	m.leaving = true // from here on it acknowledges nothing, so that what it has acknowledged comes before the end
	close(m.gone)
	conn, ch, tcp, s := m.conn, m.ch, m.tcp, m.session
	m.mu.Unlock()
	var err error
	switch way {
	case byChannel:
		err = ch.Close()
	case byBreak:
		err = tcp.Close()
		m.c.l.end(s, true)
	}
	if closed := conn.Close(); err != nil || closed != nil {
		m.c.l.end(s, true)
	}
	m.running.Wait()
	m.c.here = slices.DeleteFunc(m.c.here, func(x *member) bool { return x == m })
}

// cancel ends the consumer and handles what was under way to it.
func (m *member) cancel() {
	m.mu.Lock()
	m.cancelling = true
	ch, s := m.ch, m.session
	m.mu.Unlock()
	if err := ch.Cancel(memberTag, false); err != nil {
		m.c.l.end(s, true)
		return
	}
	m.running.Wait()
}

func (c *crowd) leaveAll() {
	for len(c.here) > 0 {
		c.here[0].leave(byConnection)
	}
}

// step lets one consumer come, at any proxy, or go, in any way: the more are here, the likelier one goes. One stays.
func (c *crowd) step(usual int) {
	c.f.t.Helper()
	if len(c.here) > 1 && c.rng.IntN(2*usual) < len(c.here) {
		c.here[c.rng.IntN(len(c.here))].leave(c.rng.IntN(waysToLeave))
		return
	}
	c.join(c.f.anyone(c.rng), []int{0, 20, 50}[c.rng.IntN(3)], prompt{})
}
