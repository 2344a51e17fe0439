package control

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// voice is a transport on a hub, and what it has told.
type voice struct {
	*Transport
	mu       sync.Mutex
	leads    bool
	told     []string // "elected STATE", "deposed", "connected", "disconnected"
	heard    []string
	warnings []string
	reading  sync.WaitGroup
}

func (h *hub) voice(addresses ...string) *voice {
	v := &voice{}
	o := TransportOptions{Vhost: "/", Username: "u", Password: "pw", Dial: h.dial, Log: v, Newer: func(a, b []byte) bool { return string(a) > string(b) }}
	if addresses == nil {
		addresses = []string{"a:1"}
	}
	o.Nodes = func() (nodes []NodeAddress) {
		for _, a := range addresses {
			nodes = append(nodes, NodeAddress{Name: "r@" + a[:1], Address: a})
		}
		return nodes
	}
	v.Transport = NewTransport(o)
	v.reading.Go(v.read)
	return v
}

func (v *voice) read() {
	for e := range v.Events() {
		v.mu.Lock()
		switch e.Kind {
		case coordination.Received:
			v.heard = append(v.heard, string(e.Body))
		case coordination.Elected:
			v.leads = true
			v.told = append(v.told, "elected "+string(e.Body))
		case coordination.Deposed:
			v.leads = false
			v.told = append(v.told, "deposed")
		case coordination.Connected:
			v.told = append(v.told, "connected")
		case coordination.Disconnected:
			v.told = append(v.told, "disconnected")
		}
		v.mu.Unlock()
	}
}

func (v *voice) Info(string, ...any) {}
func (v *voice) Warn(msg string, kv ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.warnings = append(v.warnings, msg)
}

// story takes what was told since the last time.
func (v *voice) story() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := strings.Join(v.told, ", ")
	v.told = nil
	return text
}

func (v *voice) close(t *testing.T) {
	require.NoError(t, v.Close())
	v.reading.Wait()
}

// within runs a test on a hub in a bubble of its own.
func within(t *testing.T, fn func(*testing.T, *hub)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		fn(t, h)
		h.close()
	})
}

// pass lets time pass, until nothing moves any more.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// put publishes messages as another proxy would, putAs as another user.
func (h *hub) put(queue string, bodies ...string) { h.putAs("u", queue, bodies...) }

func (h *hub) putAs(user, queue string, bodies ...string) {
	h.do(func() {
		q := h.queues[queue]
		for _, body := range bodies {
			header := make([]byte, 14)
			header[1], header[11], header[13] = 60, byte(len(body)), 1<<4 // a user-id is there
			header = append(append(header, byte(len(user))), user...)
			q.ready = append(q.ready, hubMessage{header, []byte(body)})
		}
		h.deliver(q)
	})
}
