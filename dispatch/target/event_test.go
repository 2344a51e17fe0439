package target

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// asked has a client of that mode do a job, and returns the headers that say something of events, and the body.
func asked(t *testing.T, o Options, m *Message) (map[string]string, string) {
	t.Helper()
	s := record(t)
	o.URL, o.Marks = s.URL, Never
	got := newClient(t, o, Rules{}).Do(t.Context(), m)
	require.Equal(t, Done, got.Verdict, "%+v", got)
	headers, body := sent(t, s)
	delete(headers, "user-agent")
	return headers, body
}

func TestBinaryEvent(t *testing.T) {
	headers, body := asked(t, Options{Mode: CloudEvent}, &Message{Queue: "a queue", ID: "1", Body: []byte("x")})
	require.Equal(t, "x", body)
	require.Equal(t, map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/queues/a%2520queue", "ce-type": "shardmq.job"}, headers)

	headers, _ = asked(t, Options{Mode: CloudEvent, Event: Event{Source: "/shop", Type: "no"}, Properties: []string{"X-Tenant_9", "id", "none"}},
		&Message{Queue: "q", ID: "é\n", Body: []byte("x"), ContentType: "application/json", ContentEncoding: "gzip", Type: "com.example.new", RoutingKey: `a "b" %€`,
			Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), Headers: map[string]any{"X-Tenant_9": "a\r\nb c", "id": "2"}})
	require.Equal(t, map[string]string{"ce-specversion": "1.0", "ce-id": "%25C3%25A9%250A", "ce-source": "/shop", "ce-type": "com.example.new",
		"ce-subject": "a%20%22b%22%20%25%E2%82%AC", "ce-time": "2026-01-02T02:04:05Z", "ce-tenant9": "", "ce-xtenant9": "ab%20c",
		"content-type": "application/json", "content-encoding": "gzip"}, with(headers, "ce-tenant9", ""))
}

func with(m map[string]string, name, value string) map[string]string {
	m[name] = value
	return m
}

// TestBodiesOfEvents: what a body is in JSON, and that readers of events get it back.
func TestBodiesOfEvents(t *testing.T) {
	for _, tc := range []struct {
		name, contentType, body, member, dataType string
	}{
		{"JSON", "application/json", ` {"a": [1, "<é>"]}`, `"data": {"a": [1, "<é>"]}`, "application/json"},
		{"JSON with a charset", "Application/JSON; charset=utf-8", `1`, `"data":1`, "Application/JSON; charset=utf-8"},
		{"+json", "application/vnd.x+json", `{"a":1}`, `"data":{"a":1}`, "application/vnd.x+json"},
		{"not the JSON it says", "application/json", `{"a":`, `"data_base64":"eyJhIjo="`, "application/json"},
		{"JSON with octets that are no text", "application/json", "\"\xff\"", `"data_base64":"Iv8i"`, "application/json"},
		{"text", "text/csv", "a,\"<b>\"\n", `"data":"a,\"<b>\"\n"`, "text/csv"},
		{"no text", "text/csv", "\xff", `"data_base64":"/w=="`, "text/csv"},
		{"nothing said: an object", "", `{"a":1}`, `"data":{"a":1}`, "application/json"},
		{"nothing said: an array", "", ` [1]`, `"data": [1]`, "application/json"},
		{"nothing said: a number", "", `17`, `"data":"17"`, "text/plain; charset=utf-8"},
		{"nothing said: octets", "", "\x00\xff", `"data_base64":"AP8="`, "application/octet-stream"},
		{"nonsense said", "x y z", `{`, `"data":"{"`, "text/plain; charset=utf-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			headers, body := asked(t, Options{Mode: CloudStructured}, &Message{Queue: "q", ID: "1", Body: []byte(tc.body), ContentType: tc.contentType})
			require.Equal(t, map[string]string{"content-type": "application/cloudevents+json; charset=UTF-8"}, headers)
			require.True(t, strings.HasSuffix(body, ","+tc.member+"}"), body)
			var attributes map[string]any
			require.NoError(t, json.Unmarshal([]byte(body), &attributes))
			require.Equal(t, tc.dataType, attributes["datacontenttype"])
			require.Equal(t, []any{"1.0", "1", "/queues/q", "shardmq.job"}, []any{attributes["specversion"], attributes["id"], attributes["source"], attributes["type"]})
			e, data, err := parseEvent([]byte(body))
			require.NoError(t, err)
			require.Equal(t, tc.dataType, e.DataContentType())
			require.Equal(t, strings.TrimSpace(tc.body), strings.TrimSpace(string(data)))
			if tc.dataType == strings.ToLower(tc.dataType) && !strings.Contains(tc.dataType, "+json") { // the SDK takes others for text
				var read event.Event
				require.NoError(t, json.Unmarshal([]byte(body), &read))
				require.Equal(t, strings.TrimSpace(tc.body), strings.TrimSpace(string(read.Data())))
			}
		})
	}
	_, body := asked(t, Options{Mode: CloudStructured}, &Message{Queue: "q", ID: "1", ContentEncoding: "gzip"})
	require.JSONEq(t, `{"specversion":"1.0","id":"1","source":"/queues/q","type":"shardmq.job","contentencoding":"gzip"}`, body)
}

