package frames_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// requireCode checks that err is an *Exception of that code, raised here, with a text.
func requireCode(t *testing.T, want frames.Code, err error) {
	t.Helper()
	var e *frames.Exception
	require.ErrorAs(t, err, &e)
	require.Equal(t, want, e.Code)
	require.NotEmpty(t, e.Text)
	require.False(t, e.Remote)
}

func TestParseHead(t *testing.T) {
	h := frames.ParseHead([]byte{3, 0x12, 0x34, 0xFF, 0xFE, 0xFD, 0xFC, 9})
	require.Equal(t, frames.Head{Type: 3, Channel: 0x1234, Size: 0xFFFEFDFC}, h)
	require.Panics(t, func() { frames.ParseHead(make([]byte, frames.HeadSize-1)) })
}

func TestHeadCheck(t *testing.T) {
	for typ := range 256 {
		err := frames.Head{Type: byte(typ)}.Check(0)
		switch byte(typ) {
		case frames.TypeMethod, frames.TypeHeader, frames.TypeBody, frames.TypeHeartbeat:
			require.NoError(t, err, "type %d", typ)
		default:
			requireCode(t, frames.FrameError, err)
		}
	}
	tests := []struct {
		size, frameMax uint32
		ok             bool
	}{
		{0, 4096, true},
		{4088, 4096, true},
		{4096, 4096, true}, // as RabbitMQ counts
		{4097, 4096, false},
		{0xFFFFFFFF, 0, true},
		{0xFFFFFFFF, 0xFFFFFFFF, true},
		{0xFFFFFFFF, 0xFFFFFFFE, false},
		{0xFFFFFFF8, 131072, false},
	}
	for _, tt := range tests {
		err := frames.Head{Type: frames.TypeBody, Size: tt.size}.Check(tt.frameMax)
		if tt.ok {
			require.NoError(t, err, "%+v", tt)
		} else {
			requireCode(t, frames.FrameError, err)
		}
	}
}

func TestNextWalksAStream(t *testing.T) {
	var stream []byte
	stream = frames.AppendMethod(stream, 7, &frames.BasicPublish{Exchange: "x", RoutingKey: "k"})
	stream = frames.AppendFrame(stream, frames.TypeHeader, 7, []byte("header"))
	stream = frames.AppendFrame(stream, frames.TypeBody, 7, bytes.Repeat([]byte{frames.End}, 100))
	stream = frames.AppendFrame(stream, frames.TypeBody, 7, nil)
	stream = frames.AppendFrame(stream, frames.TypeHeartbeat, 0, nil)

	var types []byte
	var again []byte
	for rest := stream; len(rest) > 0; {
		f, err := frames.Next(rest, frames.MinFrameMax)
		require.NoError(t, err)
		require.Equal(t, len(f), cap(f), "appending to a frame must not reach the next one")
		require.Equal(t, len(f)-frames.Overhead, len(f.Payload()))
		require.Equal(t, len(f.Payload()), cap(f.Payload()))
		types = append(types, f.Type())
		again = frames.AppendFrame(again, f.Type(), f.Channel(), f.Payload())
		rest = rest[len(f):]
	}
	require.Equal(t, []byte{1, 2, 3, 3, 8}, types)
	require.Equal(t, stream, again)
}

func TestNextNeedsEveryOctet(t *testing.T) {
	whole := frames.AppendFrame(nil, frames.TypeBody, 1, []byte("some octets"))
	for n := range whole {
		_, err := frames.Next(whole[:n], 0)
		require.Equal(t, frames.ErrShort, err, "%d of %d octets", n, len(whole))
	}
	f, err := frames.Next(append(whole, 1, 2, 3), 0)
	require.NoError(t, err)
	require.Equal(t, frames.Frame(whole), f)
}

func TestNextRefusesBadFrames(t *testing.T) {
	good := frames.AppendFrame(nil, frames.TypeBody, 1, []byte("abc"))
	badEnd := bytes.Clone(good)
	badEnd[len(badEnd)-1] = 0xCD
	tests := map[string]struct {
		b        []byte
		frameMax uint32
	}{
		"end octet":                   {badEnd, 0},
		"type 0":                      {[]byte{0, 0, 0, 0, 0, 0, 0, frames.End}, 0},
		"protocol header":             {frames.ProtocolHeader[:], 0},
		"type known before the rest":  {[]byte{9, 0, 0, 0, 0, 1, 0}, 0},
		"over frame_max":              {good, 2},
		"size known before payload":   {[]byte{3, 0, 1, 0, 0, 0x10, 0x01}, frames.MinFrameMax},
		"size that wraps 32 bits":     {append([]byte{3, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF}, good...), frames.MinFrameMax},
		"bad type and over frame_max": {[]byte{77, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF}, frames.MinFrameMax},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := frames.Next(tt.b, tt.frameMax)
			require.Nil(t, f)
			requireCode(t, frames.FrameError, err)
		})
	}
	_, err := frames.Next(good, 3)
	require.NoError(t, err)
	_, err = frames.Next([]byte{3, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF}, 0)
	require.Equal(t, frames.ErrShort, err, "no limit: a huge frame is only incomplete")
}

func TestFrameMethodAndArgs(t *testing.T) {
	f := frames.Frame(frames.AppendMethod(nil, 513, &frames.QueueDeclareOk{Queue: "q", MessageCount: 1, ConsumerCount: 2}))
	require.Equal(t, frames.QueueDeclareOkID, f.Method())
	require.Equal(t, uint16(513), f.Channel())
	require.Equal(t, []byte{1, 'q', 0, 0, 0, 1, 0, 0, 0, 2}, f.Args())
	require.Equal(t, len(f.Args()), cap(f.Args()))

	noArgs := frames.Frame(frames.AppendMethod(nil, 1, new(frames.TxSelect)))
	require.Equal(t, frames.TxSelectID, noArgs.Method())
	require.Empty(t, noArgs.Args())

	short := frames.Frame(frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 60, 0}))
	require.Zero(t, short.Method())
	require.Nil(t, short.Args())

	body := frames.Frame(frames.AppendFrame(nil, frames.TypeBody, 1, []byte{0, 60, 0, 40}))
	require.Zero(t, body.Method(), "a body frame is no method whatever it holds")
}

func TestProtocolHeader(t *testing.T) {
	require.Equal(t, "AMQP\x00\x00\x09\x01", string(frames.ProtocolHeader[:]))
}
