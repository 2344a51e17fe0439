package target

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/config/secret"
)

// sent are the headers of the only request, without those of net/http and of the trace, which is random.
func sent(t *testing.T, s *recorder) (map[string]string, string) {
	r, body := s.one(t)
	out := map[string]string{}
	for name, values := range r.Header {
		require.Len(t, values, 1, name)
		out[strings.ToLower(name)] = values[0]
	}
	delete(out, "content-length")
	return out, body
}

func TestRaw(t *testing.T) {
	s := record(t)
	c := newClient(t, Options{URL: s.URL + "/x?y=1", Host: "jobs.test", Method: "PUT", Headers: map[string]string{"x-team": "images"},
		Properties: []string{"X-Tenant", "x-count", "x-none", "X-Idempotency-Key"}}, Rules{})
	m := &Message{Job: "resize", Queue: "images", ID: "é.1", Attempt: 3, Body: []byte("\x00\xff\r\n"), ContentType: "image/png",
		ContentEncoding: "utf-8", CorrelationID: "c 1", ReplyTo: "r", MessageID: "m%1", Type: "t\r\nEvil: 1", AppID: "a", Exchange: "ex", RoutingKey: "é ",
		Priority: 5, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), Redelivered: true,
		Headers: map[string]any{"X-Tenant": "acme", "x-count": int32(-7), "x-other": "no", "X-Idempotency-Key": "k", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": []byte("a=1")}}
	require.Equal(t, Done, c.Do(t.Context(), m).Verdict)
	s.mu.Lock()
	r := s.requests[0]
	s.mu.Unlock()
	require.Equal(t, []string{"PUT", "/x?y=1", "jobs.test"}, []string{r.Method, r.RequestURI, r.Host})
	got, body := sent(t, s)
	require.Equal(t, string(m.Body), body)
	require.Equal(t, map[string]string{
		"user-agent": "shardmq", "x-team": "images", "content-type": "image/png",
		"idempotency-key": "%C3%A9.1", "dispatch-job": "resize", "dispatch-attempt": "3",
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1",
		"x-amqp-queue": "images", "x-amqp-exchange": "ex", "x-amqp-routing-key": "%C3%A9%20", "x-amqp-message-id": "m%251", "x-amqp-correlation-id": "c 1",
		"x-amqp-reply-to": "r", "x-amqp-type": "t%0D%0AEvil: 1", "x-amqp-app-id": "a", "x-amqp-priority": "5", "x-amqp-timestamp": "2026-01-02T02:04:05Z",
		"x-amqp-redelivered": "true", "x-amqp-content-encoding": "utf-8",
		"x-tenant": "acme", "x-count": "-7", "x-idempotency-key": "k",
	}, got)

	require.Equal(t, Done, c.Do(t.Context(), &Message{Job: "resize", Queue: "q", ID: "1", Attempt: 1, Body: []byte("x"), ContentEncoding: "GZIP"}).Verdict)
	got, _ = sent(t, s)
	delete(got, "traceparent")
	require.Equal(t, map[string]string{"user-agent": "shardmq", "x-team": "images", "content-encoding": "gzip",
		"idempotency-key": "1", "dispatch-job": "resize", "dispatch-attempt": "1", "x-amqp-queue": "q"}, got, "what is not there is left out")
}

func TestAllProperties(t *testing.T) {
	s := record(t)
	c := newClient(t, Options{URL: s.URL, Marks: Never, Properties: []string{"*", "x-a"}, Headers: map[string]string{"User-Agent": "me", "Content-Type": "text/x"}}, Rules{})
	m := &Message{Body: []byte("x"), ContentType: "text/plain", Headers: map[string]any{"x-a": "1", "Authorization": "evil", "bad name:\r\n": "2", "f": 1.5, "b": true,
		"t": time.Unix(0, 0), "octets": []byte("\xff"), "nested": map[string]any{}, "nil": nil, "long": strings.Repeat("x", maxValue+1), "text": []byte("é"), "u8": uint8(255), "f32": float32(0.1)}}
	require.Equal(t, Done, c.Do(t.Context(), m).Verdict)
	got, _ := sent(t, s)
	require.Equal(t, map[string]string{"user-agent": "me", "content-type": "text/x", "x-a": "1", "x-amqp-header-x-a": "1", "x-amqp-header-authorization": "evil",
		"x-amqp-header-bad%20name%3a%0d%0a": "2", "x-amqp-header-f": "1.5", "x-amqp-header-b": "true", "x-amqp-header-t": "1970-01-01T00:00:00Z",
		"x-amqp-header-text": "%C3%A9", "x-amqp-header-u8": "255", "x-amqp-header-f32": "0.1"}, got)
}

// TestMarks: which modes have them.
func TestMarks(t *testing.T) {
	marks := []string{"dispatch-attempt", "dispatch-job", "idempotency-key", "traceparent"}
	for _, mode := range []Mode{Form, Raw, CloudEvent, CloudStructured} {
		for _, m := range []Marks{Usual, Always, Never} {
			s := record(t)
			require.Equal(t, Done, newClient(t, Options{URL: s.URL, Mode: mode, Marks: m}, Rules{}).Do(t.Context(), job()).Verdict)
			got, _ := sent(t, s)
			maps.DeleteFunc(got, func(name, _ string) bool { return !slices.Contains(marks, name) })
			if m == Always || m == Usual && mode != Form {
				require.Equal(t, marks, slices.Sorted(maps.Keys(got)), mode)
			} else {
				require.Empty(t, got, mode)
			}
		}
	}
}

func TestAuth(t *testing.T) {
	s := record(t)
	withUser := strings.Replace(s.URL, "http://", "http://us%40er:p%3Aw@", 1)
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{URL: s.URL}, ""},
		{Options{URL: s.URL, Auth: Auth{Username: "user", Password: "p:w"}}, "Basic " + base64.StdEncoding.EncodeToString([]byte("user:p:w"))},
		{Options{URL: s.URL, Auth: Auth{Bearer: "token"}}, "Bearer token"},
		{Options{URL: withUser}, "Basic " + base64.StdEncoding.EncodeToString([]byte("us@er:p:w"))},
		{Options{URL: s.URL, Headers: map[string]string{"authorization": "Custom x"}}, "Custom x"},
	} {
		require.Equal(t, Done, newClient(t, tc.o, Rules{}).Do(t.Context(), job()).Verdict)
		got, _ := sent(t, s)
		require.Equal(t, tc.want, got["authorization"])
	}
}

