package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLineKeepsOrder: whatever is done with a line, of each key one job at most is in hand, and its jobs are given out in
// the order they came in; nothing is lost or given out twice; and a job is ready whenever its key is not in hand.
func TestLineKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLine()
		waiting := map[string][]int{} // by key, as it should be
		var inHand []*item
		busy := map[string]bool{}
		next := 0
		keyOf := func(it *item) string {
			if it.keyed {
				return it.key
			}
			return it.id
		}
		total := func() (n int) {
			for _, w := range waiting {
				n += len(w)
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				next++
				it := &item{attempts: next, id: "own " + string(rune(next)), keyed: rapid.Bool().Draw(t, "keyed"), key: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "key")}
				waiting[keyOf(it)] = append(waiting[keyOf(it)], it.attempts)
				l.push(it)
			},
			"take": func(t *rapid.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				free := 0
				for key, w := range waiting {
					if len(w) > 0 && !busy[key] {
						free++
					}
				}
				if free == 0 {
					require.Empty(t, l.ready)
					require.Nil(t, l.takeMore(ctx))
					return
				}
				it := l.take()
				key := keyOf(it)
				require.False(t, busy[key], "two of a key in hand")
				require.Equal(t, waiting[key][0], it.attempts)
				waiting[key] = waiting[key][1:]
				busy[key] = true
				inHand = append(inHand, it)
			},
			"finish": func(t *rapid.T) {
				if len(inHand) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(inHand)-1).Draw(t, "which")
				it := inHand[i]
				inHand = append(inHand[:i], inHand[i+1:]...)
				delete(busy, keyOf(it))
				l.finish(it)
			},
			"again": func(t *rapid.T) {
				if len(inHand) == 0 {
					t.Skip()
				}
				it := inHand[0]
				inHand = inHand[1:]
				delete(busy, keyOf(it))
				waiting[keyOf(it)] = append([]int{it.attempts}, waiting[keyOf(it)]...)
				l.again(it)
			},
			"": func(t *rapid.T) { require.Equal(t, total(), l.waiting()) },
		})
		require.Len(t, l.close(), total())
		require.Zero(t, l.waiting())
	})
}

// TestLineWorkers: workers wait for jobs, leave when they are told to, and not when that is taken back.
func TestLineWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		var left, took atomic.Int32
		for range 5 {
			go func() {
				for l.take() != nil {
					took.Add(1)
				}
				left.Add(1)
			}()
		}
		synctest.Wait()
		require.Zero(t, left.Load())
		l.push(&item{})
		synctest.Wait()
		require.EqualValues(t, 1, took.Load())
		l.dismiss(2)
		synctest.Wait()
		require.EqualValues(t, 2, left.Load())
		require.Zero(t, l.keep(3), "they are gone")
		l.close()
		synctest.Wait()
		require.EqualValues(t, 5, left.Load())
	})
}

// TestLineTakeMore: a batch waits for further jobs as long as it may, and no longer.
func TestLineTakeMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			time.Sleep(500 * time.Millisecond)
			l.push(&item{id: "late"})
		}()
		began := time.Now()
		require.Equal(t, "late", l.takeMore(ctx).id)
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.Nil(t, l.takeMore(ctx))
		require.Equal(t, time.Second, time.Since(began))
	})
}
