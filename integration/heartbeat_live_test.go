package integration

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/rig"
)

var heartbeatFrame = frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)

// hole is a TCP relay that can stop passing on anything, both ways, and leaves the connections up: what a peer looks like whose network is gone.
type hole struct {
	addr    string
	mu      sync.Mutex
	passing *sync.Cond
	dead    bool // nothing passes
	gone    bool // the test is over
	open    []net.Conn
}

func newHole(t *testing.T, to string) *hole {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &hole{addr: l.Addr().String()}
	h.passing = sync.NewCond(&h.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				_ = a.Close()
				continue
			}
			h.mu.Lock()
			h.open = append(h.open, a, b)
			h.mu.Unlock()
			running.Go(func() { h.pass(a, b) })
			running.Go(func() { h.pass(b, a) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		h.mu.Lock()
		h.gone = true
		for _, c := range h.open {
			_ = c.Close()
		}
		h.passing.Broadcast()
		h.mu.Unlock()
		running.Wait()
	})
	return h
}

// swallow has everything stop, or go on.
func (h *hole) swallow(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead = on
	h.passing.Broadcast()
}

// pass relays one direction. The end of it does not come through a dead network either.
func (h *hole) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		h.mu.Lock()
		for h.dead && !h.gone {
			h.passing.Wait()
		}
		h.mu.Unlock()
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			_ = to.Close()
			return
		}
	}
}

// beating logs in with a heartbeat interval in seconds, and opens channel 1.
func beating(t *testing.T, url string, interval uint16) *raw {
	t.Helper()
	r := rawTCP(t, url)
	r.login(url, func(ok *frames.ConnectionTuneOk) { ok.Heartbeat = interval })
	r.write(method(1, &frames.ChannelOpen{}))
	r.await(frames.ChannelOpenOkID)
	return r
}

// await reads up to a method, answering every heartbeat with one.
func (r *raw) await(id frames.MethodID) frames.Frame {
	r.t.Helper()
	for {
		f, err := r.next()
		require.NoError(r.t, err, "waiting for %s", id)
		if f.Type() == frames.TypeHeartbeat {
			r.write(heartbeatFrame)
			continue
		}
		if f.Method() == id {
			return f
		}
	}
}

// beats reads so many heartbeats and answers them.
func (r *raw) beats(n int) {
	r.t.Helper()
	for range n {
		f, err := r.next()
		require.NoError(r.t, err)
		require.Equal(r.t, frames.TypeHeartbeat, f.Type(), "%q", head(f, 200))
		r.write(heartbeatFrame)
	}
}

// TestHeartbeatNegotiation: the broker has the interval that the client has chosen, none included, as directly.
func TestHeartbeatNegotiation(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	p := e.proxy(nil)
	for _, interval := range []uint16{0, 7, 61, 65535} {
		beating(t, e.url, interval)
		beating(t, p.URL, interval)
	}
	require.ElementsMatch(t, []string{"0", "0", "7", "7", "61", "61", "65535", "65535"}, timeouts(e))
}

// timeouts are the heartbeat intervals of the connections to the test's vhost, as the broker has them.
func timeouts(e *env) (all []string) {
	for line := range strings.Lines(e.ctl("list_connections", "vhost", "timeout")) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == e.vhost {
			all = append(all, fields[1])
		}
	}
	return all
}

// TestQuietConsumer: one that sends nothing but heartbeats stays, whether there is something for it or not.
func TestQuietConsumer(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images, plain := e.name("images"), e.name("plain")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	require.NoError(t, declare(publisher, plain, false, nil))
	for _, queue := range []string{images, plain} {
		r := beating(t, p.URL, 1)
		r.write(method(1, &frames.BasicConsume{Queue: queue, NoAck: true}))
		r.await(frames.BasicConsumeOkID)
		r.beats(8)
		for range 4 {
			publish(t, publisher, "", queue, text("now and then"))
			r.await(frames.BasicDeliverID)
			r.content(1)
			r.beats(2)
		}
	}
}

