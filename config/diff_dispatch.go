package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// jobChanges compares the jobs of two configurations.
func jobChanges(before, after *Config) []Change {
	out := changes(before.jobs(), after.jobs(), describeJob)
	for i := range out {
		out[i].Server, out[i].Vhost = out[i].Vhost, ""
	}
	return out
}

func (c *Config) jobs() []*dispatch.Job {
	if c.Dispatch == nil {
		return nil
	}
	return c.Dispatch.Jobs
}

// drain is read at start only.
func (c *Config) drain() time.Duration {
	if c.Dispatch == nil {
		return dispatch.DefaultDrain
	}
	return c.Dispatch.Drain
}

// hidden stands before a value that is compared, but not shown: it may be a secret.
const hidden = "\x00"

func describeJob(j *dispatch.Job) described {
	t, r := &j.Target, &j.Retry
	values := [][2]string{
		{"server.url", hidden + string(j.Server.URL)},
		{"server.ca", cmp.Or(j.Server.CA, "the system's")},
		{"queue", j.Queue},
		{"declare", describeDeclare(j.Declare)},
		{"quorum", fmt.Sprint(j.Quorum)},
		{"executors", strconv.Itoa(j.Executors)},
		{"executors-total", cmp.Or(strings.TrimPrefix(strconv.Itoa(j.Total), "0"), "none")},
		{"auto", describeAuto(j.Auto)},
		{"prefetch", cmp.Or(strings.TrimPrefix(strconv.Itoa(j.Prefetch), "0"), "as executors")},
		{"order", describeOrder(j.Order)},
		{"paused", fmt.Sprint(j.Paused)},
		{"timeout", t.Timeout.String()},
		{"target.url", hidden + t.URL},
		{"target.host", cmp.Or(t.Host, "that of the url")},
		{"target.method", t.Method},
		{"target.headers", hidden + describeHeaders(t.Headers)},
		{"target.auth", hidden + fmt.Sprintf("%q %q %q", t.Auth.Username, string(t.Auth.Password), string(t.Auth.Bearer))},
		{"target.tls", fmt.Sprintf("%+v", t.TLS)},
		{"request.mode", string(t.Mode)},
		{"request.encoding", cmp.Or(t.Encoding, "utf-8")},
		{"request.properties", fmt.Sprintf("%q", t.Properties)},
		{"request.marks", cmp.Or(string(t.Marks), "usual")},
		{"request.event", fmt.Sprintf("source %q, type %q", t.Event.Source, t.Event.Type)},
		{"request.batch", fmt.Sprintf("%d in %s", t.Batch.Size, t.Batch.Wait)},
		{"sign", hidden + describeSecrets(t.SigningSecrets)},
		{"ack-when", describeMatch(j.Answers.AckWhen)},
		{"drop-when", describeMatch(j.Answers.DropWhen)},
		{"dead-letter-when", describeMatch(j.Answers.DeadLetterWhen)},
		{"retry.max", cmp.Or(strings.TrimPrefix(strconv.Itoa(r.Attempts), "0"), "unlimited")},
		{"retry.backoff", fmt.Sprintf("[%s, %s]", r.First, r.Most)},
		{"retry.retry-after-max", r.RetryAfterMost.String()},
		{"retry.then", string(r.Then)},
		{"breaker", fmt.Sprintf("%d failures, open %s", j.Breaker.Failures, j.Breaker.Open)},
	}
	return described{j.Server.Name, j.Name, values}
}

func describeDeclare(d *dispatch.Declare) string {
	if d == nil {
		return "none"
	}
	return fmt.Sprintf("exchange %q, type %s, key %q, arguments %s", d.Exchange, d.Type, d.Key, describeArguments(d.Arguments))
}

func describeAuto(a *dispatch.Auto) string {
	if a == nil {
		return "none"
	}
	return fmt.Sprintf("%d to %d", a.Min, a.Max)
}

func describeOrder(o dispatch.Order) string {
	switch {
	case o.RoutingKey:
		return "routing-key"
	case o.Header != "":
		return fmt.Sprintf("header %q", o.Header)
	}
	return "none"
}

func describeHeaders(all map[string]string) string {
	var parts []string
	for name, value := range all {
		parts = append(parts, fmt.Sprintf("%q: %q", name, value))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func describeSecrets(all []Secret) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, strconv.Quote(string(s)))
	}
	return strings.Join(parts, " ")
}

func describeMatch(m target.Match) string {
	var parts []string
	for _, s := range m.Statuses {
		if s.From == s.To {
			parts = append(parts, strconv.Itoa(s.From))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", s.From, s.To))
		}
	}
	if m.Body != "" {
		parts = append(parts, fmt.Sprintf("body %q", m.Body))
	}
	if m.Contains != "" {
		parts = append(parts, fmt.Sprintf("contains %q", m.Contains))
	}
	return cmp.Or(strings.Join(parts, " "), "none")
}
