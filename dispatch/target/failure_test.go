package target

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailures: what errors come to that are hard to have, and that nothing is repeated that the endpoint has sent.
func TestFailures(t *testing.T) {
	w := &wire{host: "h:443"}
	for _, tc := range []struct {
		err    error
		class  Class
		reason string
	}{
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "h", IsTemporary: true, Server: "hidden"}}, Unreachable, "the address of h cannot be found out"},
		{&net.OpError{Op: "dial", Err: errors.New("hidden")}, Unreachable, "no connection to h:443"},
		{&net.OpError{Op: "proxyconnect", Err: syscall.ECONNREFUSED}, Unreachable, "no connection to the proxy: connection refused"},
		{&net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}}, Unreachable, "no connection to the proxy: no route to host"},
		{proxyError(407), Unreachable, "the proxy answered 407"},
		{errors.New("tls: server selected unsupported protocol version 301"), Unreachable, "no TLS with h:443: server selected unsupported protocol version 301"},
		{errors.New("http2: client conn could not be established"), Unreachable, "no TLS with h:443: it has closed the connection; does it want another certificate (tls.cert)?"},
		{fmt.Errorf("x: %w", &net.OpError{Op: "write", Err: syscall.EPIPE}), Broken, "the connection broke before the answer was whole: broken pipe"},
		{fmt.Errorf("hidden: %w", io.EOF), Broken, "the connection ended before the answer was whole"},
		{errors.New(`malformed HTTP status code "hidden"`), Broken, "what came is no HTTP"},
		{errors.New("net/http: server response headers exceeded 1 bytes; aborted"), Broken, "the answer's headers are too long"},
		{errors.New(`GOAWAY, debug="hidden"`), Broken, "the connection broke before the answer was whole"},
	} {
		o := w.failure(tc.err)
		require.Equal(t, Outcome{Verdict: Again, Class: tc.class, Reason: tc.reason}, o, tc.err)
	}
	for in, want := range map[string]string{"http://h/x": "h:80", "https://h": "h:443", "https://[::1]/": "[::1]:443", "http://h:8080": "h:8080"} {
		u, err := url.Parse(in)
		require.NoError(t, err)
		require.Equal(t, want, hostPort(u))
	}
}
