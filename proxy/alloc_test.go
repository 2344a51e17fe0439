//go:build !race

package proxy

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The race detector makes sync.Pool drop buffers at random, so these tests are for builds without it.

// allocations returns how often fn allocates: the least of some measurements, because they count what the topology does in the
// background, too. fn's own are in each of them.
func allocations(fn func()) float64 {
	least := testing.AllocsPerRun(200, fn)
	for range 20 {
		least = min(least, testing.AllocsPerRun(200, fn))
	}
	return least
}

// No allocation per message, nor per read, whatever passes.
func TestRelayDoesNotAllocate(t *testing.T) {
	for _, l := range loads() {
		t.Run(l.name, func(t *testing.T) {
			d := loaded(t, l)
			for range 20 { // buffers grow to what they need
				d.step(t)
			}
			require.Zero(t, leastAllocs(func() { d.step(t) }))
		})
	}
}

// The same over sockets, where reading and writing go through other paths.
func TestRelayDoesNotAllocateOverSockets(t *testing.T) {
	for _, l := range loads() {
		if l.deliver || len(l.message) > 1<<16 {
			continue // as above; one message a write must fit in a read here
		}
		t.Run(l.name, func(t *testing.T) {
			nearIn, farIn := tcpPair(t)
			nearOut, farOut := tcpPair(t)
			topology := testTopology(t, &fakeControl{})
			defer func() { require.NoError(t, topology.Close()) }()
			s := scripted(t, nearIn, nearOut, 8192, topology)
			defer finishScripted(s)
			d := s.clientRelay()
			sink := make([]byte, 1<<16)
			one := func() {
				_, err := farIn.Write(l.message)
				for total := int64(0); err == nil && total < int64(len(l.message)); total = d.out.total {
					if err = d.in.fill(d.need); err == nil {
						_, err = d.pass()
					}
				}
				if err == nil {
					_, err = farOut.Read(sink)
				}
				if err != nil {
					t.Fatal(err)
				}
				d.out.total = 0
			}
			for range 20 {
				one()
			}
			require.Zero(t, leastAllocs(one))
			require.NoError(t, farIn.Close())
			require.NoError(t, farOut.Close())
		})
	}
}

// leastAllocs is how many allocations a call of fn makes, as far as they are its own: what goes on in the background is counted too, so of
// several measurements the lowest is right.
func leastAllocs(fn func()) float64 {
	least := testing.AllocsPerRun(200, fn)
	for range 50 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(200, fn))
	}
	return least
}

// Over TLS it is crypto/tls that allocates, twice per record or so; how many messages there are in the records does not matter.
func TestRelayOverTLSDoesNotAllocatePerMessage(t *testing.T) {
	nearIn, farIn := securePair(t)
	nearOut, farOut := securePair(t)
	topology := testTopology(t, &fakeControl{})
	defer func() { require.NoError(t, topology.Close()) }()
	s := scripted(t, nearIn, nearOut, 8192, topology)
	defer finishScripted(s)
	d := s.clientRelay()
	message := publish(1, testExchange, []byte("to a shard"))
	sink := make([]byte, 1<<16)
	measure := func(messages int) float64 {
		burst := bytes.Repeat(message, messages)
		one := func() {
			_, err := farIn.Write(burst)
			for d.out.total = 0; err == nil && d.out.total < int64(len(burst)); {
				if err = d.in.fill(d.need); err == nil {
					_, err = d.pass()
				}
			}
			for left := d.out.total; err == nil && left > 0; {
				var n int
				n, err = farOut.Read(sink)
				left -= int64(n)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 40 { // crypto/tls sends short records at first
			one()
		}
		return testing.AllocsPerRun(200, one)
	}
	many, few := measure(100), measure(1)
	t.Logf("a message: %v allocations, 100 messages: %v", few, many)
	require.LessOrEqual(t, many, few+8, "for 1 and for 100 messages")
}

// A heartbeat that passes while both relays are parked costs nothing that has to be collected.
func TestHeartbeatOfIdleDoesNotAllocate(t *testing.T) {
	_, client, broker := parkedPair(t)
	got := make([]byte, len(heartbeat))
	require.Zero(t, leastAllocs(func() {
		if _, err := client.Write(heartbeat); err != nil {
			t.Fatal(err)
		}
		if _, err := broker.Read(got); err != nil {
			t.Fatal(err)
		}
	}))
}
