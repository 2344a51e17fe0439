package shards

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardmq/shardmq/shards/internal/parallel"
)

const (
	// lookEvery is how often exchanges are looked at to see whether somebody has
	// changed them at the broker.
	lookEvery = 5 * time.Second
	// Every fullEvery-th look sets everything up again: bindings cannot be looked
	// at over AMQP, but binding twice does no harm.
	fullEvery = 12
)

// watch looks at all exchanges again and again, and at once when a node is down,
// for then bindings have to move, and when one is back: it may have lost things
// meanwhile.
func (t *Topology) watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for looks := 0; ; {
		full := true
		select {
		case <-ticker.C:
			looks++
			full = looks%fullEvery == 0
		case <-t.again:
		case <-t.lost:
		case <-ctx.Done():
			return
		}
		r := &round{down: make(map[string]error)}
		xs := t.routes.exchanges()
		_ = parallel.Do(ctx, len(xs), resolveAtOnce, func(ctx context.Context, i int) error {
			t.look(ctx, xs[i], full, r)
			return nil
		})
	}
}

// look sets an exchange up again if it is not what it is taken for, or if full.
func (t *Topology) look(ctx context.Context, x *Exchange, full bool, r *round) {
	state := x.State()
	_, literal := x.Policy().Literal()
	if t.pending(x) || state.Set == nil && !literal {
		return
	}
	if !full || state.Set == nil {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		if !t.changed(ctx, x, state, r) {
			return
		}
	}
	t.finish(ctx, x)
}

// changed reports whether the broker's exchange and shards are not what state
// says. While no node answers nothing is known, and nothing has changed.
func (t *Topology) changed(ctx context.Context, x *Exchange, state *State, r *round) bool {
	var (
		other  bool
		failed error
		wg     sync.WaitGroup
	)
	wg.Go(func() {
		other, failed = t.otherKind(ctx, x, state)
	})
	var missing bool
	var uncounted error
	if state.Set != nil {
		_, missing, uncounted = t.count(ctx, x, state, r)
	}
	wg.Wait()
	if failed != nil {
		return refusedBy(failed)
	}
	return other || missing || refusedBy(uncounted)
}

// refusedBy reports whether a broker that is up refused something.
func refusedBy(err error) bool {
	_, refused := errors.AsType[*BrokerError](err)
	return refused && !nodeDown(err)
}

// round is one look at all exchanges. A node that does not answer is waited for
// once in it, not once per exchange. A nil one knows nothing.
type round struct {
	mu   sync.Mutex
	down map[string]error
}

func (r *round) noteDown(node string, err error) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.down[node] = err
	}
}

func (r *round) downErr(node string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down[node]
}
