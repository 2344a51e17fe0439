package proxy

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

func TestMalformedFramesFromClient(t *testing.T) {
	badEnd := func(f []byte) []byte {
		f = bytes.Clone(f)
		f[len(f)-1] = 0
		return f
	}
	qos := frames.AppendMethod(nil, 1, &frames.BasicQos{PrefetchCount: 1})
	body := announcing(publish(1, "x", nil), 10)
	cases := []struct {
		name    string
		first   []byte // reaches the broker
		second  []byte
		inFrame bool // so does the second
	}{
		{"method without end octet", qos, badEnd(qos), false},
		{"header without end octet", frames.AppendMethod(nil, 1, &frames.BasicPublish{}), badEnd(contentHeader(1, 1)), false},
		{"unknown type", qos, []byte{7, 0, 1, 0, 0, 0, 0, frames.End}, false},
		{"method above frame_max", qos, []byte{frames.TypeMethod, 0, 1, 0, 0, 0x20, 0}, false},
		{"body above frame_max", body, []byte{frames.TypeBody, 0, 1, 0, 0, 0x20, 0}, false},
		{"body without end octet", body, badEnd(frames.AppendFrame(nil, frames.TypeBody, 1, pattern(10))), true},
		{"HTTP in between", qos, []byte("GET / HTTP/1.1\r\n\r\n"), false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := startRig(t, nil)
			other, otherBroker := r.openChannel(0)
			client, broker := r.openChannel(4096)
			client.write(tc.first)
			require.Equal(t, tc.first, broker.read(len(tc.first)))
			client.write(tc.second)
			if tc.inFrame { // the broker is to refuse it
				require.Equal(t, tc.second, broker.read(len(tc.second)))
				broker.send(0, &frames.ConnectionClose{ReplyCode: uint16(frames.FrameError), ReplyText: "FRAME_ERROR - the broker's"})
			} else { // the answers to what came before come first
				expect(broker, &frames.ConnectionClose{})
				broker.send(1, &frames.BasicQosOk{})
				broker.send(0, &frames.ConnectionCloseOk{})
				expect(client, &frames.BasicQosOk{})
			}
			m := expect(client, &frames.ConnectionClose{})
			require.EqualValues(t, frames.FrameError, m.ReplyCode)
			require.NoError(t, client.Close())
			broker.eof()
			require.NoError(t, broker.Close())
			require.Contains(t, r.cause(), "FRAME_ERROR")
			roundTrip(other, otherBroker)
		})
	}
}

// A body frame that is on its way already turns out to have no end: the broker must not take what follows for its payload's end.
func TestStreamedBodyWithoutEnd(t *testing.T) {
	r := startRig(t, nil)
	other, otherBroker := r.openChannel(0)
	client, broker := r.openChannel(0)
	const size = 100_000
	sent := announcing(publish(1, "x", nil), size)
	frame := frames.AppendFrame(nil, frames.TypeBody, 1, pattern(size))
	sent = append(sent, frame[:len(frame)-1]...)
	client.write(sent)
	require.Equal(t, sent, broker.read(len(sent)))
	client.write(append([]byte{'!'}, pattern(100_000)...)) // unread octets must not make the end a reset
	require.Equal(t, []byte{'!'}, broker.read(1))          // it is to refuse the frame
	require.NoError(t, broker.Close())
	require.EqualValues(t, frames.FrameError, expect(client, &frames.ConnectionClose{}).ReplyCode)
	client.eof()
	require.NoError(t, client.Close())
	require.Contains(t, r.cause(), "invalid_frame_end_marker")
	roundTrip(other, otherBroker)
}

// RabbitMQ compares the payload alone with frame_max, so that a frame may be 8 octets above it.
func TestFrameMaxCountsThePayload(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(4096)
	sent := publish(1, "x", pattern(4096))
	client.write(sent)
	require.Equal(t, sent, broker.read(len(sent)))
	client.write(publish(1, "x", pattern(4097)))
	f, err := broker.next()
	require.NoError(t, err)
	require.Equal(t, frames.BasicPublishID, f.Method())
	_, err = broker.next()
	require.NoError(t, err)
	expect(broker, &frames.ConnectionClose{})
	require.NoError(t, broker.Close()) // without a word: the client hears it all the same
	require.EqualValues(t, frames.FrameError, expect(client, &frames.ConnectionClose{}).ReplyCode)
	require.NoError(t, client.Close())
	require.Contains(t, r.cause(), "{frame_too_large,4097,4088}")
}

// What follows on the client's close does not keep the answer to that from it.
func TestMalformedBehindClose(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	closing := frames.AppendMethod(nil, 0, &frames.ConnectionClose{ReplyCode: uint16(frames.ReplySuccess)})
	client.write(append(bytes.Clone(closing), "rubbish!"...))
	require.Equal(t, closing, broker.read(len(closing)))
	broker.send(0, &frames.ConnectionCloseOk{})
	expect(client, &frames.ConnectionCloseOk{})
	client.eof()
	require.NoError(t, client.Close())
	broker.eof()
	require.NoError(t, broker.Close())
	require.Contains(t, r.cause(), "FRAME_ERROR")
}

// A client that sends rubbish and reads nothing must not keep its session for ever.
func TestMalformedWhileClientDoesNotRead(t *testing.T) {
	t.Parallel() // it takes the proxy's patience
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	flood(t, broker)
	client.write([]byte("rubbish!"))
	require.Contains(t, r.cause(), "FRAME_ERROR")
}

func TestMalformedFramesFromBroker(t *testing.T) {
	qosOk := frames.AppendMethod(nil, 1, &frames.BasicQosOk{})
	bad := bytes.Clone(qosOk)
	bad[len(bad)-1] = 1
	huge := []byte{frames.TypeMethod, 0, 1, 0xff, 0xff, 0xff, 0xff}
	for name, rubbish := range map[string][]byte{"end octet": bad, "type": []byte("HTTP/1.1 400 Bad"), "size": huge} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, nil)
			client, broker := r.openChannel(0)
			broker.write(append(bytes.Clone(qosOk), rubbish...))
			expect(client, &frames.BasicQosOk{})
			m := closeOk(client)
			require.EqualValues(t, frames.InternalError, m.ReplyCode)
			require.Contains(t, m.ReplyText, "malformed")
			client.eof()
			require.Contains(t, r.cause(), "upstream sent a malformed frame")
		})
	}
}
