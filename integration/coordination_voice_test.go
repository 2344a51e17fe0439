package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards/control"
	"github.com/shardmq/shardmq/shards/coordination"
)

// voice is one proxy's transport, and what it has told.
type voice struct {
	*control.Transport
	t *testing.T

	mu       sync.Mutex
	sockets  []net.Conn
	dead     bool // it has been killed: there is no network any more
	leads    bool
	on       bool   // connected
	lost     int    // how often it was disconnected
	elected  int    // how often it was elected
	state    string // with which the last time; "-" = none
	received map[string]int
	lines    []string
}

// voices starts n transports on the nodes, in the broker's default vhost or the one given.
func voices(t *testing.T, n int, vhost string, nodes ...*rig.Node) []*voice {
	t.Helper()
	all := make([]*voice, n)
	for i := range all {
		all[i] = newVoice(t, control.TransportOptions{Vhost: vhost, Username: "guest", Password: "guest", Nodes: addresses(nodes)})
	}
	return all
}

func addresses(nodes []*rig.Node) func() []control.NodeAddress {
	return func() []control.NodeAddress {
		list := make([]control.NodeAddress, len(nodes))
		for i, n := range nodes {
			list[i] = control.NodeAddress{Name: n.Name, Address: n.Addr}
		}
		return list
	}
}

func newVoice(t *testing.T, o control.TransportOptions) *voice {
	t.Helper()
	v := &voice{t: t, received: make(map[string]int)}
	o.Dial, o.Log = v.dial, v
	o.Newer = func(a, b []byte) bool { return string(a) > string(b) }
	v.Transport = control.NewTransport(o)
	var following sync.WaitGroup
	following.Go(v.follow)
	t.Cleanup(func() {
		require.NoError(t, v.Close())
		following.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", v.ID(), fmt.Sprintln(v.lines))
		}
	})
	return v
}

func (v *voice) dial(ctx context.Context, network, address string) (net.Conn, error) {
	v.mu.Lock()
	dead := v.dead
	v.mu.Unlock()
	if dead {
		return nil, errors.New("dead")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		v.mu.Lock()
		v.sockets = append(v.sockets, c)
		v.mu.Unlock()
	}
	return c, err
}

// kill is to the broker what SIGKILL of a proxy is: all its sockets are closed at once.
func (v *voice) kill() {
	v.is(func() bool { v.dead = true; return true })
	v.cut()
}

// cut closes the sockets there are.
func (v *voice) cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.sockets {
		_ = c.Close()
	}
	v.sockets = nil
}

func (v *voice) follow() {
	for e := range v.Events() {
		v.mu.Lock()
		switch e.Kind {
		case coordination.Received:
			v.received[string(e.Body)]++
		case coordination.Elected:
			v.leads, v.state = true, string(e.Body)
			v.elected++
			if e.Body == nil {
				v.state = "-"
			}
		case coordination.Deposed:
			v.leads = false
		case coordination.Connected:
			v.on = true
		case coordination.Disconnected:
			v.on = false
			v.lost++
		}
		v.mu.Unlock()
	}
}

// Info and Warn make it a logger of its own.
func (v *voice) Info(msg string, kv ...any) { v.note(msg, kv) }
func (v *voice) Warn(msg string, kv ...any) { v.note("WARN "+msg, kv) }

func (v *voice) note(msg string, kv []any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = append(v.lines, time.Now().Format("04:05.000 ")+msg+" "+fmt.Sprintln(kv...))
}

func (v *voice) is(fn func() bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return fn()
}

// leader waits until exactly one of them leads, and returns it.
func leader(t *testing.T, all []*voice) (lead *voice) {
	t.Helper()
	eventually(t, "one leader", func() string {
		leads := 0
		for _, v := range all {
			if v.is(func() bool { return v.leads && !v.dead }) {
				leads++
				lead = v
			}
		}
		if leads == 1 {
			return ""
		}
		return fmt.Sprintf("there are %d", leads)
	})
	return lead
}

// store stores a state as soon as that is possible.
func (v *voice) store(state string) {
	v.t.Helper()
	eventually(v.t, "storing "+state, func() string {
		if err := v.Store(v.t.Context(), []byte(state)); err != nil {
			return err.Error()
		}
		return ""
	})
}

// storeSoon waits until whoever leads has stored the state.
func storeSoon(t *testing.T, all []*voice, state string) {
	t.Helper()
	eventually(t, "storing "+state, func() string {
		var errs []error
		for _, v := range all {
			err := v.Store(t.Context(), []byte(state))
			if err == nil {
				return ""
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...).Error()
	})
}

// hears waits until everybody hears everybody.
func hears(t *testing.T, all []*voice, round string) {
	t.Helper()
	eventually(t, "messages from all to all", func() string {
		var wrong string
		for _, from := range all {
			text := round + " " + from.ID()
			if err := from.Send(t.Context(), []byte(text)); err != nil {
				wrong = err.Error()
			}
			for _, to := range all {
				if to.is(func() bool { return to.received[text] == 0 }) {
					wrong = to.ID() + " has not heard " + text
				}
			}
		}
		return wrong
	})
}

// standsIn tells whether the queue it was elected on is not the proper one. Called with mu held.
func (v *voice) standsIn() bool {
	for _, line := range slices.Backward(v.lines) {
		if strings.Contains(line, "this proxy leads vhost") {
			return strings.Contains(line, "queue shardmq.state.")
		}
	}
	return false
}

// standIns names a queue of the lead other than the proper one, "" if there is none.
func (e *env) standIns(nodes []*rig.Node) string {
	conn, err := amqp.Dial(e.url)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	for _, n := range nodes {
		ch, err := conn.Channel()
		if err != nil {
			return err.Error()
		}
		if q, err := ch.QueueDeclarePassive("shardmq.state."+n.Name, true, false, false, false, nil); err == nil {
			return q.Name
		}
	}
	return ""
}
