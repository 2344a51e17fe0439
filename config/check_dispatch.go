package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shardmq/shardmq/dispatch/target"
)

// together looks at keys of a job, or of the defaults, that do not go with one another.
func (j *job) together(p *parser, at place) {
	executors, total, auto := p.given(at, "executors"), p.given(at, "executors-total"), p.given(at, "auto")
	j.givesExecutors = j.givesExecutors || executors
	switch { // what the defaults have gives way
	case auto && executors:
		p.faultAt(at.key("auto"), "is given beside executors, which it would change; keep one of the two")
	case auto && total:
		p.faultAt(at.key("auto"), "is given beside executors-total, of which each process takes an even share; keep one of the two")
	case auto:
		j.Total = 0
	case executors || total:
		j.Auto = nil
	}
	if executors && total && j.Executors > j.Total {
		p.faultAt(at.key("executors"), "is %d, the most that one process takes of executors-total, which is %d; give at most as much, or leave it out", j.Executors, j.Total)
	}
	switch {
	case j.Auto != nil:
		j.Executors = j.Auto.Min
	case j.Total > 0 && (!j.givesExecutors || j.Executors > j.Total):
		j.Executors = j.Total
	}
}

// checkMode looks at what goes with some modes of requests only.
func (j *job) checkMode(p *parser, at place) {
	in, mode := place{node: at.node, path: at.key("request")}, j.Target.Mode
	for key, want := range map[string]target.Mode{"encoding": target.Form, "batch": target.BatchMode} {
		if p.given(in, key) && mode != want {
			p.faultAt(in.key(key), "has no effect in mode %s; set mode: %s beside it, or leave it out", mode, want)
		}
	}
	if p.given(in, "event") && mode != target.CloudEvent && mode != target.CloudStructured {
		p.faultAt(in.key("event"), "has no effect in mode %s; set mode: %s beside it, or leave it out", mode, target.CloudEvent)
	}
	if j.Order.By() && mode == target.BatchMode {
		p.faultOnce(p.orDefault(at, "order"), "cannot be kept in mode batch: jobs in order are done one after the other; leave order out, or choose another mode")
	}
	if j.Order.By() && j.Total > 1 {
		p.faultOnce(p.orDefault(at, "order"), "cannot be kept by several processes that share executors-total; leave one of the two out, or give executors-total: 1")
	}
}

// consumerTimeout is RabbitMQ's default.
const consumerTimeout = 30 * time.Minute

// add checks a whole job and adds it to the settings.
func (d *dispatching) add(p *parser, at place, j *job) {
	j.together(p, at)
	j.checkMode(p, at)
	if j.Queue == "" && !j.givesQueue {
		j.Queue = j.Name
	}
	d.addServer(p, at, j)
	d.addTarget(p, at, j)
	if executors := max(j.Executors, 1); p.given(at, "prefetch") && j.Prefetch < executors {
		p.warnAt(at.key("prefetch"), "is %d, less than the %d executors: each gets one job at a time all the same; give at least as many", j.Prefetch, executors)
	}
	const again = "is %s, and RabbitMQ waits 30m for an acknowledgement unless its consumer_timeout is raised: then the job comes again; raise that, or give at most 30m"
	if j.Target.Timeout > consumerTimeout {
		p.warnAt(p.orDefault(at, "timeout"), again, j.Target.Timeout)
	}
	if j.Order.By() && j.Retry.Most > consumerTimeout { // jobs in order are kept for their delay
		p.warnAt(p.orDefault(at, "retry"), again, j.Retry.Most)
	}
	args := map[string]any(nil)
	if j.Declare != nil {
		args = j.Declare.Arguments
	}
	if kind := args["x-queue-type"]; j.Quorum && kind != nil && kind != "quorum" {
		p.faultAt(at.key("quorum"), "is true, but declare.arguments has x-queue-type: %v; leave one of the two out", kind)
	}
	job := j.Job
	d.settings.Jobs = append(d.settings.Jobs, &job)
}

