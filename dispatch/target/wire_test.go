package target

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// inMemory has a client talk to an endpoint without a network, in a synctest bubble.
func inMemory(t *testing.T, c *Client, endpoint func(net.Conn)) {
	t.Cleanup(func() { time.Sleep(time.Hour) }) // the endpoint notices that it is over
	c.wire.dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			endpoint(there)
		}()
		return here, nil
	}
}

// trickle writes an octet a second, for as long as it may.
func trickle(c net.Conn, first, octet string) {
	_, err := io.WriteString(c, first)
	for err == nil {
		time.Sleep(time.Second)
		_, err = io.WriteString(c, octet)
	}
}

func readRequest(c net.Conn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// TestTimeout: the timeout is of all of an attempt, and cuts whatever the endpoint does.
func TestTimeout(t *testing.T) {
	const timeout = 2 * time.Second
	for name, endpoint := range map[string]func(net.Conn){
		"reads nothing": func(net.Conn) { time.Sleep(2 * timeout) },
		"hangs":         func(c net.Conn) { readRequest(c); _, _ = c.Read(make([]byte, 1)) },
		"slow status":   func(c net.Conn) { readRequest(c); trickle(c, "", "H") },
		"slow header":   func(c net.Conn) { readRequest(c); trickle(c, "HTTP/1.1 200 OK\r\nA: ", "a") },
		"slow body":     func(c net.Conn) { readRequest(c); trickle(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "o") },
		"slow chunks": func(c net.Conn) {
			readRequest(c)
			trickle(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\no\r\n")
		},
		"endless and slow": func(c net.Conn) { readRequest(c); trickle(c, "HTTP/1.1 200 OK\r\n\r\n", "ok") },
		"continues":        func(c net.Conn) { readRequest(c); trickle(c, "", "HTTP/1.1 100 Continue\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, Options{URL: "http://endpoint/", Timeout: timeout}, Rules{})
				inMemory(t, c, endpoint)
				m := job()
				m.Body = make([]byte, 1<<20)
				begun := time.Now()
				o := c.Do(t.Context(), m)
				require.Equal(t, []any{Again, Timeout, "no whole answer within 2s"}, []any{o.Verdict, o.Class, o.Reason})
				require.Equal(t, timeout, time.Since(begun))
				require.Equal(t, timeout, o.Took)
			})
		})
	}
}

func TestNoConnectionInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{URL: "http://endpoint/", Timeout: 8 * time.Second}, Rules{})
		c.wire.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTime(c.o))
			defer cancel()
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
		}
		o := c.Do(t.Context(), job())
		require.Equal(t, Outcome{Verdict: Again, Class: Unreachable, Reason: "no connection to endpoint:80 in time", Took: 6 * time.Second}, o)

		c = newClient(t, Options{URL: "https://endpoint/", Timeout: 8 * time.Second}, Rules{})
		inMemory(t, c, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		o = c.Do(t.Context(), job())
		require.Equal(t, Outcome{Verdict: Again, Class: Unreachable, Reason: "no TLS with endpoint:443: no answer in time", Took: 6 * time.Second}, o)
	})
}

func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{URL: "http://endpoint/"}, Rules{})
		inMemory(t, c, func(c net.Conn) { readRequest(c); trickle(c, "HTTP/1.1 200 OK\r\n\r\n", "ok") })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		o := c.Do(ctx, job())
		require.Equal(t, []any{Again, Cancelled, 3 * time.Second}, []any{o.Verdict, o.Class, o.Took})
	})
}

// long writes an answer of a length, which it says, or of chunks.
func long(c net.Conn, length int, declared bool) error {
	body := io.LimitReader(neverEnding('x'), int64(length))
	r := http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(body), ContentLength: int64(length)}
	if !declared {
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	}
	return r.Write(c)
}

// neverEnding reads as an octet, again and again.
type neverEnding byte

