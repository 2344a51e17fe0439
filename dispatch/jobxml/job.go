package jobxml

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// Bounds of what can be carried over.
const (
	maxExecutors   = dispatch.MaxExecutors
	maxNumber      = math.MaxInt32
	maxTimeout     = time.Hour
	defaultTimeout = dispatch.DefaultTimeout
	maxJobs        = 1000
	maxJobName     = 200 // leaves room for what the names of a job's queues end with
)

// job is a job. What is zero or empty is as conf has it.
type job struct {
	line                  int
	name, queue, exchange string
	kind                  string // of the exchange
	server                *server
	url, host, encoding   string
	timeout               time.Duration
	count, prefetch       int
	drop                  bool // after one attempt
}

// place is where something stands in the file.
type place struct {
	line int
	path string
}

var jobKeys = []string{"name", "server", "queue", "exchange", "type", "url", "urlhost", "timeout", "count", "encoding", "prefetchCount", "retry"}

func (x *importer) allJobs(root *element) {
	all := root.all("job")
	switch {
	case len(all) == 0:
		x.problem(root.line, "job", "is missing: there is none; give at least one, e.g. <job name=\"mail\" server=\"mail_mq\"/>")
	case len(all) > maxJobs:
		x.problem(all[maxJobs].line, "job", "is number %d; import at most %d jobs at a time: split the file", maxJobs+1, maxJobs)
		return
	}
	if len(all) > 0 {
		x.note(all[0].line, "job", "queues are bound with the key \"\", as ever: of exchanges of type direct and topic only messages arrive "+
			"that are published with an empty routing key; for others set declare.key")
	}
	for _, e := range all {
		x.job(e)
	}
}

// values are a job's attributes, and the child elements that work like attributes.
func (x *importer) values(e *element) (values map[string]string, path string) {
	name := ""
	for _, a := range e.attrs {
		if a.name == "name" {
			name = a.value
		}
	}
	path = fmt.Sprintf("job %q", clip(name))
	values = x.attributes(e, path, jobKeys...)
	for _, c := range e.children {
		known := false
		for _, key := range jobKeys {
			known = known || key == c.name
		}
		text := strings.TrimSpace(string(c.text))
		switch v, twice := values[c.name]; {
		case !known:
			x.note(c.line, path+" "+clip(c.name), ignored)
		case twice && v != text:
			x.problem(c.line, path+" "+c.name, "is given twice; keep one of the attribute and the elements")
		default:
			values[c.name] = text
		}
	}
	return values, path
}

func (x *importer) job(e *element) {
	v, path := x.values(e)
	j := &job{line: e.line, name: v["name"], queue: cmp.Or(v["queue"], v["name"]), exchange: cmp.Or(v["exchange"], v["name"]+"_router"),
		kind: cmp.Or(v["type"], "direct"), url: v["url"], host: v["urlhost"], encoding: v["encoding"]}
	if j.name == "" {
		path = "job"
	}
	x.jobNames(j, path)
	if !dispatch.KnownExchangeType(j.kind) {
		x.problem(e.line, path+" type", "is %q; give direct, fanout, topic, headers, or a plugin's type that begins with x-", clip(j.kind))
	}
	if j.kind == "topic" {
		x.note(e.line, path+" type", "is topic, yet the key is \"\" as of all jobs; if more is to arrive, set declare.key, e.g. to \"#\"")
	}
	x.endpoint(map[string]place{"url": {e.line, path + " url"}, "host": {e.line, path + " urlhost"}, "encoding": {e.line, path + " encoding"}},
		cmp.Or(j.url, "http://localhost"), j.host, j.encoding) // what is of conf has been looked at there
	j.timeout = x.timeout(e.line, path+" timeout", x.own(j, path, v, "timeout", "request-timeout", maxNumber))
	j.count = x.own(j, path, v, "count", "request-count", maxExecutors)
	j.prefetch = x.own(j, path, v, "prefetchCount", "prefetch-count", 65535)
	x.prefetch(j, path)
	x.retry(j, path, v["retry"])
	x.findServer(j, path, v["server"])
	x.out.jobs = append(x.out.jobs, j)
}

// jobNames checks what is called by a name.
func (x *importer) jobNames(j *job, path string) {
	if strings.TrimSpace(j.name) == "" {
		x.problem(j.line, path+" name", "is missing; give the job a name, e.g. name=\"mail\"")
		return
	}
	for _, each := range []struct {
		key, value string
		most       int
	}{{"name", j.name, maxJobName}, {"queue", j.queue, maxName}, {"exchange", j.exchange, maxName}} {
		if len(each.value) > each.most || strings.ContainsFunc(each.value, unicode.IsControl) || strings.TrimSpace(each.value) == "" {
			x.problem(j.line, path+" "+each.key, "is longer than %d bytes, empty or has a control character in it; give another name", each.most)
		}
	}
}

