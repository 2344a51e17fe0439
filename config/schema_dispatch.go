package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

const (
	serversExample = `{mail: {url: "amqp://user:password@host:5672/vhost"}}`
	jobsExample    = `- {name: mail, server: mail, target: {url: "http://app/mail"}}`
)

// dispatching reads the section dispatch: servers and defaults first, which jobs build on.
type dispatching struct {
	settings *dispatch.Settings
	servers  map[string]*dispatch.Server
	defaults job
	names    map[[2]string]string // path of a job's name, by where its server is and the name
	queues   map[[2]string]string // likewise of jobs, by queue
}

// job is a job while it is read, or what the defaults say for all.
type job struct {
	dispatch.Job
	server                  string
	ack, drop, deadLetter   *target.Match
	size                    int // of batches, if there are any
	signs                   int // how many of the signing secrets are in the file itself
	givesQueue, givesQuorum bool
	givesExecutors          bool // a number, also in the defaults
}

func dispatchSection(dst **dispatch.Settings) object {
	d := &dispatching{settings: &dispatch.Settings{Drain: dispatch.DefaultDrain}, servers: map[string]*dispatch.Server{},
		names: map[[2]string]string{}, queues: map[[2]string]string{}}
	d.defaults = builtIn()
	return object{
		inOrder: true,
		fields: []field{
			{"servers", required, named{
				example: serversExample, atLeast: 1,
				check: func(name string) error { return checkName(name, maxName) },
				item:  d.server,
			}},
			{"defaults", "", defaults{object{fields: d.common(&d.defaults), done: func(p *parser, at place) { d.defaults.together(p, at) }}}},
			{"jobs", required, list{example: jobsExample, atLeast: 1, item: d.job}},
			{"drain-timeout", dispatch.DefaultDrain.String(), duration(&d.settings.Drain)},
		},
		missing: map[string]string{
			"servers": "say where the queues are, e.g. servers: " + serversExample,
			"jobs":    "say which queue goes to which endpoint, e.g. jobs: [" + strings.TrimPrefix(jobsExample, "- ") + "]",
		},
		done: func(*parser, place) { *dst = d.settings },
	}
}

// builtIn is a job that nothing has been said about.
func builtIn() job {
	return job{
		size: target.DefaultBatchSize,
		Job: dispatch.Job{
			Executors: dispatch.DefaultExecutors,
			Target:    target.Options{Method: "POST", Timeout: dispatch.DefaultTimeout, Mode: target.Raw, Batch: target.Batch{Wait: target.DefaultBatchWait}},
			Retry: dispatch.Retry{Attempts: dispatch.DefaultAttempts, First: dispatch.DefaultBackoffFirst, Most: dispatch.DefaultBackoffMost,
				RetryAfterMost: dispatch.DefaultRetryAfterMost, Then: dispatch.DeadLetter},
			Breaker: dispatch.Breaker{Failures: dispatch.DefaultBreakerFailures, Open: dispatch.DefaultBreakerOpen},
		},
	}
}

// defaults documents no keys of its own: they are those of jobs.
type defaults struct{ object }

func (d defaults) keys(k Key) []Key {
	k.Type = "mapping"
	return []Key{k}
}

const serverForm = "amqp://user:password@host:port/vhost"

func (d *dispatching) server(name string) shape {
	s := &dispatch.Server{Name: name}
	d.servers[name] = s
	var u *url.URL
	var user login
	return object{
		private: true,
		fields: []field{
			{"url", required, scalar{kind: "text", want: "an AMQP URL, " + serverForm, secret: true, set: func(v string) (err error) {
				u, err = serverURL(v)
				return err
			}}},
			{"username", DefaultUsername, filled("a user name", &user.name)},
			{"password", DefaultPassword, secret("a password, best as \"${MQ_PASSWORD}\"", &user.password)},
			{"password-file", "", pemFile("the path of a file with the password", &user.file)},
			{"ca", "whom the system trusts", pemFile("the path of a PEM file with CA certificates", &s.CA)},
		},
		missing: map[string]string{"url": "give the address and the vhost, e.g. url: \"" + serverForm + "\""},
		done: func(p *parser, at place) {
			d.file(p, &s.CA)
			if p.files && s.CA != "" {
				_, found := certs.LoadClient(certs.ClientOptions{CA: s.CA})
				p.certificates(at, found)
			}
			if s.CA != "" && u != nil && u.Scheme != "amqps" {
				p.faultAt(at.key("ca"), "has no effect without TLS; begin the url with amqps://, or leave ca out")
			}
			given := user.read(d, p, at)
			switch {
			case given && u != nil && u.User != nil:
				p.faultAt(at.key("url"), "has a user in it, and username is given as well; keep one of the two")
			case given && u != nil:
				u.User = url.UserPassword(user.name, string(user.password))
			case u != nil && u.User == nil:
				u.User = url.UserPassword(DefaultUsername, DefaultPassword)
			}
			if u != nil {
				s.URL = Secret(u.String())
			}
		},
	}
}

// serverURL reads an AMQP URL. Errors never repeat it, for it may have a password in it.
func serverURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is no URL; give %s, with special characters percent-encoded (%%2F for /), or username and password as keys of their own", serverForm)
	}
	vhost := strings.TrimPrefix(u.Path, "/")
	switch {
	case u.Scheme != "amqp" && u.Scheme != "amqps" || u.Opaque != "":
		return nil, fmt.Errorf("does not begin with amqp:// or amqps://; give %s", serverForm)
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, fmt.Errorf("has parameters after ? or #; give only %s", serverForm)
	case strings.Contains(strings.TrimPrefix(u.EscapedPath(), "/"), "/"):
		return nil, fmt.Errorf("has more than one / after the address; write a / in a vhost's name as %%2F")
	case len(vhost) > maxName:
		return nil, fmt.Errorf("has a vhost of %d bytes; AMQP allows %d", len(vhost), maxName)
	}
	if u.User != nil {
		if password, ok := u.User.Password(); !ok || password == "" || u.User.Username() == "" {
			return nil, fmt.Errorf("has only one of user and password; give both, or neither for %s:%s", DefaultUsername, DefaultPassword)
		}
	}
	if u.Port() == "" {
		u.Host = strings.TrimSuffix(u.Host, ":") + ":" + map[string]string{"amqp": "5672", "amqps": "5671"}[u.Scheme]
	}
	if err := CheckNode(u.Host); err != nil {
		return nil, fmt.Errorf("has an address that %w", err)
	}
	if vhost == "" {
		vhost = DefaultVhost
	}
	u.Path, u.RawPath = "/"+vhost, "/"+url.PathEscape(vhost)
	return u, nil
}

// knows looks a server up, and is where the message names those that there are.
func (d *dispatching) knows(p *parser, at place, name string) bool {
	if d.servers[name] != nil || len(d.servers) == 0 {
		return d.servers[name] != nil
	}
	names := slices.Sorted(maps.Keys(d.servers))
	p.faultOnce(p.orDefault(at, "server"), "is %q, which dispatch.servers does not have; add it there, or give one of %s", clip(name), clip(strings.Join(names, ", ")))
	return false
}
