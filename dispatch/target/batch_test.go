package target

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBatch(t *testing.T) {
	s := record(t)
	c := newClient(t, Options{URL: s.URL, Mode: BatchMode, Batch: Batch{Size: 10}, Properties: []string{"tenant", "n", "b", "nan", "none", "nested"}}, Rules{})
	out := c.DoBatch(t.Context(), []*Message{
		{Job: "j", Queue: "q", ID: "1", Attempt: 1, Body: []byte("{\n\"a\": 1.00}"), ContentType: "application/json"},
		{Job: "j", Queue: "q", ID: "2\xff", Attempt: 2, Body: []byte("\xff"), Exchange: "x", RoutingKey: "k", ContentType: "image/png", ContentEncoding: "e", MessageID: "m",
			CorrelationID: "c", ReplyTo: "r", Type: "t", AppID: "a", Priority: 9, Timestamp: time.Unix(0, 0), Redelivered: true,
			Headers: map[string]any{"tenant": "<acme>", "n": int16(7), "b": true, "nan": math.NaN(), "nested": []any{}, "other": 1}},
		{Job: "j", Queue: "q", ID: "3", Attempt: 1},
	})
	require.Len(t, out, 3)
	for _, o := range out {
		require.Equal(t, Outcome{Class: OK, Status: 200, Took: o.Took}, o)
		require.Positive(t, o.Took)
	}
	headers, body := sent(t, s)
	require.Equal(t, map[string]string{"user-agent": "shardmq", "content-type": "application/json", "dispatch-job": "j"}, headers)
	require.JSONEq(t, `[
		{"id": "1", "attempt": 1, "queue": "q", "exchange": "", "routing_key": "", "content_type": "application/json", "data": {"a": 1.00}},
		{"id": "2\ufffd", "attempt": 2, "queue": "q", "exchange": "x", "routing_key": "k", "content_type": "image/png", "content_encoding": "e", "message_id": "m",
		 "correlation_id": "c", "reply_to": "r", "type": "t", "app_id": "a", "priority": 9, "timestamp": "1970-01-01T00:00:00Z", "redelivered": true,
		 "headers": {"tenant": "<acme>", "n": 7, "b": true, "nan": "NaN"}, "data_base64": "/w=="},
		{"id": "3", "attempt": 1, "queue": "q", "exchange": "", "routing_key": "", "data": ""}]`, body)
	require.Contains(t, body, `1.00`, "numbers stay as they are written")

	require.Empty(t, c.DoBatch(t.Context(), nil))
	require.Equal(t, Done, c.Do(t.Context(), job()).Verdict)
	_, body = s.one(t)
	require.True(t, strings.HasPrefix(body, `[{"id":"id-1",`), body)
}

func TestBatchResults(t *testing.T) {
	rules := Rules{AckWhen: Match{Statuses: []StatusRange{{200, 200}, {207, 207}}}, DropWhen: Match{Statuses: []StatusRange{{410, 410}}},
		DeadLetterWhen: Match{Statuses: []StatusRange{{400, 400}}, Contains: "x"}}
	type result struct {
		Verdict Verdict
		Class   Class
		Status  int
	}
	all := func(r result) []result { return []result{r, r, r} }
	done := result{Done, OK, 200}
	for name, tc := range map[string]struct {
		status int
		body   string
		want   []result
	}{
		"nothing":                   {200, "", all(done)},
		"some text":                 {200, "ok", all(done)},
		"an object of other things": {200, `{"received": 3}`, all(done)},
		"an array":                  {200, ` [200, 503, 410]`, []result{done, {Again, Status5xx, 503}, {Drop, Status4xx, 410}}},
		"207":                       {207, `[200, 200, 207]`, []result{done, done, {Done, OK, 207}}},
		"no body for rules":         {200, `[400, 404, 302]`, []result{{Again, Status4xx, 400}, {Again, Status4xx, 404}, {Again, Refused, 302}}},
		"nonsense":                  {200, `[0, 99999, -1]`, []result{{Again, Refused, 0}, {Again, Status5xx, 99999}, {Again, Refused, -1}}},
		"too few":                   {200, `[200, 200]`, all(result{Again, Refused, 200})},
		"too many":                  {200, `[200, 200, 200, 200]`, all(result{Again, Refused, 200})},
		"an array of others":        {200, `[{"status": 200}, {"status": 200}, {"status": 200}]`, all(result{Again, Refused, 200})},
		"an array cut short":        {200, `[200, 200, `, all(result{Again, Refused, 200})},
		"an object":                 {200, `{"c": 410, "a": 200, "b": 429, "z": 200}`, []result{done, {Again, Status4xx, 429}, {Drop, Status4xx, 410}}},
		"an object without some":    {200, `{"a": 200, "c": "ok"}`, []result{done, {Again, Refused, 200}, {Again, Refused, 200}}},
		"an error":                  {500, `[200, 200, 200]`, all(result{Again, Status5xx, 500})},
		"too long":                  {200, `[200, 200, 200` + strings.Repeat(" ", maxLookedBatch) + "]", all(result{Again, Refused, 200})},
	} {
		t.Run(name, func(t *testing.T) {
			s := record(t)
			s.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "9")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}
			c := newClient(t, Options{URL: s.URL, Mode: BatchMode, Batch: Batch{Size: 3}}, rules)
			var got []result
			for _, o := range c.DoBatch(t.Context(), []*Message{{ID: "a"}, {ID: "b"}, {ID: "c"}}) {
				got = append(got, result{o.Verdict, o.Class, o.Status})
				require.Equal(t, o.Verdict != Done, o.Reason != "")
				require.Equal(t, o.Status == 429 || o.Status == 503, o.RetryAfter == 9*time.Second)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// TestBatchFailure: what befalls a request befalls all its jobs.
func TestBatchFailure(t *testing.T) {
	s := serveWire(t, reset)
	c := newClient(t, Options{URL: s.URL, Mode: BatchMode, Batch: Batch{Size: 3}}, Rules{})
	for _, o := range c.DoBatch(t.Context(), []*Message{{ID: "a"}, {ID: "b"}}) {
		require.Equal(t, []any{Again, Broken}, []any{o.Verdict, o.Class})
	}
	require.EqualValues(t, 1, s.requests.Load())
}

// TestBatchInOtherModes: each job is asked for by itself.
func TestBatchInOtherModes(t *testing.T) {
	s := record(t)
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "b" {
			w.WriteHeader(500)
		}
	}
	out := newClient(t, Options{URL: s.URL}, Rules{}).DoBatch(t.Context(), []*Message{{ID: "a"}, {ID: "b"}})
	require.Equal(t, []Class{OK, Status5xx}, []Class{out[0].Class, out[1].Class})
}

// TestDatum: a body is always JSON in the end.
func TestDatum(t *testing.T) {
	for _, contentType := range []string{"", "application/json", "text/plain", "a/b", ";"} {
		for _, body := range []string{"", "null", "{}", "[", "\xff", "\u2028", `"`, "\x00"} {
			form, _ := formOf(contentType, []byte(body))
			out := form.append(nil, []byte(body))
			require.True(t, json.Valid(out), "%q of %s: %s", body, contentType, out)
		}
	}
}