// Read implements io.Reader.
func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// TestLongAnswers: no more is read of an answer than is needed, and what is slow behind that is not waited for.
func TestLongAnswers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		length   int
		declared bool
		kept     bool // the connection
	}{
		{"looked at", maxLooked - 1, true, true},
		{"just looked at", maxLooked, true, true},
		{"drained", maxDrained, true, true},
		{"drained, in chunks", maxDrained - 1, false, true},
		{"longer, as declared", maxDrained + 1, true, false},
		{"10 MiB", 10 << 20, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, Options{URL: "http://endpoint/", Connections: 1}, Rules{AckWhen: Match{Contains: "xxxx"}})
				dials := 0
				inMemory(t, c, func(c net.Conn) {
					dials++
					for in := bufio.NewReader(c); ; {
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
						if long(c, tc.length, tc.declared) != nil {
							return
						}
					}
				})
				for range 3 {
					o := c.Do(t.Context(), job())
					require.Equal(t, Done, o.Verdict, "%+v", o)
				}
				if tc.kept {
					require.Equal(t, 1, dials)
				} else {
					require.Equal(t, 3, dials)
				}
			})
		})
	}
	t.Run("endless", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, Options{URL: "http://endpoint/"}, Rules{AckWhen: Match{Body: "x"}, DropWhen: Match{Contains: "y"}})
			sent := 0
			inMemory(t, c, func(c net.Conn) {
				readRequest(c)
				_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
				for ; err == nil; sent += 1 << 10 {
					_, err = io.WriteString(c, strings.Repeat(" ", 1<<10))
				}
			})
			o := c.Do(t.Context(), job())
			require.Equal(t, []any{Again, Refused, maxPreview}, []any{o.Verdict, o.Class, len(o.Preview)})
			synctest.Wait()
			require.LessOrEqual(t, sent, maxDrained+64<<10)
		})
	})
	t.Run("slow behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, Options{URL: "http://endpoint/"}, Rules{})
			inMemory(t, c, func(c net.Conn) {
				readRequest(c)
				trickle(c, "HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", maxLooked), "x")
			})
			o := c.Do(t.Context(), job())
			require.Equal(t, []any{Done, drainTime}, []any{o.Verdict, o.Took})
		})
	})
}

// TestConnections: they are kept, and never more than may be.
func TestConnections(t *testing.T) {
	const workers, jobs = 64, 1000
	for _, limit := range []int{workers, 7} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, Options{URL: "http://endpoint/", Connections: limit, Timeout: time.Hour}, Rules{AckWhen: SaysOK()})
			var dials, requests atomic.Int32
			inMemory(t, c, func(c net.Conn) {
				dials.Add(1)
				for in := bufio.NewReader(c); ; {
					if r, err := http.ReadRequest(in); err != nil {
						return
					} else if _, err = io.Copy(io.Discard, r.Body); err != nil {
						return
					}
					requests.Add(1)
					time.Sleep(time.Second)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			left := make(chan *Message, jobs)
			for range jobs {
				left <- job()
			}
			close(left)
			begun := time.Now()
			var wait sync.WaitGroup
			var done atomic.Int32
			for range workers {
				wait.Go(func() {
					for m := range left {
						if c.Do(t.Context(), m).Verdict == Done {
							done.Add(1)
						}
					}
				})
			}
			wait.Wait()
			require.EqualValues(t, jobs, done.Load())
			require.EqualValues(t, jobs, requests.Load())
			require.EqualValues(t, limit, dials.Load())
			require.Equal(t, time.Duration((jobs+limit-1)/limit)*time.Second, time.Since(begun), "all of them are used")
		})
	}
}

// TestIdleClosed: a connection that the endpoint has closed while it was idle costs no attempt; nor does one that has
// been idle for long.
func TestIdleClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{URL: "http://endpoint/"}, Rules{})
		dials, ended := 0, 0
		inMemory(t, c, func(c net.Conn) {
			dials++
			for n := dials; ; {
				readRequest(c)
				_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if err != nil {
					ended++
				}
				if n == 1 || err != nil {
					return
				}
			}
		})
		for i, want := range []int{1, 2, 2} {
			require.Equal(t, Done, c.Do(t.Context(), job()).Verdict)
			synctest.Wait()
			require.Equal(t, want, dials, i)
		}
		time.Sleep(idleTime)
		synctest.Wait()
		require.Equal(t, 1, ended)
	})
}

// TestClosedAtOnce: whoever closes connections before requests are on them is not run after.
func TestClosedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{URL: "http://endpoint/"}, Rules{})
		dials := 0
		c.wire.dial = func(context.Context, string, string) (net.Conn, error) {
			dials++
			here, there := net.Pipe()
			_ = there.Close()
			return here, nil
		}
		o := c.Do(t.Context(), job())
		require.Equal(t, []any{Again, Broken}, []any{o.Verdict, o.Class})
		require.LessOrEqual(t, dials, 3)
	})
}

// TestNotSentTwice: a request that the endpoint may have had is not sent again on another connection, though it has an
// idempotency key: it is for the caller to count attempts.
func TestNotSentTwice(t *testing.T) {
	for name, fail := range map[string]func(net.Conn, *http.Request, string) bool{"reset": reset, "closed": write("", false)} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			s := serveWire(t, func(c net.Conn, r *http.Request, raw string) bool {
				if n.Add(1) == 2 {
					return fail(c, r, raw)
				}
				return write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true)(c, r, raw)
			})
			c := newClient(t, Options{URL: s.URL, Connections: 1, Properties: []string{"X-Idempotency-Key"}}, Rules{})
			m := job()
			m.Headers = map[string]any{"X-Idempotency-Key": "k"}
			require.Equal(t, Done, c.Do(t.Context(), m).Verdict)
			require.Equal(t, Broken, c.Do(t.Context(), m).Class)
			require.EqualValues(t, 2, n.Load())
			require.Equal(t, Done, c.Do(t.Context(), m).Verdict)
		})
	}
}
