package proxy

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

func TestHandshakeIsRelayed(t *testing.T) {
	r := startRig(t, nil)
	client := r.dial()
	client.write(frames.ProtocolHeader[:])
	broker := r.broker.accept()

	broker.send(0, startMethod)
	start := expect(client, &frames.ConnectionStart{})
	require.Equal(t, startMethod, start)

	sent := startOk("publisher_confirms")
	client.send(0, sent)
	got := expect(broker, &frames.ConnectionStartOk{})
	require.Equal(t, sent.Response, got.Response)
	address, _ := got.ClientProperties.LookupString("client_address")
	require.Equal(t, client.LocalAddr().String(), string(address))
	product, _ := got.ClientProperties.LookupString("proxy")
	require.Equal(t, "shardmq test", string(product))

	broker.send(0, &frames.ConnectionSecure{Challenge: []byte("who?")})
	require.Equal(t, []byte("who?"), expect(client, &frames.ConnectionSecure{}).Challenge)
	client.send(0, &frames.ConnectionSecureOk{Response: []byte("me")})
	require.Equal(t, []byte("me"), expect(broker, &frames.ConnectionSecureOk{}).Response)

	broker.send(0, tuneMethod)
	tune := expect(client, &frames.ConnectionTune{})
	require.Equal(t, &frames.ConnectionTune{ChannelMax: 2047, FrameMax: brokerFrameMax - router.FrameRoom, Heartbeat: 60}, tune)
	client.send(0, &frames.ConnectionTuneOk{ChannelMax: 5, FrameMax: 8192, Heartbeat: 0}, &frames.ConnectionOpen{VirtualHost: "some"})
	require.Equal(t, &frames.ConnectionTuneOk{ChannelMax: 5, FrameMax: 8192 + router.FrameRoom}, expect(broker, &frames.ConnectionTuneOk{}))
	require.Equal(t, "some", expect(broker, &frames.ConnectionOpen{}).VirtualHost)
	broker.send(0, &frames.ConnectionOpenOk{})
	expect(client, &frames.ConnectionOpenOk{})

	client.send(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "bye"})
	require.Equal(t, "bye", expect(broker, &frames.ConnectionClose{}).ReplyText)
	broker.send(0, &frames.ConnectionCloseOk{})
	expect(client, &frames.ConnectionCloseOk{})
	require.NoError(t, client.Close()) // ending the TCP connection is up to the client, as without a proxy
	broker.eof()
	require.NoError(t, broker.Close())

	line := r.ended(1)[0]
	require.Equal(t, "connection closed", line.Message)
	require.Equal(t, "some", line.ContextMap()["vhost"])
	require.Equal(t, r.broker.addr(), line.ContextMap()["upstream"])
	require.Equal(t, client.LocalAddr().String(), line.ContextMap()["client"])
}

// The broker may close in any state of the handshake; peers that hide why leave users with nothing to go by.
func TestBrokerClosesDuringHandshake(t *testing.T) {
	after := []string{"the protocol header", "start-ok", "secure-ok", "tune-ok", "open"}
	for state, name := range after {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it takes the proxy's patience
			r := startRig(t, nil)
			client := r.dial()
			client.write(frames.ProtocolHeader[:])
			broker := r.broker.accept()
			if state >= 1 {
				broker.send(0, startMethod)
				expect(client, &frames.ConnectionStart{})
				client.send(0, startOk("authentication_failure_close"))
				expect(broker, &frames.ConnectionStartOk{})
			}
			if state >= 2 {
				broker.send(0, &frames.ConnectionSecure{})
				expect(client, &frames.ConnectionSecure{})
				client.send(0, &frames.ConnectionSecureOk{})
				expect(broker, &frames.ConnectionSecureOk{})
			}
			if state >= 3 {
				broker.send(0, tuneMethod)
				tune := expect(client, &frames.ConnectionTune{})
				client.send(0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: tune.FrameMax})
				expect(broker, &frames.ConnectionTuneOk{})
			}
			if state >= 4 {
				client.send(0, &frames.ConnectionOpen{VirtualHost: "nosuch"})
				expect(broker, &frames.ConnectionOpen{})
			}
			broker.send(0, &frames.ConnectionClose{ReplyCode: 530, ReplyText: "NOT_ALLOWED - because", ClassID: 10, MethodID: 40})
			require.Equal(t, &frames.ConnectionClose{ReplyCode: 530, ReplyText: "NOT_ALLOWED - because", ClassID: 10, MethodID: 40},
				closeOk(client))
			expect(broker, &frames.ConnectionCloseOk{})
			require.NoError(t, broker.Close())
			client.eof()
			require.Contains(t, r.cause(), "NOT_ALLOWED - because")
		})
	}
}

