package integration

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// windowed settles several messages at a time, in all the ways there are: it keeps what it gets until it has size of
// them, then in turns acknowledges them one by one, newest first; all at once (multiple); sends them back by nack
// (multiple), by reject or by recover; and acknowledges what comes again.
type windowed struct {
	size  int
	turns []func(*windowed, *member) // default: acknowledgements only
	most  int                        // the most that were unacknowledged at a time
	held  []heldDelivery
	of    *session
	turn  int
}

type heldDelivery struct {
	d amqp.Delivery
	k *taking
}

func (s *windowed) take(m *member, d amqp.Delivery, k *taking) {
	if s.of != m.session {
		s.held, s.of = nil, m.session // what an earlier session held has gone back
	}
	s.held = append(s.held, heldDelivery{d, k})
	s.most = max(s.most, len(s.held))
	if m.prefetch > 0 && len(s.held) > m.prefetch {
		m.c.l.problem("client %d has %d messages unacknowledged; its prefetch is %d", m.id, len(s.held), m.prefetch)
	}
	if len(s.held) >= s.size {
		s.settle(m)
	}
}

func (s *windowed) holds() int { return len(s.held) }

func (s *windowed) settle(m *member) {
	turns := s.turns
	if turns == nil {
		turns = []func(*windowed, *member){ackEach, ackMultiple}
	}
	for _, h := range s.held {
		if h.k.redelivered {
			ackMultiple(s, m) // once back is enough: there is to be an end
			return
		}
	}
	s.turn++
	turns[s.turn%len(turns)](s, m)
}

// Every way first forgets what it settles, so that what the client believes to be unacknowledged is never more than
// what the broker believes.

func ackEach(s *windowed, m *member) {
	for len(s.held) > 0 {
		last := s.held[len(s.held)-1]
		s.held = s.held[:len(s.held)-1]
		if last.d.Ack(false) == nil {
			m.c.l.ack(last.k)
		}
	}
}

func ackMultiple(s *windowed, m *member) {
	if len(s.held) == 0 {
		return
	}
	all := s.held
	s.held = nil
	if all[len(all)-1].d.Ack(true) == nil {
		for _, h := range all {
			if h.k != nil {
				m.c.l.ack(h.k)
			}
		}
	}
}

func nackMultiple(s *windowed, m *member) {
	last := s.held[len(s.held)-1]
	s.held = nil
	_ = last.d.Nack(true, true)
}

func rejectEach(s *windowed, _ *member) {
	for len(s.held) > 0 {
		first := s.held[0]
		s.held = s.held[1:]
		_ = first.d.Reject(true)
	}
}

// recoverAll is only for windows as large as the prefetch: then nothing more is under way, which would go back as well.
func recoverAll(s *windowed, m *member) {
	s.held = nil
	if err := m.ch.Recover(true); err != nil && !m.c.f.mayLose(m.proxy) {
		m.c.l.problem("client %d recovers: %v", m.id, err)
	}
}

// changeQos sets a prefetch for consumers to come, which this one is not.
func changeQos(s *windowed, m *member) {
	ackEach(s, m)
	if err := m.ch.Qos(m.prefetch+s.turn%7, 0, false); err != nil && !m.c.f.mayLose(m.proxy) {
		m.c.l.problem("client %d sets its prefetch: %v", m.id, err)
	}
}

// flush acknowledges what a windowed member still keeps, and from now on each message at once.
func (m *member) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.manners.(*windowed); ok {
		if s.of == m.session {
			ackMultiple(s, m)
		}
		s.size, s.turns = 1, nil
	}
}

// clinging never settles what it gets.
type clinging struct{ held []string }

func (s *clinging) take(m *member, d amqp.Delivery, _ *taking) {
	s.held = append(s.held, string(d.Body))
	if len(s.held) > m.prefetch {
		m.c.l.problem("client %d holds %d messages; its prefetch is %d", m.id, len(s.held), m.prefetch)
	}
}

func (s *clinging) holds() int { return len(s.held) }

// holding is what a clinging member has, or how many it lacks.
func (m *member) holding(n int) ([]string, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.manners.(*clinging).held
	if len(held) < n {
		return nil, fmt.Sprintf("it holds %d of %d", len(held), n)
	}
	return held, ""
}

// unhurried acknowledges what it has a moment after the first of it came, so that a consumer that loses a
// shard still has messages of it.
type unhurried struct {
	held []heldDelivery
	of   *session
}

func (s *unhurried) take(m *member, d amqp.Delivery, k *taking) {
	if s.of != m.session {
		s.held, s.of = nil, m.session
	}
	if s.held = append(s.held, heldDelivery{d, k}); len(s.held) == 1 {
		of := s.of
		time.AfterFunc(20*time.Millisecond, func() { s.settle(m, of) })
	}
}

func (s *unhurried) holds() int { return len(s.held) }

func (s *unhurried) settle(m *member, of *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving || of != m.session || of != s.of || len(s.held) == 0 {
		return
	}
	all := s.held
	s.held = nil
	if all[len(all)-1].d.Ack(true) == nil {
		for _, h := range all {
			if h.k != nil {
				m.c.l.ack(h.k)
			}
		}
	}
}
