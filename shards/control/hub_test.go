package control

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// hub is what a Transport takes of a RabbitMQ cluster, in memory and without a
// network, so that it can be used with synctest. Nodes differ in their address
// only; queues are where their faults are.
type hub struct {
	t       *testing.T
	running sync.WaitGroup

	mu        sync.Mutex
	exchanges map[string]bool
	bindings  map[[2]string][]string // queues by exchange and key; fanout: key ""
	queues    map[string]*hubQueue
	conns     map[*hubConn]bool
	asked     []string // requests, such as "consume shardmq.state"

	refused  bool            // 403 to whatever takes a right
	down     map[string]bool // queues whose node is down: 404
	hung     map[string]bool // queues that do not answer
	apart    map[string]bool // nodes that are in no cluster with the others any more
	lingers  time.Duration   // how long the end of a channel takes that looks into a queue
	mute     bool            // confirms are kept back
	stalled  chan struct{}   // until it is closed, nothing is read from those that have published
	silent   bool            // nothing is written to anybody
	confirms []func()        // kept back
}

type hubQueue struct {
	name     string
	tag      string   // of the consumer
	owner    *hubConn // of an exclusive queue
	ready    []hubMessage
	consumer *hubChannel
	alone    bool // the consumer is exclusive
	noAck    bool
	unacked  map[uint64]hubMessage
}

type hubMessage struct {
	header []byte // payload of the content header
	body   []byte
}

type hubConn struct {
	h        *hub
	node     string
	out      chan []byte // frames; closed when the connection has ended
	channels map[uint16]*hubChannel

	published, closed bool
}

type hubChannel struct {
	c       *hubConn
	id      uint16
	confirm bool
	number  uint64 // of publishes
	tag     uint64 // of deliveries
	reads   bool   // it looks into a queue, and does not lead on it
	publish *frames.BasicPublish
	header  []byte
	body    []byte
}

func newHub(t *testing.T) *hub {
	return &hub{
		t: t, exchanges: map[string]bool{}, bindings: map[[2]string][]string{}, queues: map[string]*hubQueue{},
		conns: map[*hubConn]bool{}, down: map[string]bool{}, hung: map[string]bool{}, apart: map[string]bool{},
	}
}

// dial is TransportOptions.Dial.
func (h *hub) dial(_ context.Context, _, address string) (net.Conn, error) {
	client, server := net.Pipe()
	c := &hubConn{h: h, node: address, out: make(chan []byte, 1000), channels: map[uint16]*hubChannel{}}
	h.do(func() { h.conns[c] = true })
	h.running.Go(func() { c.write(server) })
	h.running.Go(func() { c.serve(server) })
	return client, nil
}

func (h *hub) do(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn()
}

// write writes what is queued, and heartbeats as RabbitMQ does.
func (c *hubConn) write(to net.Conn) {
	defer func() { _ = to.Close() }()
	tick := time.NewTicker(heartbeat / 2)
	defer tick.Stop()
	for {
		b := frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)
		select {
		case queued, open := <-c.out:
			if !open {
				return
			}
			b = queued
		case <-tick.C:
		}
		var silent bool
		c.h.do(func() { silent = c.h.silent })
		if !silent {
			_, _ = to.Write(b)
		}
	}
}

// serve reads frames until the connection ends.
func (c *hubConn) serve(from net.Conn) {
	defer c.h.do(func() { c.end() })
	if _, err := io.ReadFull(from, make([]byte, 8)); err != nil { // protocol header
		return
	}
	c.send(0, &frames.ConnectionStart{VersionMinor: 9, Mechanisms: []byte("PLAIN"), Locales: []byte("en_US"), ServerProperties: capabilities()})
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		var stalled chan struct{}
		c.h.do(func() {
			if !c.frame(frame) {
				c.end()
			}
			if c.published {
				stalled = c.h.stalled
			}
		})
		if stalled != nil {
			<-stalled
		}
	}
}

