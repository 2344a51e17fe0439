package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
)

// securePair is a TLS connection with the proxy's end of it, after the handshake.
func securePair(t *testing.T) (near *tlsConn, far *tls.Conn) {
	t.Helper()
	n, f := tcpPair(t)
	return secured(t, n, f)
}

func secured(t *testing.T, n, f net.Conn) (near *tlsConn, far *tls.Conn) {
	t.Helper()
	ca := certtest.NewCA(t, "CA")
	near = newTLSConn(n, serverTLS(t, ca, nil).Server(), tls.Server, new(session).clientFault)
	far = tls.Client(f, trusting(t, ca, nil).Client("127.0.0.1"))
	done := make(chan error, 1)
	go func() { done <- near.Handshake() }()
	require.NoError(t, far.Handshake())
	require.NoError(t, <-done)
	t.Cleanup(func() { _ = f.Close(); _ = n.Close() })
	return near, far
}

// Neither plain text nor ciphertext takes a buffer of ours while nothing comes, and a deadline that passes does no harm.
func TestIdleTLSReaderHoldsNoBuffer(t *testing.T) {
	near, far := securePair(t)
	d := newReader(near)
	for _, want := range []string{"abc", "defgh"} {
		_, err := far.Write([]byte(want))
		require.NoError(t, err)
		require.NoError(t, d.fill(0))
		require.Equal(t, want, string(d.unread()))
		d.consume(len(want))
		require.NoError(t, near.SetReadDeadline(time.Now().Add(time.Millisecond)))
		require.ErrorIs(t, d.fill(0), os.ErrDeadlineExceeded)
		require.Nil(t, d.buf)
		require.Nil(t, near.wire.in.buf)
		require.NoError(t, near.SetReadDeadline(time.Time{}))
	}
	require.NoError(t, far.Close())
	require.ErrorIs(t, d.fill(0), io.EOF)
	require.ErrorIs(t, d.fill(0), io.EOF, "and again")
}

// Many records are read at once, and a connection that is cut inside of one has not ended.
func TestTLSReaderTakesAllThereIs(t *testing.T) {
	near, far := securePair(t)
	d := newReader(near)
	data := pattern(100_000)
	go func() { _, _ = far.Write(data) }()
	d.want = largeBuffer
	for len(d.unread()) < len(data) {
		require.NoError(t, d.fill(len(data)))
	}
	require.Equal(t, data, d.unread())
	d.consume(len(data))
	_, err := far.NetConn().Write([]byte{0x17, 3, 3, 0, 100, 1})
	require.NoError(t, err)
	require.NoError(t, far.NetConn().Close())
	require.ErrorIs(t, d.fill(0), io.ErrUnexpectedEOF)
}

// Closing never waits for a peer that does not read.
func TestTLSCloseDoesNotWait(t *testing.T) {
	for name, end := range map[string]func(*tlsConn) error{"close": (*tlsConn).Close, "close write": (*tlsConn).CloseWrite} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, f := net.Pipe() // where a write waits for its reader
				near, _ := secured(t, n, f)
				began := time.Now()
				_ = end(near)
				require.Zero(t, time.Since(began))
			})
		})
	}
}