// TestSilentClient: one that promised heartbeats and sends none is dropped, as directly: without a word, after two intervals and before
// many more, and what it held is in the queue again.
func TestSilentClient(t *testing.T) {
	t.Parallel()
	const interval = 2 * time.Second
	e := newEnv(t)
	queue := e.name("held")
	p := e.proxy(nil)
	ch := confirming(t, e.url)
	require.NoError(t, declare(ch, queue, false, nil))
	took := map[string]time.Duration{}
	for name, url := range map[string]string{"directly": e.url, "through the proxy": p.URL} {
		publish(t, ch, "", queue, text("held"))
		r := beating(t, url, uint16(interval.Seconds()))
		r.write(method(1, &frames.BasicGet{Queue: queue}))
		r.await(frames.BasicGetOkID)
		r.content(1)
		began := time.Now()
		for f, err := r.next(); err == nil; f, err = r.next() {
			require.Equal(t, frames.TypeHeartbeat, f.Type(), "%s: %q", name, head(f, 200))
		}
		took[name] = time.Since(began)
		require.Greater(t, took[name], 3*interval/2, name)
		require.Len(t, drain(t, open(t, e.url), queue), 1, name)
	}
	require.Less(t, took["through the proxy"], took["directly"]+2*interval)
}

// TestHalfOpenClient: the network between a client and the proxy swallows everything. What the client held comes back, its consumers leave
// the shards, and the proxy is rid of it, whatever the broker had for it: more than all buffers hold, too.
func TestHalfOpenClient(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"idle": 10, "in a flood": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			images := e.name("images")
			p := e.proxy(map[string]int{images: 4})
			publisher := confirming(t, p.URL)
			declareSharded(t, publisher, images)
			shards := e.probe(images, 4)
			h := newHole(t, p.Addr)
			r := beating(t, withHost(t, p.URL, h.addr), 1)
			r.write(method(1, &frames.BasicConsume{Queue: images}))
			r.await(frames.BasicConsumeOkID)
			shards.waitConsumers(1, 1, 1, 1)
			h.swallow(true)
			const n = 40
			for _, key := range keys("key", n) {
				publish(t, publisher, images, key, amqp.Publishing{Body: body(size), MessageId: key})
			}
			shards.waitConsumers(0, 0, 0, 0)
			shards.waitMessages(n)
			logged(t, p, "connection ended") // the broker may have been quicker
		})
	}
}

// TestHalfOpenBroker: the network between the proxy and the broker swallows everything. The client is told, and can come back.
func TestHalfOpenBroker(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	h := newHole(t, e.broker.Addr)
	p := e.start(rig.ProxyOptions{Upstream: withHost(t, e.url, h.addr)})
	r := beating(t, p.URL, 1)
	h.swallow(true)
	ended := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() { // the client lives
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = r.conn.Write(heartbeatFrame)
			case <-ended:
				return
			}
		}
	})
	var end frames.ConnectionClose
	f := r.awaitClose()
	close(ended)
	writing.Wait()
	require.NoError(t, end.Decode(f.Args()))
	require.Equal(t, frames.ConnectionForced, frames.Code(end.ReplyCode))
	logged(t, p, "connection ended", "upstream: not heard of")
	h.swallow(false)
	_ = eventuallyOpen(t, p.URL)
}

// awaitClose reads up to connection.close, answering nothing.
func (r *raw) awaitClose() frames.Frame {
	r.t.Helper()
	for {
		f, err := r.next()
		require.NoError(r.t, err)
		if f.Method() == frames.ConnectionCloseID {
			return f
		}
	}
}

// TestUnackedComesBack: what a client held is in its queue again at once when it goes, in whatever way, as directly.
func TestUnackedComesBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	queue := e.name("held")
	p := e.proxy(nil)
	ch := confirming(t, e.url)
	require.NoError(t, declare(ch, queue, false, nil))
	for name, leave := range map[string]func(*raw){
		"end of input": func(r *raw) { require.NoError(t, r.conn.(*net.TCPConn).CloseWrite()) },
		"reset": func(r *raw) {
			require.NoError(t, r.conn.(*net.TCPConn).SetLinger(0))
			require.NoError(t, r.conn.Close())
		},
		"in order": func(r *raw) { r.write(method(0, &frames.ConnectionClose{ReplyCode: 200})) },
	} {
		for _, url := range []string{e.url, p.URL} {
			publish(t, ch, "", queue, text(name))
			r := rawOpen(t, url)
			r.write(method(1, &frames.BasicGet{Queue: queue}))
			r.expect(1, &frames.BasicGetOk{})
			r.content(1)
			leave(r)
			eventually(t, name+": the message", func() string {
				m, ok, err := ch.Get(queue, true)
				require.NoError(t, err)
				if !ok {
					return "it is not back"
				}
				require.True(t, m.Redelivered)
				return ""
			})
		}
	}
}