// number reads a whole number.
func (x *importer) number(line int, path, text string, least, most int) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < least || n > most {
		x.problem(line, path, "is %q; give a whole number from %d to %d", clip(text), least, most)
		return 0
	}
	return n
}

// own is a number of a job's own; 0 for that of conf.
func (x *importer) own(j *job, path string, v map[string]string, key, fallback string, most int) int {
	text := v[key]
	if text == "" {
		return 0
	}
	n := x.number(j.line, path+" "+key, text, 0, most)
	if n == 0 {
		x.note(j.line, path+" "+key, "is 0, which means what conf has as %s", fallback)
	}
	return n
}

// timeout is a time limit of so many milliseconds.
func (x *importer) timeout(line int, path string, ms int) time.Duration {
	d := time.Duration(ms) * time.Millisecond
	if d > maxTimeout {
		x.note(line, path, "is %s, more than can be; written as %s", d, maxTimeout)
		return maxTimeout
	}
	return d
}

// executors is how many executors a job has.
func (j *job) executors(c conf) int { return cmp.Or(j.count, c.count) }

// prefetch makes of a number for each executor one for all of them.
func (x *importer) prefetch(j *job, path string) {
	each, executors := cmp.Or(j.prefetch, x.out.conf.prefetch), j.executors(x.out.conf)
	j.prefetch = min(each*max(executors, 1), 65535)
	if each != 0 && executors > 1 {
		x.note(j.line, path+" prefetchCount", "is %d for each executor; written as %d, for all %d together", each, j.prefetch, executors)
	}
}

// retry is what Consumer Dispatcher makes of the attribute: only -1 has it look at conf.
func (x *importer) retry(j *job, path, text string) {
	path += " retry"
	fallback := x.out.conf.retry
	if text == "" {
		if fallback == 0 {
			x.note(j.line, path, "is not given: Consumer Dispatcher tries again then, although conf has retry 0, and so does what is written; for conf's, give retry=\"0\"")
		}
		return
	}
	n := x.number(j.line, path, text, -maxNumber, maxNumber)
	if n == -1 {
		x.note(j.line, path, "is -1, which means what conf has as retry, %d", fallback)
		n = fallback
	} else if n != 0 && n != 1 {
		x.note(j.line, path, "is %d, which is as good as 1: tried again without end", n)
	}
	if j.drop = n == 0; j.drop {
		x.note(j.line, path, "is 0: what the endpoint does not do at the first attempt is dropped, as ever; to keep it, set retry.then: dead-letter")
	}
}

// endpoint checks where requests go.
func (x *importer) endpoint(places map[string]place, address, host, encoding string) {
	if address == "" {
		return // conf lacks it, which is reported
	}
	at := places["url"]
	if u, err := url.Parse(address); err == nil && u.User != nil {
		x.problem(at.line, at.path, "has a user in it; take it out here, and add target.auth to what is written")
		return
	}
	for _, p := range target.Check(target.Options{URL: address, Host: host, Encoding: encoding, Timeout: defaultTimeout}, target.Rules{}) {
		at, known := places[p.Key]
		if !known {
			at = places["url"]
		}
		x.problem(at.line, at.path, "%s", strings.TrimPrefix(p.Text, target.MaskURL(address)+" "))
	}
	if len(encoding) > maxName || len(host) > maxName {
		x.problem(at.line, at.path, "has an encoding or a host of more than %d bytes; correct it", maxName)
	}
}

// findServer finds a job's server, and other jobs that it cannot be told from.
func (x *importer) findServer(j *job, path, name string) {
	s := x.servers[name]
	switch {
	case name == "":
		x.problem(j.line, path+" server", "is missing; give the name of a queueserver")
		return
	case s == nil:
		x.problem(j.line, path+" server", "is %q, which no queueserver is called; add it to servers, or correct the name", clip(name))
		return
	}
	j.server = s
	where := net.JoinHostPort(s.host, s.port) + "/" + s.vhost
	u, err := url.Parse(cmp.Or(j.url, x.out.conf.url))
	if err != nil {
		return // reported
	}
	same := fmt.Sprintf("%q %q %q", u.Hostname(), j.queue, where)
	byName := fmt.Sprintf("%q %q", where, j.name)
	if first, twice := x.same[same]; twice {
		x.problem(j.line, path, "has the same URL host, queue, server and vhost as the job on line %d, with which Consumer Dispatcher does not start; remove one of the two", first)
	} else if first, twice := x.names[byName]; twice {
		x.problem(j.line, path+" name", "is that of the job on line %d in the same vhost as well; here each needs a name of its own, which is also what requests have as queueName: rename one", first)
	}
	x.same[same], x.names[byName] = j.line, j.line
}
