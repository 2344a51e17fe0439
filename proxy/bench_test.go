package proxy

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// endless is a connection that reads the same octets over and over and discards what is written.
type endless struct {
	net.Conn
	data    []byte
	at      int
	written int64
}

func (c *endless) Read(b []byte) (int, error) {
	n := copy(b, c.data[c.at:])
	c.at = (c.at + n) % len(c.data)
	return n, nil
}

func (c *endless) Write(b []byte) (int, error)      { c.written += int64(len(b)); return len(b), nil }
func (c *endless) Close() error                     { return nil }
func (c *endless) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *endless) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *endless) SetWriteDeadline(time.Time) error { return nil }

// load is a kind of traffic to measure.
type load struct {
	name    string
	message []byte
	sharded bool
	deliver bool
}

func loads() []load {
	var out []load
	for _, size := range []int{16, 1024} {
		body := pattern(size)
		out = append(out,
			load{fmt.Sprintf("publish %d B", size), publish(1, "other", body), false, false},
			load{fmt.Sprintf("sharded publish %d B", size), publish(1, testExchange, body), true, false},
			load{fmt.Sprintf("deliver %d B", size), deliver(1, 1, body), false, true},
		)
	}
	return append(out,
		load{"ack", frames.AppendMethod(nil, 1, &frames.BasicAck{DeliveryTag: 5}), false, false},
		load{"publish 1 MiB", largePublish(1 << 20), false, false},
		load{"deliver 1 MiB, cut", deliver(1, 1, pattern(1<<20)), false, true},
	)
}

// largePublish is a publish whose body is in frames of the size that the client may send.
func largePublish(size int) []byte {
	const piece = brokerFrameMax - router.FrameRoom - frames.Overhead
	b := announcing(publish(1, "other", nil), size)
	for rest := pattern(size); len(rest) > 0; rest = rest[min(piece, len(rest)):] {
		b = frames.AppendFrame(b, frames.TypeBody, 1, rest[:min(piece, len(rest))])
	}
	return b
}

// loaded is a relay with an endless supply of the load, in bursts as they come when a peer is busy, and how many octets a message has.
func loaded(t testing.TB, l load) *relay {
	t.Helper()
	topology := testTopology(t, &fakeControl{})
	t.Cleanup(func() { require.NoError(t, topology.Close()) })
	many := bytes.Repeat(l.message, max(1, largeBuffer/len(l.message)))
	in, out := &endless{data: many}, &endless{}
	var d *relay
	if l.deliver {
		s := scripted(t, out, in, brokerFrameMax-router.FrameRoom, topology)
		d = s.brokerRelay()
	} else {
		d = scripted(t, in, out, brokerFrameMax-router.FrameRoom, topology).clientRelay()
	}
	d.in.want = largeBuffer
	t.Cleanup(func() { finishScripted(d.s) })
	return d
}

// step is one turn of relay.run.
func (d *relay) step(t testing.TB) {
	if err := d.in.fill(d.need); err != nil {
		t.Fatal(err)
	}
	if _, err := d.pass(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkRelay(b *testing.B) {
	for _, l := range loads() {
		b.Run(l.name, func(b *testing.B) {
			d := loaded(b, l)
			for range 10 {
				d.step(b)
			}
			b.SetBytes(int64(len(l.message)))
			b.ReportAllocs()
			b.ResetTimer()
			in := d.in.conn.(*endless)
			for passed := 0; passed < b.N*len(l.message); {
				before := in.at
				d.step(b)
				passed += (in.at-before+len(in.data)-1)%len(in.data) + 1
			}
		})
	}
}
