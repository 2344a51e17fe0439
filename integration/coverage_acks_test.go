package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCoverageAcks: single and multiple acknowledgements, nack, reject, recover and qos do what they do on one queue
// while shards move from consumer to consumer: nothing acknowledged comes again, nothing unacknowledged is lost, and no
// consumer ever has more than its prefetch.
func TestCoverageAcks(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	const shards = 8
	f := e.fleet(fleetOptions{proxies: 2, exchange: "images", fixed: shards})
	w := f.watch(e.url, f.shards(shards, 0))
	l := newLedger()
	c := f.crowd(l, 5)
	all := []func(*windowed, *member){ackEach, ackMultiple, nackMultiple, rejectEach, changeQos}
	styles := []func() (int, *windowed){
		func() (int, *windowed) { return 0, &windowed{size: 7, turns: all} },
		func() (int, *windowed) { return 10, &windowed{size: 3, turns: all} },
		func() (int, *windowed) { return 4, &windowed{size: 4, turns: append(slices.Clone(all), recoverAll)} },
		func() (int, *windowed) { return 1, &windowed{size: 1, turns: all} },
		func() (int, *windowed) {
			return 2, &windowed{size: 1, turns: []func(*windowed, *member){rejectEach, ackEach}}
		},
	}
	for i := range styles {
		prefetch, how := styles[i]()
		c.join(i%2, prefetch, how)
	}
	p := f.pump(l, pumpOptions{publishers: 2, keys: 12, every: 80 * time.Millisecond})
	rng := rand.New(rand.NewPCG(5, 5))
	for round := range 24 {
		l.progress(t, 60)
		if len(c.here) > 4 {
			c.here[rng.IntN(len(c.here))].leave(rng.IntN(waysToLeave))
			continue
		}
		prefetch, how := styles[round%len(styles)]()
		c.join(rng.IntN(2), prefetch, how)
	}
	p.stop()
	for _, m := range c.here {
		m.flush()
	}
	l.awaitConsumed(t)
	w.await("empty shards", func([]int) string { return messagesLeft(e, w.shards) })
	l.require(f, w)
}

// messagesLeft tells what is still ready in shards.
func messagesLeft(e *env, shards []string) string {
	ch := open(e.t, e.url)
	defer ch.Close()
	var left []int
	for _, name := range shards {
		q, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
		require.NoError(e.t, err, name)
		left = append(left, q.Messages)
	}
	if sum(left) > 0 {
		return fmt.Sprintf("messages left: %v", left)
	}
	return ""
}

// TestCoverageSlowJob: a consumer that works on one message for ever, with prefetch 1, keeps no other message of its
// shards from being consumed while another consumer idles: at the same proxy or another.
func TestCoverageSlowJob(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]int{"same proxy": 0, "other proxy": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newCtlEnv(t)
			f := e.fleet(fleetOptions{proxies: 2, exchange: "images", fixed: 4})
			w := f.watch(e.url, f.shards(4, 0))
			l := newLedger()
			c := f.crowd(l, 1)
			slow, idle := c.join(0, 1, &clinging{}), c.join(other, 1, prompt{})
			publisher := confirming(t, f.url(0))
			var copies []string
			for i := range 200 {
				copies = append(copies, fmt.Sprintf("key-%d/1/0", i))
			}
			publishBodies(t, publisher, "images", copies[:100])
			var held []string
			eventually(t, "a slow job", func() (wrong string) {
				held, wrong = slow.holding(1)
				return wrong
			})
			publishBodies(t, publisher, "images", copies[100:])
			for _, name := range copies {
				if message, _, _ := messageOf(name); name != held[0] {
					l.confirm(message)
				}
			}
			start := w.elapsed()
			l.awaitConsumed(t)
			t.Logf("199 messages were consumed beside the slow one within %s", w.elapsed()-start)
			require.Equal(t, 199, idle.received())
			l.require(f, w)
			slow.leave(byChannel)
			l.confirm(held[0][:len(held[0])-len("/0")])
			l.awaitConsumed(t)
		})
	}
}

// TestCoveragePrefetchOne: with prefetch 1, one consumer serves 8 shards, never with two messages; and so do several,
// while others come and go.
func TestCoveragePrefetchOne(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	f := e.fleet(fleetOptions{proxies: 2, exchange: "images", perNode: 8})
	w := f.watch(e.url, f.shards(0, 8))
	l := newLedger()
	c := f.crowd(l, 2)
	one := func() *windowed { return &windowed{size: 1} }
	c.join(0, 1, one())
	p := f.pump(l, pumpOptions{publishers: 1, keys: 16, every: 100 * time.Millisecond})
	l.progress(t, 150)
	p.hold()
	l.awaitConsumed(t)
	p.release()
	for round := range 8 {
		l.progress(t, 40)
		if round%2 == 0 {
			c.join(round/2%2, 1, one())
			c.join(1-round/2%2, 1+round%3, one())
		} else {
			c.here[0].leave(round % waysToLeave)
		}
	}
	p.stop()
	l.awaitConsumed(t)
	l.require(f, w)
}
