package proxy

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// script is a connection whose reads are prescribed, one chunk each, and whose writes are kept. It is no socket, so that the
// relay takes its other way to read.
type script struct {
	net.Conn // nil: what is not defined here must not be called
	chunks   [][]byte
	written  bytes.Buffer
}

func (c *script) Read(b []byte) (int, error) {
	if len(c.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.chunks[0])
	if c.chunks[0] = c.chunks[0][n:]; len(c.chunks[0]) == 0 {
		c.chunks = c.chunks[1:]
	}
	return n, nil
}

func (c *script) Write(b []byte) (int, error)      { return c.written.Write(b) }
func (c *script) Close() error                     { return nil }
func (c *script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5} }
func (c *script) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 6} }
func (c *script) SetWriteDeadline(time.Time) error { return nil }

// scripted is a session with an open connection and channel 1 between two connections that are no sockets.
func scripted(t testing.TB, client, broker net.Conn, frameMax uint32, dir router.Directory) *session {
	t.Helper()
	s := newSession(newServer(Options{}), Listener{}, client, 1)
	s.log = zap.NewNop()
	s.rt = router.New(router.Options{Open: func(string) router.Directory { return dir }})
	s.down = outlet{conn: client, take: s.rt.TakeDown, size: s.rt.PendingDown}
	s.broker, s.in = broker, newReader(broker)
	s.up = outlet{conn: broker, take: s.rt.TakeUp, size: s.rt.PendingUp}
	method := func(ch uint16, m frames.Method) frames.Frame { return frames.AppendMethod(nil, ch, m) }
	s.rt.BrokerFrame(method(0, tuneMethod))
	s.rt.ClientFrame(method(0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: frameMax}))
	s.rt.ClientFrame(method(0, &frames.ConnectionOpen{VirtualHost: "/"}))
	s.rt.BrokerFrame(method(0, &frames.ConnectionOpenOk{}))
	s.rt.ClientFrame(method(1, &frames.ChannelOpen{}))
	s.rt.BrokerFrame(method(1, &frames.ChannelOpenOk{}))
	require.True(t, s.rt.Established())
	s.rt.TakeUp(nil)
	s.rt.TakeDown(nil)
	return s
}

// finishScripted ends a scripted session as serve would.
func finishScripted(s *session) {
	s.mu.Lock()
	s.cutLocked(net.ErrClosed)
	s.mu.Unlock()
	s.helpers.Wait()
}

// relayed runs one direction over the chunks and returns what came out.
func relayed(t *testing.T, fromClient bool, frameMax uint32, chunks ...[]byte) []byte {
	t.Helper()
	in, out := &script{chunks: chunks}, &script{}
	var d *relay
	if fromClient {
		d = scripted(t, in, out, frameMax, nil).clientRelay()
	} else {
		d = scripted(t, out, in, frameMax, nil).brokerRelay()
	}
	defer finishScripted(d.s)
	require.ErrorIs(t, d.run(), io.EOF)
	return out.written.Bytes()
}

// stream is a bit of everything, in frames of an ordinary conversation.
func stream(fromClient bool) []byte {
	heartbeat := frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)
	message := deliver
	if fromClient {
		message = func(ch uint16, _ uint64, body []byte) []byte { return publish(ch, "x", body) }
	}
	b := message(1, 1, []byte("hello"))
	b = append(b, heartbeat...)
	b = append(b, message(1, 2, nil)...)
	b = frames.AppendMethod(b, 1, &frames.BasicAck{DeliveryTag: 1})
	b = append(b, announcing(message(1, 3, nil), 6)...)
	b = frames.AppendFrame(b, frames.TypeBody, 1, []byte("two"))
	b = frames.AppendFrame(b, frames.TypeBody, 1, nil) // legal, and seen in the wild
	b = append(b, heartbeat...)
	return frames.AppendFrame(b, frames.TypeBody, 1, []byte("six"))
}

// announcing is a message without body, announcing one of that size.
func announcing(message []byte, size int) []byte {
	method, _ := frames.Next(message, 0)
	return append(bytes.Clone(method), contentHeader(1, size)...)
}

func TestChoppedAnywhere(t *testing.T) {
	for _, fromClient := range []bool{true, false} {
		whole := stream(fromClient)
		for i := range whole {
			require.Equal(t, whole, relayed(t, fromClient, 8192, whole[:i:i], whole[i:]), "client %v, cut at %d", fromClient, i)
		}
		var single [][]byte
		for i := range whole {
			single = append(single, whole[i:i+1])
		}
		require.Equal(t, whole, relayed(t, fromClient, 8192, single...), "client %v, octet by octet", fromClient)
	}
}

// Bodies for the client are cut to its frame_max, wherever the reads end.
func TestCutToFrameMaxChoppedAnywhere(t *testing.T) {
	const piece = frames.MinFrameMax - frames.Overhead
	sizes := []int{piece - 1, piece, piece + 1, 2*piece - 1, 2 * piece, 2*piece + 1, 3*piece + 7}
	for _, size := range sizes {
		body := pattern(size)
		in := deliver(1, 1, body)
		want := announcing(deliver(1, 1, nil), size)
		for rest := body; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
			want = frames.AppendFrame(want, frames.TypeBody, 1, rest[:min(piece, len(rest))])
		}
		for _, at := range []int{1, len(in) - size - 8, len(in) - size - 1, len(in) - size, len(in) - size + piece - 1,
			len(in) - size + piece - 2, len(in) - 1, len(in) - 2} {
			at = min(at, len(in)-1)
			require.Equal(t, want, relayed(t, false, frames.MinFrameMax, in[:at:at], in[at:]), "size %d, cut at %d", size, at)
		}
	}
}

// A frame that must be whole may be larger than any pooled buffer: the buffer grows as it comes.
func TestLargeWholeFrameInPieces(t *testing.T) {
	whole := append(frames.AppendMethod(nil, 1, &frames.BasicDeliver{Exchange: "x"}), frames.AppendFrame(nil, frames.TypeHeader, 1, pattern(3<<20))...)
	whole = frames.AppendMethod(whole, 1, &frames.BasicQosOk{})
	var chunks [][]byte
	for rest := whole; len(rest) > 0; rest = rest[min(70_001, len(rest)):] {
		chunks = append(chunks, rest[:min(70_001, len(rest))])
	}
	require.Equal(t, whole, relayed(t, false, 8192, chunks...))
}
