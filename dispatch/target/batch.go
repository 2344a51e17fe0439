package target

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// batchItem is one job of a batch, see the package's comment; data is put behind it.
type batchItem struct {
	ID              string         `json:"id"`
	Attempt         int            `json:"attempt"`
	Queue           string         `json:"queue"`
	Exchange        string         `json:"exchange"`
	RoutingKey      string         `json:"routing_key"`
	ContentType     string         `json:"content_type,omitempty"`
	ContentEncoding string         `json:"content_encoding,omitempty"`
	MessageID       string         `json:"message_id,omitempty"`
	CorrelationID   string         `json:"correlation_id,omitempty"`
	ReplyTo         string         `json:"reply_to,omitempty"`
	Type            string         `json:"type,omitempty"`
	AppID           string         `json:"app_id,omitempty"`
	Priority        uint8          `json:"priority,omitempty"`
	Timestamp       *time.Time     `json:"timestamp,omitempty"`
	Redelivered     bool           `json:"redelivered,omitempty"`
	Headers         map[string]any `json:"headers,omitempty"`
}

// batchID is a job's ID in requests and answers, which are UTF-8.
func batchID(m *Message) string { return strings.ToValidUTF8(m.ID, "\uFFFD") }

// batch is the body for several jobs.
func (c *Client) batch(ms []*Message) []byte {
	n := 0
	for _, m := range ms {
		n += len(m.Body) + 512
	}
	out := append(make([]byte, 0, n), '[')
	for i, m := range ms {
		if i > 0 {
			out = append(out, ',')
		}
		item := batchItem{ID: batchID(m), Attempt: m.Attempt, Queue: m.Queue, Exchange: m.Exchange, RoutingKey: m.RoutingKey,
			ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, MessageID: m.MessageID, CorrelationID: m.CorrelationID,
			ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID, Priority: m.Priority, Redelivered: m.Redelivered, Headers: c.chosen(m)}
		if y := m.Timestamp.Year(); !m.Timestamp.IsZero() && y >= 0 && y <= 9999 { // what RFC 3339 can say
			t := m.Timestamp.UTC()
			item.Timestamp = &t
		}
		out = appendJSON(out, item)
		form, _ := formOf(m.ContentType, m.Body)
		out = append(out[:len(out)-1], `,"`+form.member()+`":`...)
		out = append(form.append(out, m.Body), '}')
	}
	return append(out, ']')
}

// chosen are the headers of a message that are passed on, as JSON has them.
func (c *Client) chosen(m *Message) map[string]any {
	out := map[string]any{}
	set := func(name string, v any) {
		text, ok := valueText(v)
		if !ok {
			return
		}
		f, is := v.(float64)
		number := is && !math.IsNaN(f) && !math.IsInf(f, 0)
		_, whole := integer(v)
		if _, truth := v.(bool); number || whole || truth {
			out[name] = v
			return
		}
		out[name] = text
	}
	if c.allProperties {
		for name, v := range m.Headers {
			set(name, v)
		}
	}
	for _, name := range c.properties {
		if v, is := m.Headers[name]; is {
			set(name, v)
		}
	}
	return out
}

// DoBatch asks the endpoint to do several jobs with one request, in mode BatchMode; in other modes with one for each,
// one after the other. There is an outcome for each, in the same order.
func (c *Client) DoBatch(ctx context.Context, ms []*Message) []Outcome {
	out := make([]Outcome, len(ms))
	if c.o.Mode != BatchMode {
		for i, m := range ms {
			out[i] = c.Do(ctx, m)
		}
		return out
	}
	if len(ms) == 0 {
		return out
	}
	begun := time.Now()
	a := newAnswer()
	defer a.free()
	body := c.batch(ms)
	h := newHeaders(c.static, 8)
	h.set("Content-Type", "application/json")
	if c.marks {
		h.setText(dispatchJob, ms[0].Job)
	}
	err := c.signer.sign(h, idOfBatch(ms), begun, body)
	if err != nil {
		fill(out, invalid(err))
	} else if failure := c.exchange(ctx, h.Header, body, a); failure != nil {
		fill(out, *failure)
	} else {
		c.results(out, ms, a)
		for i := range out {
			a.finish(&out[i])
		}
	}
	for i, took := 0, time.Since(begun); i < len(out); i++ {
		out[i].Took = took
	}
	return out
}

func fill(out []Outcome, o Outcome) {
	for i := range out {
		out[i] = o
	}
}

// idOfBatch is the same whenever the same jobs are in a batch, in the same order.
func idOfBatch(ms []*Message) string {
	sum := sha256.New()
	for _, m := range ms {
		fmt.Fprintf(sum, "%d.", len(m.ID))
		_, _ = io.WriteString(sum, m.ID)
	}
	return "batch_" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:18])
}

// results judges an answer, which may tell of each job by itself.
func (c *Client) results(out []Outcome, ms []*Message, a *answer) {
	fill(out, c.rules.judge(a.status, a.body, a.cut))
	body := bytes.TrimSpace(a.body)
	if a.status < 200 || a.status > 299 || len(body) == 0 || body[0] != '[' && body[0] != '{' {
		return
	}
	if a.cut {
		fill(out, Outcome{Verdict: Again, Class: Refused, Status: a.status, Reason: "the answer is too long to be read for results"})
		return
	}
	if body[0] == '{' {
		c.resultsByID(out, ms, a.status, body)
		return
	}
	var statuses []int
	if json.Unmarshal(body, &statuses) != nil || len(statuses) != len(ms) {
		fill(out, Outcome{Verdict: Again, Class: Refused, Status: a.status,
			Reason: fmt.Sprintf("%s with an array that is not of %d statuses, one for each job", statusText(a.status), len(ms))})
		return
	}
	for i, status := range statuses {
		out[i] = c.rules.judgeItem(status)
	}
}

// resultsByID judges an answer that is an object. One that has no job's ID stands for all, as any other answer does.
func (c *Client) resultsByID(out []Outcome, ms []*Message, status int, body []byte) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return
	}
	named := false
	for _, m := range ms {
		named = named || members[batchID(m)] != nil
	}
	if !named {
		return
	}
	for i, m := range ms {
		var item int
		if json.Unmarshal(members[batchID(m)], &item) != nil {
			out[i] = Outcome{Verdict: Again, Class: Refused, Status: status, Reason: statusText(status) + " without a status for this job"}
			continue
		}
		out[i] = c.rules.judgeItem(item)
	}
}
