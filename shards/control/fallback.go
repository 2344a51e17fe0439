package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	// fallbackTimeout bounds connecting to one node when looking for the first that
	// can be reached.
	fallbackTimeout = 2 * time.Second
	// fallbackAgain is how often it is looked for anew, so that all proxies come to
	// the same one.
	fallbackAgain = 10 * time.Second
)

var errNoNode = errors.New("no node can be reached")

// fallback is a connection to the node whose queue stands in for the proper one.
type fallback struct {
	w      *wire
	look   desk
	chosen time.Time
}

// fallbackQueue is the name of the queue on a node.
func fallbackQueue(n NodeAddress) string { return coordination.StateQueue + "." + label(n) }

// tryFallback takes the lead on the fallback queue if it is free.
func (e *elector) tryFallback() (*hold, error) {
	f, free, err := e.lookFallback()
	if !free {
		return nil, err
	}
	return e.take(f.w, fallbackQueue(f.w.node))
}

// lookFallback reports whether nobody leads on the fallback queue.
func (e *elector) lookFallback() (f *fallback, free bool, err error) {
	if f = e.fallback; f == nil || f.w.conn.IsClosed() || time.Since(f.chosen) > fallbackAgain {
		if f, err = e.choose(); err != nil {
			return nil, false, err
		}
	}
	q, err := inspect(e.s.ctx, &f.look, fallbackQueue(f.w.node))
	if err != nil {
		err = refusal("look for queue '"+fallbackQueue(f.w.node)+"'", f.w, err)
		e.leaveFallback() // another node may be more willing
		return nil, false, err
	}
	return f, q.Consumers == 0, nil
}

// choose connects to the first node in name order that can stand in.
func (e *elector) choose() (*fallback, error) {
	nodes := slices.SortedFunc(slices.Values(e.s.t.o.Nodes()), func(a, b NodeAddress) int {
		return cmp.Compare(label(a), label(b))
	})
	why := errNoNode
	for _, n := range nodes {
		f := e.fallback
		if f == nil || f.w.node != n || f.w.conn.IsClosed() {
			w, err := e.dialFallback(n)
			if err != nil {
				why = err
				continue
			}
			f = &fallback{w: w, look: desk{w: w}}
		}
		if err := e.fits(f); err != nil {
			why = err
			if f != e.fallback {
				f.w.close()
			}
			continue
		}
		if f != e.fallback {
			e.leaveFallback()
		}
		e.fallback, f.chosen = f, time.Now()
		return f, nil
	}
	return nil, why
}

// fits makes sure that the node has its queue, and that the session's node knows
// of it: after a partition nodes can be reached that are no longer in one cluster.
func (e *elector) fits(f *fallback) error {
	queue := fallbackQueue(f.w.node)
	if _, err := inspectOrDeclare(e.s.ctx, &f.look, queue); err != nil {
		return refusal("look for queue '"+queue+"'", f.w, err)
	}
	if _, err := inspect(e.s.ctx, &e.look, queue); err != nil {
		return refusal("look for queue '"+queue+"' of another node", e.s.in, err)
	}
	return nil
}

func (e *elector) dialFallback(n NodeAddress) (*wire, error) {
	ctx, cancel := context.WithTimeout(e.s.ctx, fallbackTimeout)
	defer cancel()
	w, stop, err := e.s.t.dial(ctx, n, "shardmq coordination (stand-in)")
	if err != nil {
		return nil, err
	}
	if !stop() {
		w.close()
		return nil, unreachable(n.Address, context.Cause(ctx))
	}
	return w, nil
}

// leaveFallback ends the connection to the stand-in's node, if there is one.
func (e *elector) leaveFallback() {
	if e.fallback != nil {
		e.fallback.w.close()
		e.fallback = nil
	}
}
