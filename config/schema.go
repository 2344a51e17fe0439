package config

import (
	"errors"
	"fmt"
	"strings"
)

// Examples that messages show. A remedy that can be copied is worth most.
const (
	listenersExample = `- address: ":5673"`
	nodesExample     = `- {name: rabbit@a, address: "a:5672"}`
	discoveryExample = `{srv: {name: _amqp._tcp.rabbit.example}}`
	policiesExample  = `- {name: images, pattern: "^images$", definition: {shards-per-node: 4}}`
)

// schema declares every key of the file and where its value goes in c.
func schema(c *Config) object {
	return object{
		fields: []field{
			{"listeners", `one, address "` + DefaultListen + `"`, listeners(c)},
			{"upstream", "required for the proxy", upstream(c)},
			{"proxy", "", object{fields: []field{
				{"handshake-timeout", DefaultHandshakeTimeout.String(), duration(&c.Proxy.HandshakeTimeout)},
				{"drain-timeout", DefaultDrainTimeout.String(), duration(&c.Proxy.DrainTimeout)},
				{"max-connections", "as many as open files allow for", whole(1, 1_000_000, &c.Proxy.MaxConnections)},
			}}},
			{"policies", "none", policies(c)},
			{"admin", "", admin(&c.Admin)},
			{"log", "", object{fields: []field{
				{"level", DefaultLogLevel, oneOf(func(v string) { c.Log.Level = v }, LogLevels...)},
				{"format", DefaultLogFormat, oneOf(func(v string) { c.Log.Format = v }, LogFormats...)},
			}}},
			{"dispatch", "", dispatchSection(&c.Dispatch)},
		},
		done: needUpstream,
	}
}

const noUpstream = "is missing; say where RabbitMQ is, e.g. upstream: {nodes: [{address: \"localhost:5672\"}]}"

// needUpstream: a file without upstream is none of a proxy, so it has to have dispatch and nothing that is for proxies.
func needUpstream(p *parser, at place) {
	if p.given(at, "upstream") {
		return
	}
	if !p.given(at, "dispatch") || p.given(at, "listeners") || p.given(at, "policies") || p.given(at, "proxy") {
		p.problem(at.node.Line, "upstream", noUpstream)
	}
}

// CheckProxy reports whether a proxy can run with the configuration, which was read from file. Errors are Problems.
func (c *Config) CheckProxy(file string) error {
	if len(c.Upstream.Nodes) == 0 && c.Upstream.Discovery == nil {
		return Problems{{File: file, Path: "upstream", Text: noUpstream}}
	}
	return nil
}

// LogLevels and LogFormats are the words that log.level and log.format take.
var (
	LogLevels  = []string{"debug", "info", "warn", "error"}
	LogFormats = []string{"console", "json"}
)

func listeners(c *Config) list {
	first := true
	return list{example: listenersExample, atLeast: 1, item: func() shape {
		if first { // what the file lists replaces the default
			c.Listeners, first = nil, false
		}
		c.Listeners = append(c.Listeners, Listener{})
		i := len(c.Listeners) - 1
		return object{
			fields: []field{
				{"address", required, scalar{
					kind: "host:port", want: "host:port, e.g. \":5673\"",
					set: func(v string) error {
						c.Listeners[i].Address = v
						return CheckListen(v)
					},
				}},
				{"tls", "", listenerTLS(&c.Listeners[i].TLS)},
				{"proxy-protocol", "", proxyProtocol(&c.Listeners[i].ProxyProtocol)},
				{"identity", "that of the client's certificate", filled("the name of one of upstream.tls.identities", &c.Listeners[i].Identity)},
			},
			missing: map[string]string{"address": `give host:port, e.g. address: ":5673"`},
		}
	}}
}

func admin(a *Admin) object {
	return object{
		fields: []field{
			{"address", required, scalar{
				kind: "host:port", want: "host:port, e.g. \"" + AdminExample + "\"",
				set: func(v string) error {
					a.Address = v
					return CheckAdmin(v)
				},
			}},
			{"token", "", adminToken(&a.Token)},
		},
		missing: map[string]string{"address": "give host:port, e.g. address: \"" + AdminExample + "\""},
	}
}

// leastToken is the fewest characters of a token: nothing slows down who tries them all.
const leastToken = 16

// adminToken is sent in an HTTP header.
func adminToken(dst *Secret) scalar {
	s := secret("a token, e.g. ${SHARDMQ_ADMIN_TOKEN}", dst)
	s.set = func(v string) error {
		switch {
		case len(v) < leastToken || len(v) > maxName:
			return fmt.Errorf("has %d characters; give %d to %d, e.g. what openssl rand -hex 16 prints", len(v), leastToken, maxName)
		case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
			return errors.New("has characters that HTTP headers do not take; give letters and digits, e.g. what openssl rand -hex 16 prints")
		}
		*dst = Secret(v)
		return nil
	}
	return s
}