func readFrame(from net.Conn) (frames.Frame, error) {
	head := make([]byte, frames.HeadSize)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	_, err := io.ReadFull(from, rest)
	return frames.Frame(append(head, rest...)), err
}

func capabilities() frames.Table {
	c := frames.AppendBool(frames.AppendBool(nil, "consumer_cancel_notify", true), "connection.blocked", true)
	return frames.AppendTable(nil, "capabilities", c)
}

// send queues a method. Called with mu held, or before anybody else knows c.
func (c *hubConn) send(channel uint16, m frames.Method) {
	c.queue(frames.AppendMethod(nil, channel, m))
}

func (c *hubConn) queue(b []byte) {
	if !c.closed {
		c.out <- b
	}
}

// end forgets the connection and all that depends on it. Called with mu held.
func (c *hubConn) end() {
	if c.closed {
		return
	}
	c.closed = true
	close(c.out)
	delete(c.h.conns, c)
	for _, ch := range c.channels {
		ch.end()
	}
	for name, q := range c.h.queues {
		if q.owner == c {
			c.h.remove(name)
		}
	}
}

// end takes the channel's consumers off their queues, and gives back what they
// have.
func (ch *hubChannel) end() {
	delete(ch.c.channels, ch.id)
	for _, q := range ch.c.h.queues {
		if q.consumer != ch {
			continue
		}
		q.consumer, q.alone = nil, false
		var back []hubMessage
		for tag := uint64(1); tag <= ch.tag; tag++ {
			if m, ok := q.unacked[tag]; ok {
				back = append(back, m)
			}
		}
		q.ready, q.unacked = append(back, q.ready...), nil
	}
}

// remove deletes a queue; its consumer is told.
func (h *hub) remove(name string) {
	q := h.queues[name]
	delete(h.queues, name)
	for k, queues := range h.bindings {
		h.bindings[k] = slices.DeleteFunc(queues, func(q string) bool { return q == name })
	}
	if q != nil && q.consumer != nil {
		q.consumer.c.send(q.consumer.id, &frames.BasicCancel{ConsumerTag: q.tag})
	}
}

// deliver hands out what a queue has.
func (h *hub) deliver(q *hubQueue) {
	for q.consumer != nil && len(q.ready) > 0 {
		m, ch := q.ready[0], q.consumer
		q.ready = q.ready[1:]
		ch.tag++
		if !q.noAck {
			q.unacked[ch.tag] = m
		}
		ch.c.queue(ch.content(&frames.BasicDeliver{ConsumerTag: q.tag, DeliveryTag: ch.tag}, m))
	}
}

func (ch *hubChannel) content(m frames.Method, message hubMessage) []byte {
	b := frames.AppendMethod(nil, ch.id, m)
	b = frames.AppendFrame(b, frames.TypeHeader, ch.id, message.header)
	return frames.AppendFrame(b, frames.TypeBody, ch.id, message.body)
}

// cut closes every connection, as the end of a node does.
func (h *hub) cut() {
	h.do(func() {
		for c := range h.conns {
			c.end()
		}
	})
}

// messages returns the bodies in a queue, ready and unacknowledged.
func (h *hub) messages(queue string) (all []string) {
	h.do(func() {
		q := h.queues[queue]
		if q == nil {
			all = []string{"no queue"}
			return
		}
		for _, m := range q.ready {
			all = append(all, "ready "+string(m.body))
		}
		for _, m := range q.unacked {
			all = append(all, string(m.body))
		}
	})
	slices.Sort(all)
	return all
}

// block has all connections that publish told that they are blocked, or are no
// more.
func (h *hub) block(blocked bool) {
	h.do(func() {
		for c := range h.conns {
			switch {
			case blocked:
				c.send(0, &frames.ConnectionBlocked{Reason: "low on memory"})
			default:
				c.send(0, &frames.ConnectionUnblocked{})
			}
		}
	})
}

// close ends everything and waits for it.
func (h *hub) close() {
	h.cut()
	h.running.Wait()
	require.Empty(h.t, h.conns)
}