// addServer finds a job's server, and whether another job of that name or queue is there.
func (d *dispatching) addServer(p *parser, at place, j *job) {
	if j.server == "" && len(d.servers) == 1 {
		for j.server = range d.servers {
		}
	}
	if j.server == "" {
		if len(d.servers) > 1 && !p.given(at, "server") {
			p.problem(at.node.Line, at.key("server"), "is missing; with several servers each job needs one of them, or the defaults have it")
		}
		return
	}
	if !d.knows(p, at, j.server) {
		return
	}
	j.Server = *d.servers[j.server]
	if j.Name == "" {
		return
	}
	where := string(j.Server.URL) // two servers may be one and the same
	if u, err := url.Parse(where); err == nil && where != "" {
		where = u.Host + u.EscapedPath()
	} else {
		where = j.server
	}
	if first, twice := d.names[[2]string{where, j.Name}]; twice {
		p.faultAt(at.key("name"), "is %q, the name of the job on line %d as well; give each job of a vhost a name of its own", clip(j.Name), p.line(first))
		return
	}
	d.names[[2]string{where, j.Name}] = at.key("name")
	if first, twice := d.queues[[2]string{where, j.Queue}]; twice {
		p.warnAt(at.key("name"), "takes from queue %q, as the job on line %d does: each message goes to one of them only; give each a queue of its own", clip(j.Queue), p.line(first))
		return
	}
	d.queues[[2]string{where, j.Queue}] = at.key("name")
}

// addTarget completes what is said of the endpoint.
func (d *dispatching) addTarget(p *parser, at place, j *job) {
	in, o := place{node: at.node, path: at.key("target")}, &j.Target
	if u, err := url.Parse(o.URL); err == nil && u.User != nil {
		p.faultOnce(p.orDefault(at, "target.url"), "has a user in it; give target.auth with username and password instead")
	}
	if o.URL != "" && !strings.HasPrefix(o.URL, "https://") && p.given(in, "tls") {
		p.faultAt(in.key("tls"), "has no effect without TLS; begin target.url with https://, or leave tls out")
	}
	if o.Mode == target.BatchMode {
		o.Batch.Size = j.size
	} else {
		o.Batch = target.Batch{}
	}
	if j.ack == nil && o.Mode == target.Form {
		ok := target.SaysOK()
		j.ack = &ok
	} else if j.ack == nil {
		j.ack = &target.Match{Statuses: []target.StatusRange{{From: 200, To: 299}}}
	}
	j.Answers.AckWhen = *j.ack
	if j.drop != nil {
		j.Answers.DropWhen = *j.drop
	}
	if j.deadLetter != nil {
		j.Answers.DeadLetterWhen = *j.deadLetter
	}
	d.checkTarget(p, at, j)
}

// checkTarget has package target look at what there is, and reports each problem where the file has its cause.
func (d *dispatching) checkTarget(p *parser, at place, j *job) {
	o := j.Target
	o.TLS = target.TLS{} // its files have been looked at
	for _, found := range target.Check(o, j.Answers) {
		if i, is := signingKey(found.Key); is && o.SigningSecrets[i] == "" {
			continue // it could not be read, or is not looked at
		}
		// A URL may have a token in it, so it is not repeated.
		p.faultOnce(p.orDefault(at, j.pathOf(found.Key)), "%s", strings.TrimPrefix(found.Text, target.MaskURL(o.URL)+" "))
	}
}

// faultOnce reports a problem unless there is one of the same value.
func (p *parser) faultOnce(path, format string, args ...any) {
	if !slices.ContainsFunc(p.problems, func(other Problem) bool { return other.Path == path }) {
		p.faultAt(path, format, args...)
	}
}

// pathOf says what package target's name of a setting is called here, in a job.
func (j *job) pathOf(key string) string {
	first, _, _ := strings.Cut(strings.ReplaceAll(key, "[", "."), ".")
	switch first {
	case "url", "host", "method", "headers", "auth", "tls":
		return "target." + key
	case "encoding", "properties", "marks", "event", "batch", "mode":
		return "request." + key
	}
	if i, is := signingKey(key); is && i >= j.signs {
		return fmt.Sprintf("sign.secret-files[%d]", i-j.signs)
	} else if is {
		return fmt.Sprintf("sign.secrets[%d]", i)
	}
	return strings.Replace(key, ".statuses", ".status", 1)
}

// signingKey takes package target's name of a signing secret apart.
func signingKey(key string) (i int, is bool) {
	_, err := fmt.Sscanf(key, "signing-secrets[%d]", &i)
	return i, err == nil
}

// orDefault returns the path of what a job says with that key, or of what the defaults say in its stead.
func (p *parser) orDefault(at place, key string) string {
	for k := key; k != ""; k = k[:max(strings.LastIndexAny(k, ".["), 0)] {
		if p.given(at, k) {
			break
		}
		if _, ok := p.lines["dispatch.defaults."+k]; ok {
			return "dispatch.defaults." + key
		}
	}
	return at.key(key)
}
