package control

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/shardmq/shardmq/shards/coordination"
)

// errNoNodes: there is nobody to connect to.
var errNoNodes = errors.New("there are no nodes")

// run keeps a session open until Close. Proxies begin with different nodes, so
// that they spread; after a loss each one goes on with the next node.
func (t *Transport) run() {
	defer close(t.events)
	first, delay, refused, told := rand.IntN(1<<16), firstDelay, noRightsDelay, false
	for t.ctx.Err() == nil {
		s, used, err := t.connectAny(first)
		if err == nil {
			first = used + 1
			t.opened(s)
			err = s.serve()
			told = false
			if time.Since(s.began) > steady {
				delay, refused = firstDelay, noRightsDelay
			}
		}
		t.failed(err, &told)
		pause := jitter(delay)
		if errors.Is(err, coordination.ErrNoRights) {
			pause = jitter(refused)
			refused = min(2*refused, noRightsMax)
		}
		if !t.pause(pause) {
			return
		}
		delay = min(2*delay, maxDelay)
	}
}

// connectAny connects to the first node that answers, beginning with the one of
// that number, modulo their count. used is the number of the one it is.
func (t *Transport) connectAny(first int) (s *session, used int, err error) {
	nodes := t.o.Nodes()
	err = errNoNodes
	for i := range nodes {
		used = first + i
		if s, err = t.connect(nodes[used%len(nodes)]); err == nil || t.ctx.Err() != nil {
			return s, used, err
		}
	}
	return nil, used, err
}

func (t *Transport) opened(s *session) {
	t.mu.Lock()
	t.session, t.lastErr = s, nil
	t.mu.Unlock()
	if t.o.Log != nil {
		t.o.Log.Info("coordination connected", "vhost", t.o.Vhost, "node", label(s.in.node), "proxy", t.id)
	}
	t.emit(coordination.Event{Kind: coordination.Connected})
}

// failed notes why there is no session. It tells once per loss, and once per
// reason; told is whether it has told of this loss.
func (t *Transport) failed(err error, told *bool) {
	t.mu.Lock()
	before := t.lastErr
	t.session, t.lastErr = nil, err
	t.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	noRights := errors.Is(err, coordination.ErrNoRights)
	if !*told || noRights != errors.Is(before, coordination.ErrNoRights) {
		*told = true
		t.emit(coordination.Event{Kind: coordination.Disconnected})
	}
	if t.o.Log == nil || before != nil && before.Error() == err.Error() {
		return
	}
	kv := []any{"vhost", t.o.Vhost, "error", err.Error()}
	if noRights {
		t.o.Log.Warn(`this proxy shares consumers and shard sets with no other one: the user of the control connection lacks rights, `+
			`which are: configure, write, read on ^shardmq\.`, append(kv, "user", t.o.Username)...)
		return
	}
	t.o.Log.Warn("coordination not connected", kv...)
}

// pause waits, and reports whether to go on.
func (t *Transport) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}
