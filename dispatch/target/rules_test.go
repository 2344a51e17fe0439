package target

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRules(t *testing.T) {
	at := func(from, to int) []StatusRange { return []StatusRange{{from, to}} }
	model := Rules{AckWhen: SaysOK()}
	full := Rules{AckWhen: Match{Statuses: at(200, 204)}, DropWhen: Match{Statuses: []StatusRange{{404, 404}, {409, 410}}},
		DeadLetterWhen: Match{Statuses: at(400, 499), Contains: "fatal"}}
	for _, tc := range []struct {
		name    string
		rules   Rules
		status  int
		body    string
		verdict Verdict
		class   Class
	}{
		{"none: 2xx is done", Rules{}, 204, "", Done, OK},
		{"none: 3xx is not", Rules{}, 304, "", Again, Refused},
		{"none: 1xx is not", Rules{}, 101, "", Again, Refused},
		{"none: 4xx is not", Rules{}, 404, "ok", Again, Status4xx},
		{"none: 5xx is not", Rules{}, 500, "ok", Again, Status5xx},
		{"ok", model, 200, "ok", Done, OK},
		{"ok, in any case", model, 200, "oK", Done, OK},
		{"ok, space around", model, 200, "\r\n ok\t\n", Done, OK},
		{"ok and more", model, 200, "ok.", Again, Refused},
		{"empty", model, 200, "", Again, Refused},
		{"ok, not 200", model, 202, "ok", Again, Refused},
		{"a body alone wants 2xx", Rules{AckWhen: Match{Body: "ok"}}, 500, "ok", Again, Status5xx},
		{"a body alone, 2xx", Rules{AckWhen: Match{Body: " OK "}}, 299, "ok", Done, OK},
		{"contains", Rules{AckWhen: Match{Contains: `"done":true`}}, 200, `{"done":true}`, Done, OK},
		{"contains, in this case", Rules{AckWhen: Match{Contains: "Done"}}, 200, "done", Again, Refused},
		{"both", Rules{AckWhen: Match{Body: "done", Contains: "D"}}, 200, " Done", Done, OK},
		{"ack before drop", Rules{AckWhen: Match{Statuses: at(200, 500)}, DropWhen: Match{Statuses: at(200, 500)}}, 404, "", Done, OK},
		{"drop", full, 410, "fatal", Drop, Status4xx},
		{"drop, a range", full, 409, "", Drop, Status4xx},
		{"dead", full, 422, "it is fatal", Dead, Status4xx},
		{"dead, not this body", full, 422, "it is not", Again, Status4xx},
		{"none of them", full, 503, "fatal", Again, Status5xx},
		{"drop by a body alone", Rules{DropWhen: Match{Body: "never"}}, 500, "Never\n", Drop, Status5xx},
		{"no ack though 2xx, dead by body", Rules{AckWhen: SaysOK(), DeadLetterWhen: Match{Contains: "poison"}}, 200, "poison", Dead, Refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRules(tc.rules)
			o := r.judge(tc.status, []byte(tc.body), false)
			require.Equal(t, []any{tc.verdict, tc.class, tc.status}, []any{o.Verdict, o.Class, o.Status})
			require.Equal(t, tc.verdict != Done, o.Reason != "")
			if tc.body != "" {
				require.NotContains(t, o.Reason, strings.TrimSpace(tc.body)+" ")
			}
		})
	}
	r := newRules(Rules{AckWhen: SaysOK()})
	require.Equal(t, Again, r.judge(200, []byte("ok"), true).Verdict, "what is behind is not known")
}