// TestEscape: it goes into a header, and comes out again.
func TestEscape(t *testing.T) {
	for _, ok := range []func(byte) bool{plain, eventOctet, tokenOctet} {
		rapid.Check(t, func(t *rapid.T) {
			text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
			escaped := escape(text, ok)
			require.True(t, fieldText(escaped))
			require.Equal(t, escaped, strings.TrimSpace(escaped))
			back, err := url.PathUnescape(escaped)
			require.NoError(t, err)
			require.Equal(t, text, back)
		})
	}
}

func TestTrace(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for value, passed := range map[string]bool{
		good: true, "cc" + good[2:] + "-more": true, "cc" + good[2:]: true,
		"": false, good + "-more": false, good + "x": false, "cc" + good[2:] + "x": false, "ff" + good[2:]: false, strings.ToUpper(good): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false, "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g": false, "00-0af7651916cd43dd8448eb211c80319c+b7ad6b7169203331-01": false,
		"cc" + good[2:] + "-\r\n": false,
	} {
		parent, state := trace(&Message{Job: "j", ID: "1", Headers: map[string]any{"traceparent": value, "tracestate": "a=1"}})
		require.Equal(t, passed, parent == value, value)
		require.True(t, validParent(parent))
		require.Equal(t, passed, state == "a=1")
	}
	_, state := trace(&Message{Headers: map[string]any{"traceparent": good, "tracestate": "a\r\nb: c"}})
	require.Empty(t, state)
	first, _ := trace(&Message{Job: "j", ID: "1", Attempt: 1})
	second, _ := trace(&Message{Job: "j", ID: "1", Attempt: 2})
	other, _ := trace(&Message{Job: "j", ID: "2"})
	require.Equal(t, first[:35], second[:35], "attempts of a job are one trace")
	require.NotEqual(t, first, second)
	require.NotEqual(t, first[:35], other[:35])
}

func TestSecretsAreNotShown(t *testing.T) {
	const hidden = "hidden"
	_, err := New(Options{URL: "ftp://user:hidden@h/", Auth: Auth{Username: "u", Password: hidden, Bearer: hidden + "\n"},
		Headers: map[string]string{"Authorization": hidden, "X": hidden + "\r\n"}, SigningSecrets: []secret.String{hidden, "whsec_hidden", "whsec_aGlkZGVu"}}, Rules{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), hidden)
	_, err = New(Options{URL: "http://user:hidden@h:port/", Timeout: 1}, Rules{})
	require.ErrorContains(t, err, "url: cannot be read")
	require.NotContains(t, err.Error(), hidden)
	require.Equal(t, "http://user:xxxxx@h/", MaskURL("http://user:hidden@h/"))
	require.NotContains(t, MaskURL("http://user:hidden@h:port/"), hidden)
}

func TestStaticHeadersStay(t *testing.T) {
	c := newClient(t, Options{URL: "http://h/", Headers: map[string]string{"X-A": "1"}}, Rules{})
	h := newHeaders(c.static, 4)
	h.set("X-A", "2")
	h.set("X-B", "3")
	require.Equal(t, http.Header{"User-Agent": {"shardmq"}, "X-A": {"1"}, "X-B": {"3"}}, h.Header)
	require.NotContains(t, c.static, "X-B")
}
