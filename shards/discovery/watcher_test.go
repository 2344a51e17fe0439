package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// script is a Source that gives one answer after the other, the last one for
// ever, and notes when it was asked.
type script struct {
	answers []answer
	began   time.Time
	asked   []time.Duration
}

type answer struct {
	nodes []Node
	err   error
	mute  bool // no answer until ctx ends
}

func (s *script) Nodes(ctx context.Context) ([]Node, error) {
	s.asked = append(s.asked, time.Since(s.began))
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	if a.mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.nodes, a.err
}

func named(names ...string) []Node {
	nodes := make([]Node, len(names))
	for i, n := range names {
		nodes[i] = Node{Name: n, Address: n + ":5672"}
	}
	return nodes
}

type logs []string

func (l *logs) Info(msg string, _ ...any) { *l = append(*l, msg) }
func (l *logs) Warn(msg string, _ ...any) { *l = append(*l, "WARN "+msg) }

// watch runs a watcher on the answers, for some intervals, and returns what it
// told.
func watch(o WatcherOptions, intervals int) (told [][]Node) {
	o.OnChange = func(nodes []Node) { told = append(told, nodes) }
	if o.Jitter == nil {
		o.Jitter = func() float64 { return 0.5 }
	}
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { NewWatcher(o).Run(ctx, started) })
	<-started
	time.Sleep(time.Duration(intervals)*o.Interval + o.Interval/2) // the bubble's time
	cancel()
	running.Wait()
	return told
}

func TestWatcher(t *testing.T) {
	boom := errors.New("boom")
	abc, ab := named("a", "b", "c"), named("b", "a")
	down, unknown := named("a", "b", "c"), named("a", "b", "d")
	down[2].Address, unknown[2].Address = "", ""
	moved := named("a", "b")
	moved[1].Address = "elsewhere:1"
	for _, tt := range []struct {
		name    string
		answers []answer
		want    [][]Node
		logs    []string
	}{
		{"added at once", []answer{{nodes: ab}, {nodes: abc}}, [][]Node{named("a", "b"), abc}, []string{
			"node discovered", "node discovered", "node discovered",
		}},
		{"removed after three", []answer{{nodes: abc}, {nodes: ab}, {nodes: ab}, {nodes: ab}}, [][]Node{abc, named("a", "b")}, []string{
			"node discovered", "node discovered", "node discovered", "node is gone",
		}},
		{"not after two", []answer{{nodes: abc}, {nodes: ab}, {nodes: ab}, {nodes: abc}, {nodes: ab}, {nodes: ab}, {nodes: abc}}, [][]Node{abc}, nil},
		{"failures say nothing", []answer{
			{nodes: abc}, {nodes: ab}, {err: boom}, {err: boom}, {}, {nodes: ab}, {err: boom}, {nodes: abc},
		}, [][]Node{abc}, []string{
			"node discovered", "node discovered", "node discovered",
			"WARN node discovery failed; the nodes known so far stay in use", // once for boom, once for the empty one
			"WARN node discovery failed; the nodes known so far stay in use",
			"node discovery works again", "WARN node discovery failed; the nodes known so far stay in use", "node discovery works again",
		}},
		{"failures count for nothing", []answer{
			{nodes: abc}, {nodes: ab}, {nodes: ab}, {err: boom}, {}, {nodes: ab},
		}, [][]Node{abc, named("a", "b")}, nil},
		{"another address", []answer{{nodes: ab}, {nodes: moved}}, [][]Node{named("a", "b"), moved}, []string{
			"node discovered", "node discovered", "node has another address",
		}},
		{"a member that is down stays", []answer{{nodes: abc}, {nodes: down}, {nodes: down}, {nodes: down}, {nodes: down}}, [][]Node{abc}, nil},
		{"one that never had an address", []answer{{nodes: unknown}, {nodes: ab}}, [][]Node{named("a", "b")}, nil},
		{"order and doubles", []answer{{nodes: ab}, {nodes: named("a", "b", "a")}}, [][]Node{named("a", "b")}, nil},
		{"late", []answer{{err: boom}, {nodes: ab}}, [][]Node{named("a", "b")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logs
				source := &script{answers: tt.answers, began: time.Now()}
				told := watch(WatcherOptions{Source: source, Interval: 10 * time.Second, Log: &log}, len(tt.answers)-1)
				require.Equal(t, tt.want, told)
				require.Len(t, source.asked, len(tt.answers))
				if tt.logs != nil {
					require.Equal(t, logs(tt.logs), log)
				}
			})
		})
	}
}

func TestWatcherTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jitter := []float64{0, 0.5, 0.999999}
		source := &script{answers: []answer{{nodes: named("a")}}, began: time.Now()}
		watch(WatcherOptions{Source: source, Interval: 10 * time.Second, Jitter: func() float64 {
			j := jitter[0]
			jitter = append(jitter[1:], j)
			return j
		}}, 3)
		require.Len(t, source.asked, 4)
		for i, want := range []time.Duration{0, 9 * time.Second, 19 * time.Second, 30 * time.Second} {
			require.InDelta(t, want, source.asked[i], float64(time.Millisecond))
		}
	})
}

// A source that does not answer holds the start up for the timeout, and no longer.
func TestWatcherMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &script{answers: []answer{{mute: true}}, began: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() { NewWatcher(WatcherOptions{Source: source, Timeout: 2 * time.Second}).Run(ctx, started) })
		<-started
		require.Equal(t, 2*time.Second, time.Since(source.began))
		cancel()
		running.Wait()
	})
}

// However the answers go, a node is there while it was in one of the last three
// good ones.
func TestWatcherProperty(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		source := &script{}
		w := NewWatcher(WatcherOptions{Source: source})
		var good [][]Node
		for range rapid.IntRange(1, 30).Draw(t, "answers") {
			a := answer{}
			if rapid.Bool().Draw(t, "fails") {
				a.err = errors.New("boom")
			} else {
				a.nodes = named(rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(t, "nodes")...)
			}
			if len(a.nodes) > 0 {
				good = append(good, a.nodes)
			}
			source.answers, source.asked = []answer{a}, nil
			w.look(context.Background())
			var want []Node
			for _, n := range named(names...) {
				if slices.ContainsFunc(good[max(0, len(good)-goodAnswers):], func(g []Node) bool { return slices.Contains(g, n) }) {
					want = append(want, n)
				}
			}
			require.Equal(t, want, w.nodes)
		}
	})
}
