package proxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// conversation is what one side says: heartbeats among messages and methods, and where it may be cut.
func conversation(random *rand.Rand, message func(size int) []byte) (pieces [][]byte) {
	var all []byte
	for range 300 {
		switch random.IntN(4) {
		case 0, 1:
			all = append(all, bytes.Repeat(heartbeat, 1+random.IntN(3))...)
		case 2:
			all = frames.AppendMethod(all, 1, &frames.BasicAck{DeliveryTag: 1})
		default:
			all = append(all, message(random.IntN(3000))...)
		}
	}
	for len(all) > 0 {
		n := 1 + random.IntN(40)
		if random.IntN(3) == 0 {
			n = len(heartbeat) // often a whole one, and often not
		} else if random.IntN(3) == 0 {
			n = 2000
		}
		n = min(n, len(all))
		pieces = append(pieces, all[:n:n])
		all = all[n:]
	}
	return pieces
}

// Both sides speak while the proxy parks all the time: nothing is lost, doubled, out of order or left lying.
func TestNothingIsLostWhileParking(t *testing.T) {
	r := startRig(t, nil) // parked by hand, at every moment
	for seed := range uint64(4) {
		client, broker := r.openChannel(0)
		s := newest(r.srv)
		both := s.relays.Load()
		stop := make(chan struct{})
		var aside, talk sync.WaitGroup
		for _, d := range both {
			aside.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						s.kick(d)
					}
				}
			})
		}
		for _, d := range both { // so the kicks do that
			require.Eventually(t, d.parked.Load, time.Minute, 100*time.Microsecond)
		}
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test's
		got := [2][]byte{}
		errs := [4]error{}
		up := conversation(random, func(n int) []byte { return publish(1, "x", pattern(n)) })
		down := conversation(random, func(n int) []byte { return deliver(1, 1, pattern(n)) })
		for i, way := range []struct {
			from, to *peer
			pieces   [][]byte
		}{{client, broker, up}, {broker, client, down}} {
			talk.Go(func() {
				for _, p := range way.pieces {
					if _, errs[i] = way.from.Write(p); errs[i] != nil {
						return
					}
				}
			})
			talk.Go(func() {
				got[i] = make([]byte, len(bytes.Join(way.pieces, nil)))
				_, errs[2+i] = io.ReadFull(way.to.r, got[i])
			})
		}
		talk.Wait()
		close(stop)
		aside.Wait()
		require.Equal(t, [4]error{}, errs)
		require.True(t, bytes.Equal(bytes.Join(up, nil), got[0]), "seed %d: to the broker", seed)
		require.True(t, bytes.Equal(bytes.Join(down, nil), got[1]), "seed %d: to the client", seed)
	}
}

// What both sides say at the same instant, just as they are parked, reaches the other one. Each waits for the other's, so that one that is left
// lying is the last that is heard.
func TestNoWakeUpIsLost(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	s := r.session()
	both := s.relays.Load()
	for i := range 3000 {
		said := heartbeat
		if i%3 == 0 {
			said = frames.AppendMethod(nil, 1, &frames.BasicAck{DeliveryTag: uint64(i)})
		}
		var instant sync.WaitGroup
		errs := [4]error{}
		for j, d := range both {
			instant.Go(func() { s.kick(d) })
			instant.Go(func() { _, errs[j] = [...]*peer{client, broker}[j].Write(said) })
		}
		for j, p := range []*peer{client, broker} {
			instant.Go(func() {
				var f frames.Frame
				if f, errs[2+j] = p.next(); errs[2+j] == nil && !bytes.Equal(f, said) {
					errs[2+j] = io.ErrUnexpectedEOF
				}
			})
		}
		instant.Wait()
		require.Equal(t, [4]error{}, errs, "round %d", i)
	}
}
