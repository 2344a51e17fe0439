package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// maxJobName leaves room for what the names of a job's queues end with.
const maxJobName = 200

// job is one of the jobs: what the defaults say, and on top of it what the job says.
func (d *dispatching) job() shape {
	j := d.defaults // what it refers to is replaced, never changed
	fields := []field{
		{"name", required, text("a name", func(v string) error {
			j.Name = v
			return checkName(v, maxJobName)
		})},
		{"queue", "the job's name", text("a queue's name", func(v string) error {
			j.Queue, j.givesQueue = v, true
			return checkName(v, maxName)
		})},
		{"declare", "", declare(&j.Declare)},
		{"quorum", "as declare says", truth(&j.Quorum)},
		{"paused", "false", truth(&j.Paused)},
	}
	return object{
		fields:  append(fields, d.common(&j)...),
		missing: map[string]string{"name": "give the job a name, e.g. name: mail"},
		done:    func(p *parser, at place) { d.add(p, at, &j) },
	}
}

// common are the keys of jobs that defaults have as well.
func (d *dispatching) common(j *job) []field {
	return []field{
		{"server", "the only one of servers", filled("the name of one of dispatch.servers", &j.server)},
		{"executors", strconv.Itoa(dispatch.DefaultExecutors), whole(0, dispatch.MaxExecutors, &j.Executors)},
		{"executors-total", "none", whole(1, dispatch.MaxExecutors, &j.Total)},
		{"auto", "", auto(&j.Auto)},
		{"prefetch", "as many as executors", whole(1, 65535, &j.Prefetch)},
		{"order", "none", order(&j.Order)},
		{"timeout", dispatch.DefaultTimeout.String(), duration(&j.Target.Timeout)},
		{"target", "", d.endpoint(j)},
		{"request", "", request(j)},
		{"sign", "", d.signing(j)},
		{"ack-when", "status [200-299]; in mode form status [200] and body ok", answers(&j.ack, "[200-299]")},
		{"drop-when", "", answers(&j.drop, "any")},
		{"dead-letter-when", "", answers(&j.deadLetter, "any")},
		{"retry", "", retry(&j.Retry)},
		{"breaker", "", object{fields: []field{
			{"failures", strconv.Itoa(dispatch.DefaultBreakerFailures), whole(0, 1_000_000, &j.Breaker.Failures)},
			{"open", dispatch.DefaultBreakerOpen.String(), duration(&j.Breaker.Open)},
		}}},
	}
}

func declare(dst **dispatch.Declare) object {
	decl := &dispatch.Declare{Type: "direct"}
	return object{
		fields: []field{
			{"exchange", "none", text("an exchange's name", func(v string) error {
				decl.Exchange = v
				return checkName(v, maxName)
			})},
			{"type", "direct", text("direct, fanout, topic, headers, or a plugin's type that begins with x-", func(v string) error {
				if decl.Type = v; !dispatch.KnownExchangeType(v) {
					return fmt.Errorf("is %q; give direct, fanout, topic, headers, or a plugin's type that begins with x-", clip(v))
				}
				return nil
			})},
			{"key", "empty", text("a routing key", func(v string) error { decl.Key = v; return nil })},
			{"arguments", "none", arguments{&decl.Arguments}},
		},
		done: func(p *parser, at place) {
			*dst = decl
			for _, key := range []string{"type", "key"} {
				if p.given(at, key) && !p.given(at, "exchange") {
					p.faultAt(at.key(key), "has no effect without an exchange; add exchange: NAME beside it, or leave it out")
				}
			}
		},
	}
}

func auto(dst **dispatch.Auto) object {
	a := &dispatch.Auto{Min: 1}
	return object{
		fields: []field{
			{"min", "1", whole(1, dispatch.MaxExecutors, &a.Min)},
			{"max", required, whole(1, dispatch.MaxExecutors, &a.Max)},
		},
		missing: map[string]string{"max": "say how many executors there may be, e.g. max: 20"},
		done: func(p *parser, at place) {
			*dst = a
			if a.Max != 0 && a.Min > a.Max {
				p.faultAt(at.key("min"), "is %d, more than max, which is %d; give at most as much", a.Min, a.Max)
			}
		},
	}
}

// order is a word, or a mapping with the header to go by.
func order(dst *dispatch.Order) choice {
	return choice{
		word: oneOf(func(v string) { *dst = dispatch.Order{RoutingKey: v == "routing-key"} }, "none", "routing-key"),
		object: object{
			fields: []field{{"header", required, text("a header's name", func(v string) error {
				*dst = dispatch.Order{Header: v}
				return checkName(v, maxName)
			})}},
			missing: map[string]string{"header": "give the header whose value is the key, e.g. header: customer"},
		},
	}
}

func retry(r *dispatch.Retry) object {
	return object{
		fields: []field{
			{"max", strconv.Itoa(dispatch.DefaultAttempts), attempts(&r.Attempts)},
			{"backoff", "[1s, 5m]", backoff{r}},
			{"retry-after-max", dispatch.DefaultRetryAfterMost.String(), durationBetween(time.Second, dispatch.LongestDelay, &r.RetryAfterMost)},
			{"then", string(dispatch.DeadLetter), oneOf(func(v string) { r.Then = dispatch.Then(v) }, string(dispatch.DeadLetter), string(dispatch.Drop))},
		},
	}
}

// attempts is how often a job is tried in all.
func attempts(dst *int) scalar {
	const want = "a whole number from 1 to 1000000, or unlimited"
	return scalar{kind: "number, unlimited", want: want, any: true, set: func(v string) error {
		if v == "unlimited" {
			*dst = 0
			return nil
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1_000_000 {
			return fmt.Errorf("is %s; give %s", clip(v), want)
		}
		*dst = n
		return nil
	}}
}

// answers is what answers a rule matches; one of its keys has to be given.
func answers(dst **target.Match, statuses string) object {
	m := &target.Match{}
	const example = "{status: [200-299], body: ok}"
	return object{
		fields: []field{
			{"status", statuses, list{example: "[200, 300-399]", atLeast: 1, item: func() shape { return status(&m.Statuses) }}},
			{"body", "any", filled("what the answer's body has to be, e.g. ok", &m.Body)},
			{"contains", "any", filled("what the answer's body has to contain", &m.Contains)},
		},
		done: func(p *parser, at place) {
			*dst = m
			if !p.given(at, "status") && !p.given(at, "body") && !p.given(at, "contains") {
				p.fault(at, "is empty; say which answers are meant, e.g. %s", example)
			}
		},
	}
}

// status is a status code or a range of them, added to a list.
func status(dst *[]target.StatusRange) scalar {
	const want = "a status code or a range, e.g. 200 or 200-299"
	return scalar{kind: "codes and ranges", want: want, any: true, set: func(v string) error {
		from, to, is := strings.Cut(v, "-")
		if !is {
			to = from
		}
		a, err1 := strconv.Atoi(strings.TrimSpace(from))
		b, err2 := strconv.Atoi(strings.TrimSpace(to))
		switch {
		case err1 != nil || err2 != nil || a < 100 || b > 599 || a > 599:
			return fmt.Errorf("is %s; give %s, from 100 to 599", clip(v), want)
		case a > b:
			return fmt.Errorf("is %s, which ends before it begins; give e.g. %d-%d", clip(v), b, a)
		}
		*dst = append(*dst, target.StatusRange{From: a, To: b})
		return nil
	}}
}
