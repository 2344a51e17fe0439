package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// randLane is a family's part of one way.
type randLane struct {
	*randWay
	control int               // channel
	names   map[string]string // what the broker has called things, by what the script calls them
}

// say sends a segment and waits for the end of its answers.
func (l *randLane) say(s *randSegment) error {
	key, closed := randKey{s.ch.conn, s.ch.number}, false
	var b []byte
	for _, step := range s.steps {
		b = step.append(b, s.ch.number, l)
		if !s.fails && step.first() {
			if err := l.alone(key, b, step.method.ID().Reply()[0]); err != nil {
				return err
			}
			b = nil
		}
	}
	if err := l.write(s.ch.conn, append(b, method(uint16(s.ch.number), mark)...)); err != nil {
		return err
	}
	err := l.await(fmt.Sprintf("the answer to %v", s.steps[len(s.steps)-1].method.ID()), func() bool {
		h := l.on(key)
		closed = h.closed
		if closed {
			return true
		}
		return h.marks > 0 && (!s.ch.confirm || len(h.confirms) >= s.ch.published)
	})
	if err != nil {
		return err
	}
	if closed != s.fails {
		return fmt.Errorf("%s: closed: %v, and that was to be expected: %v: %v", l.way, closed, s.fails, l.on(key).answers)
	}
	if closed {
		return l.reopen(key)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.on(key)
	h.marks = 0
	if name := s.steps[0].learn; name != "" && len(h.answers) > 0 {
		switch m := h.answers[0].method.(type) {
		case *frames.QueueDeclareOk:
			l.names[name] = m.Queue
		case *frames.BasicConsumeOk:
			l.names[name] = m.ConsumerTag
		}
	}
	return nil
}

// first reports whether RabbitMQ allows nothing behind a step before it has answered, or answers what is behind first, as it happens.
func (step *randStep) first() bool {
	switch m := step.method.(type) {
	case *frames.TxCommit, *frames.ChannelClose:
		return true
	case *frames.BasicConsume:
		return !m.NoWait
	case *frames.BasicCancel:
		return !m.NoWait
	}
	return false
}

// alone sends what has to be answered before anything else is said.
func (l *randLane) alone(key randKey, b []byte, answer frames.MethodID) error {
	if err := l.write(key.conn, b); err != nil {
		return err
	}
	return l.await("the answer "+answer.String(), func() bool {
		h := l.on(key)
		return len(h.answers) > 0 && h.answers[len(h.answers)-1].id == answer
	})
}

// append encodes the step.
func (step *randStep) append(b []byte, channel int, l *randLane) []byte {
	ch := uint16(channel)
	b = append(b, method(ch, named(step.method, l.names))...)
	if step.method.ID() != frames.BasicPublishID {
		return b
	}
	b = append(b, headerFrame(ch, len(step.body), step.flags, step.props)...)
	rest := step.body
	for i := 0; len(rest) > 0; i++ {
		n := min(len(rest), l.max, max(1, step.cuts[i%len(step.cuts)]))
		b = frames.AppendFrame(b, frames.TypeBody, ch, rest[:n])
		rest = rest[n:]
	}
	return b
}

// rest waits until a lane has as much as was seen directly, and its queues what the model says.
func (l *randLane) rest(m *randModel, counts map[randKey][2]int) error {
	err := l.await("what was delivered directly", func() bool {
		for key, n := range counts {
			if h := l.on(key); len(h.deliveries) < n[0] || len(h.cancels) < n[1] {
				return false
			}
		}
		return true
	})
	for q := range m.dirty {
		if err == nil {
			err = l.settled(q)
		}
	}
	for _, q := range m.leaving {
		if err == nil {
			err = l.settled(q)
		}
	}
	return err
}

// settled waits until a queue has what the model says, or is gone.
func (l *randLane) settled(q *randQueue) error {
	key := randKey{0, l.control}
	if q.declared.Exclusive {
		key.conn = q.owner
	}
	ask := named(&frames.QueueDeclare{Queue: q.declared.Queue, Passive: true}, l.names)
	var s *said
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < patience; <-tick.C {
		var err error
		s, err = l.ask(key, ask)
		if err != nil {
			return err
		}
		if s.id == frames.ChannelCloseID {
			err := l.reopen(key)
			l.mu.Lock()
			l.on(key).answers = nil
			l.mu.Unlock()
			if err != nil || q.gone {
				return err
			}
			return fmt.Errorf("%s: %s is not there: %v", l.way, q.declared.Queue, s)
		}
		if ok := s.method.(*frames.QueueDeclareOk); !q.gone && int(ok.MessageCount) == q.ready() && (q.sharded != unsharded || int(ok.ConsumerCount) == len(q.consumers)) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s does not come to %d messages, %d consumers (gone: %v): %v", l.way, q.declared.Queue, q.ready(), len(q.consumers), q.gone, s)
}

// lines is what has come on a channel, without what differs from way to way anyway; it is forgotten.
func (l *randLane) lines(key randKey) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.on(key)
	var all []string
	add := func(what string, list []*said) {
		for _, s := range list {
			text := generated.ReplaceAllString(s.String(), "amq.$1-*")
			all = append(all, what+strings.ReplaceAll(text, "vhost '"+l.way.vhost()+"'", "vhost 'V'"))
		}
	}
	add("", h.answers)
	add("  ", h.deliveries)
	cancelled := len(all)
	add("  ", h.cancels)
	slices.Sort(all[cancelled:]) // all at once, in any order
	for _, tag := range slices.Sorted(maps.Keys(h.confirms)) {
		if tag > h.told {
			all = append(all, fmt.Sprintf("  %d confirmed: %v", tag, h.confirms[tag]))
			h.told = tag
		}
	}
	h.answers, h.deliveries, h.cancels = nil, nil, nil
	return all
}