// TestEventsArePassedOn: a message that is an event stays the same one.
func TestEventsArePassedOn(t *testing.T) {
	const structured = `{"specversion":"1.0","id":"e1","source":"/s","type":"t","time":"2026-01-02T03:04:05Z","subject":"x","n":7,"datacontenttype":"application/vnd.x+json","data":{"a":1}}`
	want := map[string]string{"ce-specversion": "1.0", "ce-id": "e1", "ce-source": "/s", "ce-type": "t", "ce-time": "2026-01-02T03:04:05Z", "ce-subject": "x",
		"ce-n": "7", "content-type": "application/vnd.x+json"}
	m := &Message{Queue: "q", ID: "1", Body: []byte(structured), ContentType: "application/cloudevents+json; charset=utf-8"}
	headers, body := asked(t, Options{Mode: CloudStructured}, m)
	require.Equal(t, map[string]string{"content-type": m.ContentType}, headers)
	require.Equal(t, structured, body)
	headers, body = asked(t, Options{Mode: CloudEvent}, m)
	require.Equal(t, want, headers)
	require.Equal(t, `{"a":1}`, body)

	for _, prefix := range attributePrefixes {
		m = &Message{Queue: "q", ID: "1", Body: []byte(`{"a":1}`), ContentType: "application/vnd.x+json", Headers: map[string]any{"tenant": "acme"}}
		for name, value := range map[string]any{"specversion": "1.0", "id": "e1", "source": "/s", "type": "t", "time": "2026-01-02T03:04:05Z", "subject": "x", "n": int64(7), "data": "no"} {
			m.Headers[prefix+name] = value
		}
		headers, body = asked(t, Options{Mode: CloudEvent, Properties: []string{"*"}}, m)
		require.Equal(t, `{"a":1}`, body)
		require.Equal(t, with(headers, "ce-tenant", "acme"), headers)
		delete(headers, "ce-tenant")
		require.Equal(t, want, headers)
		_, body = asked(t, Options{Mode: CloudStructured}, m)
		require.JSONEq(t, strings.Replace(structured, `"n":7`, `"n":"7"`, 1), body)
	}
}

// TestInvalidEvents: a message that says it is an event and is none is not sent, nor shown.
func TestInvalidEvents(t *testing.T) {
	for _, tc := range []struct{ body, reason string }{
		{`hidden`, "it is no JSON object"},
		{`null`, "it is no JSON object"},
		{`{}`, "its specversion is not 1.0"},
		{`{"specversion":"0.3","id":"1","source":"/s","type":"t"}`, "its specversion is not 1.0"},
		{`{"specversion":"1.0","id":"hidden"}`, "look at its source, type"},
		{`{"specversion":"1.0","id":7,"source":"/hidden","type":"t"}`, "its attributes cannot be read"},
		{`{"specversion":"1.0","id":"1","source":"/s","type":"t","Bad_Name":"hidden"}`, "its attributes cannot be read"},
		{`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"hidden!"}`, "its data_base64 is no base64"},
	} {
		for _, mode := range []Mode{CloudEvent, CloudStructured} {
			c := newClient(t, Options{URL: "http://127.0.0.1:1/", Mode: mode}, Rules{})
			o := c.Do(t.Context(), &Message{ID: "1", Body: []byte(tc.body), ContentType: "application/cloudevents+json"})
			require.Equal(t, Outcome{Verdict: Dead, Class: Invalid, Reason: "the message is an invalid CloudEvent: " + tc.reason, Took: o.Took}, o)
		}
	}
	for reason, headers := range map[string]map[string]any{
		"its specversion is not 1.0": {"ce-specversion": "0.3"},
		"look at its source, type":   {"ce-specversion": "1.0", "ce-id": "1"},
		"look at its id":             {"ce-specversion": "1.0", "ce-source": "/", "ce-type": "t"},
	} {
		o := newClient(t, Options{URL: "http://127.0.0.1:1/", Mode: CloudEvent}, Rules{}).Do(t.Context(), &Message{ID: "1", Headers: headers})
		require.Equal(t, []any{Dead, Invalid, "the message is an invalid CloudEvent: " + reason}, []any{o.Verdict, o.Class, o.Reason})
	}
}

// TestAnyMessageIsAnEvent: whatever is in a message, what is sent is an event, with its body.
func TestAnyMessageIsAnEvent(t *testing.T) {
	c := newClient(t, Options{URL: "http://h/", Mode: CloudStructured, Properties: []string{"*"}}, Rules{})
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, name)) }
		m := &Message{Queue: text("queue"), ID: "x" + text("id"), Type: text("type"), RoutingKey: text("key"), ContentType: rapid.SampledFrom([]string{"", "text/x", "application/json", text("type")}).Draw(t, "type"),
			Body: []byte(text("body")), Headers: map[string]any{text("name"): text("value"), "n": rapid.Int64().Draw(t, "n")}}
		h := newHeaders(c.static, 8)
		out, err := c.structured(m, h)
		require.NoError(t, err)
		e, data, err := parseEvent(out)
		require.NoError(t, err, "%q", out)
		require.NotEmpty(t, e.ID())
		if !json.Valid(m.Body) {
			require.Equal(t, string(m.Body), string(data), "%q", out)
		}
		h = newHeaders(c.static, 8)
		_, err = c.binary(m, h)
		require.NoError(t, err)
		for name, values := range h.Header {
			require.True(t, token(name), "%q", name)
			require.True(t, fieldText(values[0]), "%q", values)
		}
	})
}

// FuzzParseEvent: whatever is in a message, it is an event or it is not.
func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"e1","source":"/s","type":"t","time":"2026-01-02T03:04:05Z","n":7,"datacontenttype":"text/x","data":"a"}`))
	f.Add([]byte(`{"specversion":"1.0","id":null,"source":{},"type":"t","dataschema":"\u0000","data_base64":"AA=="}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, _, err := parseEvent(body)
		if err != nil {
			require.ErrorAs(t, err, new(invalidError))
			return
		}
		h := newHeaders(nil, 8)
		attributes(h, e)
		require.NotEmpty(t, h.Header["Ce-id"])
	})
}
