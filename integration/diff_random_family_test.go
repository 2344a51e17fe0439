package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/shardmq/shardmq/frames"
)

// randFamily plays random valid steps on a few channels of both connections, with exchanges and queues that are nobody else's. Steps are
// made up as it goes, by what the broker has delivered directly; each is played every way before the next ones are.
//
// Steps that RabbitMQ carries out in the order in which they are sent are sent at once: a segment. Between segments everything comes to
// rest: all answers, confirms and deliveries are there, and every queue counts what it has to.
type randFamily struct {
	rng    *rand.Rand
	prefix string
	lanes  []*randLane // the first is direct
	model  *randModel
	tags   map[string]*randConsumer // by the tag that it has directly
	fresh  int
	next   *randKind // what is to begin the next segment
	nextOn *randChannel
	script []string
	played int
}

// randStep is a method, and a content if it is a publish.
type randStep struct {
	method frames.Method
	flags  uint16
	props  []byte
	body   []byte
	cuts   []int  // of the body, at most
	learn  string // what the name in the answer is called
}

// randSegment is what is sent at once.
type randSegment struct {
	ch    *randChannel
	steps []randStep
	fails bool // the broker closes the channel; what comes behind the first step it does not look at
}

func newRandFamily(rng *rand.Rand, prefix string, number int, ways []*randWay) (*randFamily, error) {
	f := &randFamily{rng: rng, prefix: prefix, tags: map[string]*randConsumer{},
		model: &randModel{exchanges: map[string]*randExchange{}, queues: map[string]*randQueue{}, dirty: map[*randQueue]bool{},
			past: map[string]bool{}}}
	base := 10 * number
	f.model.channels = []*randChannel{{conn: 0, number: base + 1}, {conn: 0, number: base + 2}, {conn: 1, number: base + 1}}
	for _, w := range ways {
		f.lanes = append(f.lanes, &randLane{randWay: w, control: base + 9, names: map[string]string{}})
	}
	return f, f.each(func(l *randLane) error {
		for _, key := range []randKey{{0, base + 1}, {0, base + 2}, {1, base + 1}, {0, base + 9}, {1, base + 9}} {
			if s, err := l.ask(key, &frames.ChannelOpen{}); err != nil || s.id != frames.ChannelOpenOkID {
				return fmt.Errorf("%s: channel.open: %v, %w", l.way, s, err)
			}
		}
		return nil
	})
}

// each does something on all lanes at once.
func (f *randFamily) each(do func(*randLane) error) error {
	errs := make([]error, len(f.lanes))
	var all sync.WaitGroup
	for i, l := range f.lanes {
		all.Go(func() { errs[i] = do(l) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// play plays segments until at least so many steps are played.
func (f *randFamily) play(steps int) error {
	for f.played < steps {
		if err := f.carryOut(f.segment()); err != nil {
			return err
		}
	}
	for _, ch := range f.model.channels { // when the connections end, such a consumer may or may not get what the others give back
		for _, c := range slices.Clone(ch.consumers) {
			if !c.noAck {
				continue
			}
			f.model.leave(c)
			if err := f.carryOut(&randSegment{ch: ch, steps: one(&frames.BasicCancel{ConsumerTag: c.tag})}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *randFamily) carryOut(s *randSegment) error {
	f.note(s)
	f.played += len(s.steps)
	if err := f.run(s); err != nil {
		shown := f.script[max(0, len(f.script)-randShown):]
		return fmt.Errorf("%w\nstep %d; the steps before, and the last %d at once:\n%s", err, f.played, len(s.steps), strings.Join(shown, "\n"))
	}
	return nil
}

func (f *randFamily) note(s *randSegment) {
	for i, step := range s.steps {
		frame, _ := frames.Next(method(uint16(s.ch.number), step.method), 0)
		line := fmt.Sprintf("%d.%d %s", s.ch.conn, s.ch.number, newSaid(frame))
		if step.method.ID() == frames.BasicPublishID {
			line += fmt.Sprintf(" | flags %04x %q, %d octets", step.flags, head(step.props, 100), len(step.body))
		}
		if i > 0 {
			line = "  + " + line
		}
		f.script = append(f.script, line)
	}
}

// run plays one segment every way and compares.
func (f *randFamily) run(s *randSegment) error {
	if err := f.each(func(l *randLane) error { return l.say(s) }); err != nil {
		return err
	}
	if s.fails {
		f.model.closed(s.ch)
	}
	counts, err := f.deliveries()
	if err != nil {
		return err
	}
	if err := f.each(func(l *randLane) error { return l.rest(f.model, counts) }); err != nil {
		return err
	}
	clear(f.model.dirty)
	f.model.leaving = nil
	return f.compare()
}

// keys are the family's channels.
func (m *randModel) keys() (keys []randKey) {
	for _, ch := range m.channels {
		keys = append(keys, randKey{ch.conn, ch.number})
	}
	return keys
}

// deliveries waits until every message that has a taker has been delivered directly, and puts that into the model. It returns how
// many have come, by channel.
func (f *randFamily) deliveries() (map[randKey][2]int, error) {
	want := 0
	for q := range f.model.dirty {
		want += q.expected()
	}
	direct, counts := f.lanes[0], map[randKey][2]int{}
	err := direct.await(fmt.Sprintf("%d deliveries and %d cancels", want, f.model.cancels), func() bool {
		deliveries, cancels := 0, 0
		for _, key := range f.model.keys() {
			h := direct.on(key)
			counts[key] = [2]int{len(h.deliveries), len(h.cancels)}
			deliveries, cancels = deliveries+len(h.deliveries), cancels+len(h.cancels)
		}
		return deliveries >= want && cancels >= f.model.cancels
	})
	f.model.cancels = 0
	if err != nil {
		return nil, err
	}
	direct.mu.Lock()
	defer direct.mu.Unlock()
	for _, ch := range f.model.channels {
		for _, s := range direct.on(randKey{ch.conn, ch.number}).deliveries {
			m := s.method.(*frames.BasicDeliver)
			c := f.tags[m.ConsumerTag]
			if c == nil {
				c = f.learnt(m.ConsumerTag)
			}
			if c == nil || c.ch != ch || m.DeliveryTag != ch.tag+1 {
				return nil, fmt.Errorf("the model has no place for %v behind delivery tag %d", s, ch.tag)
			}
			ch.given(c)
		}
	}
	return counts, nil
}

// learnt finds the consumer that has been given its tag by the broker.
func (f *randFamily) learnt(tag string) *randConsumer {
	for _, ch := range f.model.channels {
		for _, c := range ch.consumers {
			if f.lanes[0].names[c.tag] == tag {
				f.tags[tag] = c
				return c
			}
		}
	}
	return nil
}

// given is a delivery.
func (ch *randChannel) given(c *randConsumer) {
	ch.tag++
	if c.noAck {
		c.q.total--
		return
	}
	c.q.held++
	c.unsent++
	ch.unacked = append(ch.unacked, randDelivery{ch.tag, c.q, c})
}

// compare looks at what has come on each channel, each way, and forgets it.
func (f *randFamily) compare() error {
	for _, key := range f.model.keys() {
		want := f.lanes[0].lines(key)
		for _, l := range f.lanes[1:] {
			if got := l.lines(key); !cmp.Equal(want, got) {
				return fmt.Errorf("connection %d, channel %d: (- directly, + %s)\n%s", key.conn, key.number, l.way, cmp.Diff(want, got))
			}
		}
	}
	return nil
}
