package target

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// quiet is for servers that tell of what a test does to them.
var quiet = log.New(io.Discard, "", 0)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is one that no test waits for.
const testTimeout = time.Minute

func newClient(t testing.TB, o Options, r Rules) *Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = testTimeout
	}
	c, err := New(o, r)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func job() *Message {
	return &Message{Job: "resize", Queue: "images", ID: "id-1", Attempt: 1, Body: []byte(`{"file":"a.png"}`), ContentType: "application/json"}
}

// recorder is a server that keeps what it was asked, and answers with answer or 200.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	answer   func(w http.ResponseWriter, r *http.Request)
}

func record(t testing.TB) *recorder {
	s := &recorder{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = quiet
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(w, r)
	}
}

// one returns the only request there was, and forgets it.
func (s *recorder) one(t testing.TB) (r *http.Request, body string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.requests, 1)
	r, body = s.requests[0], s.bodies[0]
	s.requests, s.bodies = nil, nil
	return r, body
}

// wireServer is a server that answers with octets.
type wireServer struct {
	net.Listener
	URL         string
	connections atomic.Int32
	requests    atomic.Int32
	wait        sync.WaitGroup
}

// serveWire calls answer for each request; it returns whether the connection is read further.
func serveWire(t testing.TB, answer func(c net.Conn, head *http.Request, raw string) bool) *wireServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &wireServer{Listener: l, URL: "http://" + l.Addr().String() + "/"}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		s.wait.Wait()
	})
	s.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			s.wait.Go(func() { s.serve(ctx, c, answer) })
		}
	})
	return s
}

func (s *wireServer) serve(ctx context.Context, c net.Conn, answer func(net.Conn, *http.Request, string) bool) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &raw))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		s.requests.Add(1)
		if !answer(c, r, raw.String()) {
			return
		}
		raw.Reset()
	}
}

// write answers with the same octets each time, and keeps the connection if keep.
func write(text string, keep bool) func(net.Conn, *http.Request, string) bool {
	return func(c net.Conn, _ *http.Request, _ string) bool {
		_, err := io.WriteString(c, text)
		return keep && err == nil
	}
}

func reset(c net.Conn, _ *http.Request, _ string) bool {
	_ = c.(*net.TCPConn).SetLinger(0)
	return false
}

// hang holds the connection until the other side ends it.
func hang(c net.Conn, _ *http.Request, _ string) bool {
	_, _ = io.Copy(io.Discard, c)
	return false
}
