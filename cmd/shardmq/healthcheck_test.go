package main

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// answering starts a server that reads a protocol header and answers.
func answering(t *testing.T, answer func(header [8]byte) []byte) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var header [8]byte
		if _, err := io.ReadFull(conn, header[:]); err == nil {
			_, _ = conn.Write(answer(header))
			// A real server reads on: closing early would reset the connection.
			if half, ok := conn.(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func startOf(product string) []byte {
	return frames.AppendMethod(nil, 0, &frames.ConnectionStart{
		VersionMinor: 9, ServerProperties: frames.AppendString(nil, "product", product),
		Mechanisms: []byte("PLAIN"), Locales: []byte("en_US"),
	})
}

func TestHealthcheck(t *testing.T) {
	start := startOf("RabbitMQ")
	refused := startOf("shardmq")
	refused = append(refused, frames.AppendMethod(nil, 0, &frames.ConnectionClose{ReplyCode: 320, ReplyText: "CONNECTION_FORCED - no node reachable"})...)
	// server answers as the proxy does, with this after the right header.
	server := func(after []byte) func([8]byte) []byte {
		return func(header [8]byte) []byte {
			if header != frames.ProtocolHeader {
				return frames.ProtocolHeader[:]
			}
			return after
		}
	}
	text := func([8]byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }
	nothing := func([8]byte) []byte { return nil }
	alert := func([8]byte) []byte { return []byte("\x15\x03\x01\x00\x02\x02\x46") } // as RabbitMQ's TLS listeners answer
	for name, c := range map[string]struct {
		answer func([8]byte) []byte
		flags  []string
		code   int
		want   string
	}{
		"alive":             {server(refused), nil, 0, "healthy\n"},
		"ready":             {server(start), []string{"--ready"}, 0, "healthy\n"},
		"no node":           {server(refused), []string{"--ready"}, 1, "the proxy answers 320 CONNECTION_FORCED - no node reachable"},
		"reason missing":    {server(startOf("shardmq")), []string{"--ready"}, 1, "no answer: EOF\n"},
		"cut short":         {server(start[:20]), []string{"--ready"}, 1, "no answer: unexpected EOF"},
		"silent":            {nothing, nil, 1, "no answer: EOF; if it is a listener with TLS, add --tls\n"},
		"silent, ready":     {nothing, []string{"--ready"}, 1, "no answer: EOF; if it is a listener with TLS, add --tls\n"},
		"TLS":               {alert, nil, 1, "what answers speaks TLS; add --tls\n"},
		"TLS, ready":        {alert, []string{"--ready"}, 1, "what answers speaks TLS; add --tls\n"},
		"plain, with --tls": {server(refused), []string{"--tls", "--no-verify"}, 1, "if it is a listener without TLS, leave --tls out\n"},
		"another, not AMQP": {text, nil, 1, "what answers is no AMQP 0-9-1 server"},
		"ready, not AMQP":   {text, []string{"--ready"}, 1, "what answers is no AMQP 0-9-1 server"},
		"another version":   {func([8]byte) []byte { return []byte("AMQP\x00\x01\x00\x00") }, []string{"--ready"}, 1, "what answers is no AMQP 0-9-1 server"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"healthcheck", "--address", answering(t, c.answer)}, c.flags...)
			r := shardmq(nil, args...)
			require.Equal(t, c.code, r.code, r.stderr)
			require.Contains(t, r.stdout+r.stderr, c.want)
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	r := shardmq(nil, "healthcheck", "--address", l.Addr().String())
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "not healthy: ")
}

// A name that no certificate can have is a mistake of whoever asks.
func TestHealthcheckOfABadServerName(t *testing.T) {
	r := shardmq(nil, "healthcheck", "--tls", "--server-name", "rabbit.example:5671")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, `shardmq: --server-name: is "rabbit.example:5671"; give a host name alone, without a port`)
}
