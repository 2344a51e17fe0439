package shards

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeliveredCounts(t *testing.T) {
	set := NewSet("x", []string{"a@h"}, 4)
	first, second := set.At(0).Queue, set.At(1).Queue
	other, own := "", ""
	for i := 0; other == "" || own == ""; i++ {
		key := fmt.Sprint("k", i)
		if set.Pick(XXHash([]byte(key))) == 0 {
			own = key
		} else {
			other = key
		}
	}
	for name, c := range map[string]struct {
		state      State
		def        Definition
		queue, key string
		want       uint64
	}{
		"another's key":      {State{Mode: Sharded, Set: set}, Definition{}, first, other, 1},
		"its own key":        {State{Mode: Sharded, Set: set}, Definition{}, first, own, 0},
		"another shard":      {State{Mode: Sharded, Set: set}, Definition{}, second, other, 0},
		"native":             {State{Mode: Native, Set: set}, Definition{}, first, other, 0},
		"no shards":          {State{Mode: Sharded}, Definition{}, first, other, 0},
		"rerouted":           {State{Mode: Sharded, Set: set, Live: []int{0, 1}}, Definition{}, first, other, 0},
		"growing":            {State{Mode: Sharded, Set: set, Next: set}, Definition{}, first, other, 0},
		"shrunk":             {State{Mode: Sharded, Set: set, All: set}, Definition{}, first, other, 0},
		"phash2":             {State{Mode: Sharded, Set: set}, Definition{Hash: HashPhash2}, first, other, 0},
		"hashed by property": {State{Mode: Sharded, Set: set}, Definition{HashOn: HashOn{Source: OnMessageID}}, first, other, 0},
	} {
		c.def.ShardsPerNode = 4
		x := newExchange("x", "/", policy(t, "^x$", c.def))
		x.state.Store(&c.state)
		x.Delivered(c.queue, []byte(c.key))
		require.Equal(t, c.want, x.snapshot().Unsharded, name)
	}
}

func TestDeliveredDoesNotAllocate(t *testing.T) {
	x := newExchange("x", "/", policy(t, "^x$", Definition{ShardsPerNode: 4}))
	set := NewSet("x", []string{"a@h"}, 4)
	x.state.Store(&State{Mode: Sharded, Set: set})
	queue, key := set.At(0).Queue, []byte("some.key")
	require.Zero(t, testing.AllocsPerRun(100, func() { x.Delivered(queue, key) }))
}