// RabbitMQ just drops a connection with refused credentials when the client has not announced that it understands a close, and one with a
// mechanism or a response that makes no sense to it in any case.
func TestRefusedLoginStaysEOF(t *testing.T) {
	for cause, end := range map[string]func(*peer){
		"upstream: EOF": func(p *peer) { require.NoError(p.t, p.Close()) }, "connection reset by peer": (*peer).reset} {
		t.Run(cause, func(t *testing.T) {
			for _, announced := range []string{"publisher_confirms", "authentication_failure_close"} {
				r := startRig(t, nil)
				client, broker := r.begin()
				client.send(0, startOk(announced))
				expect(broker, &frames.ConnectionStartOk{})
				end(broker)
				client.eof()
				require.NoError(t, client.Close())
				require.Contains(t, r.cause(), cause)
			}
		})
	}
}

func TestUpstreamLostDuringHandshake(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.begin()
	client.send(0, startOk("authentication_failure_close"))
	expect(broker, &frames.ConnectionStartOk{})
	broker.send(0, tuneMethod)
	expect(client, &frames.ConnectionTune{})
	require.NoError(t, broker.Close())
	require.EqualValues(t, 320, closeOk(client).ReplyCode)
	client.eof()
	require.Contains(t, r.cause(), "upstream connection lost")
}

func TestTuneOkAboveTheOffer(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.begin()
	client.send(0, startOk())
	expect(broker, &frames.ConnectionStartOk{})
	broker.send(0, tuneMethod)
	tune := expect(client, &frames.ConnectionTune{})
	client.send(0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: tune.FrameMax + 1})
	require.EqualValues(t, 530, closeOk(client).ReplyCode)
	expect(broker, &frames.ConnectionClose{})
	require.NoError(t, broker.Close())
	client.eof()
	require.Contains(t, r.cause(), "frame_max")
}

func TestSlowHandshakeIsCut(t *testing.T) {
	t.Run("before the header is complete", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zapcore.DebugLevel)
			client, end := net.Pipe()
			s := newSession(newServer(Options{HandshakeTimeout: time.Hour, Log: zap.New(core)}), Listener{}, end, 1)
			go s.serve()
			_, err := client.Write(frames.ProtocolHeader[:5]) // returns when they were read
			require.NoError(t, err)
			_, err = client.Read(make([]byte, 1)) // meanwhile the hour passes
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, client.Close())
			synctest.Wait()
			require.Equal(t, 1, logs.Len())
			require.Contains(t, logs.All()[0].ContextMap()["error"], "protocol header")
			require.Equal(t, time.Hour, logs.All()[0].ContextMap()["lasted"])
		})
	})
	t.Run("after the start", func(t *testing.T) {
		r := startRig(t, nil)
		client, broker := r.begin()
		r.session().handshakeOver() // what the timer does
		_, err := client.next()
		require.Error(t, err)
		_, err = broker.next()
		require.Error(t, err)
		require.Contains(t, r.cause(), errHandshake.Error())
	})
}

// Nobody has logged in yet: a claimed length must not make the proxy allocate it.
func TestHandshakeFramesAreBounded(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.begin()
	client.write([]byte{frames.TypeMethod, 0, 0, 0x00, 0xff, 0xff, 0xff})
	require.EqualValues(t, 501, expect(client, &frames.ConnectionClose{}).ReplyCode)
	require.NoError(t, client.Close())
	expect(broker, &frames.ConnectionClose{})
	broker.eof()
	require.NoError(t, broker.Close())
	require.Contains(t, r.cause(), "FRAME_ERROR")
}
