package router_test

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// What the fuzzer's input does: one octet that says what happens, for frames followed by type, channel, size (16 bits) and payload.
const (
	fuzzClient = iota
	fuzzBroker
	fuzzAnswer
	fuzzRefuse
	fuzzRetarget
	fuzzTick
	fuzzRotate
	fuzzRaise
	fuzzKinds
)

// FuzzFrames feeds arbitrary frames from both sides to a connection with sharded exchanges. Nothing panics, all octets made are whole
// frames, memory is bounded by the input, and nothing is left behind in the end.
func FuzzFrames(f *testing.F) {
	for _, seed := range fuzzSeeds(f) {
		f.Add(true, seed)
		f.Add(false, seed)
	}
	f.Fuzz(func(t *testing.T, handshake bool, input []byte) {
		z := newFuzzed(t)
		defer func() { require.NoError(t, z.topo.Close()) }()
		if handshake {
			z.handshake("consumer_cancel_notify=true", 2)
		}
		for rest := input; len(rest) > 0; {
			rest = z.step(rest)
			z.made = 0
			z.flush()
			require.LessOrEqual(t, z.conn.HeldBytes(), len(input)+frames.Overhead*len(input))
			require.LessOrEqual(t, z.made, 1<<16+16*len(input), "octets made in one step")
		}
		z.conn.Shutdown()
		z.flush()
		for _, a := range z.asks { // late answers
			z.conn.Answer(a, z.answer(a))
		}
		z.flush()
		require.Zero(t, z.conn.Ops())
		require.Zero(t, z.conn.HeldBytes())
		require.False(t, z.conn.Holding())
		require.Zero(t, z.topo.Group(z.exchange("images")).Len(), "members left behind")
	})
}

type fuzzed struct {
	rig
	made  int
	asks  []router.Ask
	moves []func()
}

func newFuzzed(t *testing.T) *fuzzed {
	z := &fuzzed{rig: rig{cluster: newCluster()}}
	z.cluster.addExchange(shards.ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
	var policies []*shards.Policy
	for name, d := range map[string]shards.Definition{
		"images": {ShardsPerNode: 3}, "phash": {ShardsPerNode: 2, Hash: shards.HashPhash2}, "xs": {ShardsPerNode: 2, FedBy: []string{"xt"}}} {
		p, err := shards.NewPolicy(name, "/", "^"+name+"$", 0, d)
		require.NoError(t, err)
		policies = append(policies, p)
	}
	z.open(shards.NewPolicies(policies))
	count := func(f frames.Frame) { z.made += len(f) }
	z.up, z.down = count, count
	z.asked = func(a router.Ask) { z.asks = append(z.asks, a) }
	z.told = z.tell
	z.retarget = func(ch uint16, consumer uint64, to shards.Target) {
		z.moves = append(z.moves, func() { z.conn.Retarget(ch, consumer, to) })
	}
	return z
}

// step does what the input says next and returns the rest of it.
func (z *fuzzed) step(in []byte) []byte {
	what, in := in[0]%fuzzKinds, in[1:]
	switch {
	case what <= fuzzBroker:
		var f frames.Frame
		if f, in = fuzzFrame(in); f == nil {
			return nil
		}
		if what == fuzzClient {
			z.client(f)
		} else {
			z.broker(f)
		}
	case what <= fuzzRefuse && len(z.asks) > 0:
		a := z.asks[0]
		z.asks = z.asks[1:]
		if what == fuzzAnswer {
			z.conn.Answer(a, z.answer(a))
		} else {
			z.conn.Answer(a, router.Answer{Err: &shards.BrokerError{Code: 403, Text: "ACCESS_REFUSED - no"}})
		}
	case what == fuzzRetarget && len(z.moves) > 0:
		z.moves[0]()
		z.moves = z.moves[1:]
	case what == fuzzTick:
		z.conn.Tick()
	case what == fuzzRotate:
		for _, x := range z.conn.Rotating() {
			if set := x.State().Set; set != nil {
				counts := make([]shards.Count, set.Len())
				for i := range counts {
					counts[i] = shards.Count{Messages: uint32(i % 2), Exists: true}
				}
				z.conn.Rotate(x, set, counts)
			}
		}
	case what == fuzzRaise:
		z.conn.RaiseConnection(&frames.Exception{Code: frames.ConnectionForced, Text: "fuzz"})
	}
	return in
}

// fuzzFrame takes a frame off the input; nil when there is not enough left.
func fuzzFrame(in []byte) (frames.Frame, []byte) {
	if len(in) < 4 {
		return nil, nil
	}
	types := []byte{frames.TypeMethod, frames.TypeHeader, frames.TypeBody, frames.TypeHeartbeat}
	size := int(binary.BigEndian.Uint16(in[2:]))
	if len(in) < 4+size {
		return nil, nil
	}
	return frames.AppendFrame(nil, types[in[0]%4], uint16(in[1]%4), in[4:4+size]), in[4+size:]
}

// fuzzSeeds are the transcripts.
func fuzzSeeds(f *testing.F) (seeds [][]byte) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	short := newShort([]string{"images"}, []string{"rabbit@a"}, map[string]int{"images": 3})
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(f, err)
		for _, part := range archive.Files {
			if part.Name == "setup" {
				continue
			}
			var seed []byte
			for line := range strings.Lines(string(part.Data)) {
				seed = append(seed, fuzzEvent(words(short.read.Replace(strings.TrimRight(line, "\n"))))...)
			}
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

func fuzzEvent(w []string) []byte {
	if len(w) == 0 {
		return nil
	}
	switch w[0] {
	case "client", "broker":
		if strings.HasPrefix(w[2], "<") {
			return nil
		}
		fr := parseFrame(w[1:])
		kind := byte(fuzzClient)
		if w[0] == "broker" {
			kind = fuzzBroker
		}
		typ := map[byte]byte{frames.TypeMethod: 0, frames.TypeHeader: 1, frames.TypeBody: 2, frames.TypeHeartbeat: 3}[fr.Type()]
		out := []byte{kind, typ, byte(fr.Channel())}
		return append(binary.BigEndian.AppendUint16(out, uint16(len(fr.Payload()))), fr.Payload()...)
	case "answer":
		return []byte{fuzzAnswer + byte(min(1, len(w)/3))}
	case "retarget":
		return []byte{fuzzRetarget}
	case "tick":
		return []byte{fuzzTick}
	case "rotate":
		return []byte{fuzzRotate}
	case "raise":
		return []byte{fuzzRaise}
	}
	return nil
}