// TestAnswers is what answers of all kinds come to, under the rules of Consumer Dispatcher and under those of new jobs.
func TestAnswers(t *testing.T) {
	text := func(status int, body string) func(net.Conn, *http.Request, string) bool {
		return write(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body), true)
	}
	redirect := func(status int) func(net.Conn, *http.Request, string) bool {
		return write(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nok", status), true)
	}
	for _, tc := range []struct {
		name          string
		answer        func(net.Conn, *http.Request, string) bool
		model, modern Outcome
	}{
		{"200 ok", text(200, "ok"), Outcome{Class: OK}, Outcome{Class: OK}},
		{"200 OK", text(200, "OK"), Outcome{Class: OK}, Outcome{Class: OK}},
		{"200 space", text(200, " ok \n"), Outcome{Class: OK}, Outcome{Class: OK}},
		{"200 ko", text(200, "ko"), Outcome{Verdict: Again, Class: Refused}, Outcome{Class: OK}},
		{"200, in chunks", write("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", true), Outcome{Class: OK}, Outcome{Class: OK}},
		{"200, to the end", write("HTTP/1.0 200 X\r\n\r\nok", false), Outcome{Class: OK}, Outcome{Class: OK}},
		{"201", text(201, "ok"), Outcome{Verdict: Again, Class: Refused}, Outcome{Class: OK}},
		{"204", write("HTTP/1.1 204 X\r\n\r\n", true), Outcome{Verdict: Again, Class: Refused}, Outcome{Class: OK}},
		{"302", redirect(302), Outcome{Verdict: Again, Class: Refused}, Outcome{Verdict: Again, Class: Refused}},
		{"303", redirect(303), Outcome{Verdict: Again, Class: Refused}, Outcome{Verdict: Again, Class: Refused}},
		{"307", redirect(307), Outcome{Verdict: Again, Class: Refused}, Outcome{Verdict: Again, Class: Refused}},
		{"404", text(404, "ok"), Outcome{Verdict: Again, Class: Status4xx}, Outcome{Verdict: Again, Class: Status4xx}},
		{"500", text(500, "ok"), Outcome{Verdict: Again, Class: Status5xx}, Outcome{Verdict: Again, Class: Status5xx}},
		{"502", text(502, "ok"), Outcome{Verdict: Again, Class: Status5xx}, Outcome{Verdict: Again, Class: Status5xx}},
		{"101", write("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nok", true), Outcome{Verdict: Again, Class: Refused}, Outcome{Verdict: Again, Class: Refused}},
		{"reset", reset, Outcome{Verdict: Again, Class: Broken}, Outcome{Verdict: Again, Class: Broken}},
		{"closed", write("", false), Outcome{Verdict: Again, Class: Broken}, Outcome{Verdict: Again, Class: Broken}},
		{"truncated", write("HTTP/1.1 200 X\r\nContent-Length: 3\r\n\r\nok", false), Outcome{Verdict: Again, Class: Broken}, Outcome{Verdict: Again, Class: Broken}},
		{"truncated chunks", write("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", false), Outcome{Verdict: Again, Class: Broken}, Outcome{Verdict: Again, Class: Broken}},
		{"truncated header", write("HTTP/1.1 200 X\r\nContent-Le", false), Outcome{Verdict: Again, Class: Broken}, Outcome{Verdict: Again, Class: Broken}},
		{"no HTTP", write("220 secret ESMTP\r\n", false), Outcome{Verdict: Again, Class: Broken}, Outcome{Verdict: Again, Class: Broken}},
		{"a header without end", func(c net.Conn, _ *http.Request, _ string) bool {
			_, err := io.WriteString(c, "HTTP/1.1 200 X\r\nA: ")
			for err == nil {
				_, err = io.WriteString(c, strings.Repeat("secret", 1000))
			}
			return false
		}, Outcome{Verdict: Again, Class: Broken}, Outcome{Verdict: Again, Class: Broken}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, rules := range map[string]Rules{"model": {AckWhen: SaysOK()}, "modern": {}} {
				want := tc.modern
				if name == "model" {
					want = tc.model
				}
				s := serveWire(t, tc.answer)
				c := newClient(t, Options{URL: s.URL, Connections: 1}, rules)
				for n := range int32(3) { // also on a connection that was used before
					o := c.Do(t.Context(), job())
					require.Equal(t, want.Verdict, o.Verdict, "%s: %+v", name, o)
					require.Equal(t, want.Class, o.Class, "%s: %+v", name, o)
					require.Equal(t, n+1, s.requests.Load(), "one request for each")
					require.NotContains(t, o.Reason, "secret")
					require.Positive(t, o.Took)
				}
			}
		})
	}
}

func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c := newClient(t, Options{URL: "http://user:hidden@" + l.Addr().String() + "/x?token=hidden"}, Rules{})
	o := c.Do(t.Context(), job())
	require.Equal(t, Outcome{Verdict: Again, Class: Unreachable, Reason: "no connection to " + l.Addr().String() + ": connection refused", Took: o.Took}, o)

	c = newClient(t, Options{URL: "http://no-such-host.invalid/"}, Rules{})
	c.wire.dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}}
	}
	o = c.Do(t.Context(), job())
	require.Equal(t, Unreachable, o.Class)
	require.Equal(t, "there is no host no-such-host.invalid", o.Reason)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, " 120 ": 2 * time.Minute, "-5": 0, "1.5": 0, "soon": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sunday, 01-Mar-26 12:01:00 GMT": time.Minute, "Sun Mar  1 12:00:01 2026": time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0, "99999999999999999999999": maxRetryAfter, "9223372036854775807": maxRetryAfter,
		"Sun, 01 Mar 9999 12:00:30 GMT": maxRetryAfter,
	} {
		require.Equal(t, want, parseRetryAfter(text, now), text)
	}
	for status, want := range map[int]time.Duration{429: 7 * time.Second, 503: 7 * time.Second, 500: 0, 200: 0} {
		s := record(t)
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		}
		require.Equal(t, want, newClient(t, Options{URL: s.URL}, Rules{}).Do(t.Context(), job()).RetryAfter)
	}
}

// TestHang: as TestTimeout, with a real clock and a real connection.
func TestHang(t *testing.T) {
	s := serveWire(t, hang)
	c := newClient(t, Options{URL: s.URL, Timeout: time.Second}, Rules{})
	o := c.Do(t.Context(), job())
	require.Equal(t, []any{Again, Timeout, "no whole answer within 1s"}, []any{o.Verdict, o.Class, o.Reason})
	require.GreaterOrEqual(t, o.Took, time.Second)
}
