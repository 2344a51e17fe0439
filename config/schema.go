package config

import (
	"math"

	"github.com/shardmq/shardmq/shards"
)

// Examples that messages show. A remedy that can be copied is worth most.
const (
	listenersExample = `- address: ":5673"`
	nodesExample     = `- {name: rabbit@a, address: "a:5672"}`
	policiesExample  = `- {name: images, pattern: "^images$", definition: {shards-per-node: 4}}`
)

// schema declares every key of the file and where its value goes in c.
func schema(c *Config) object {
	return object{
		fields: []field{
			{"listeners", `one, address "` + DefaultListen + `"`, listeners(c)},
			{"upstream", required, upstream(c)},
			{"proxy", "", object{fields: []field{
				{"handshake-timeout", DefaultHandshakeTimeout.String(), duration(&c.Proxy.HandshakeTimeout)},
				{"drain-timeout", DefaultDrainTimeout.String(), duration(&c.Proxy.DrainTimeout)},
			}}},
			{"policies", "none", policies(c)},
			{"log", "", object{fields: []field{
				{"level", DefaultLogLevel, oneOf(func(v string) { c.Log.Level = v }, LogLevels...)},
				{"format", DefaultLogFormat, oneOf(func(v string) { c.Log.Format = v }, LogFormats...)},
			}}},
		},
		missing: map[string]string{"upstream": "say where RabbitMQ is, e.g. upstream: {nodes: [{address: \"localhost:5672\"}]}"},
	}
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
			fields: []field{{"address", required, scalar{
				kind: "host:port", want: "host:port, e.g. \":5673\"",
				set: func(v string) error {
					c.Listeners[i].Address = v
					return CheckListen(v)
				},
			}}},
			missing: map[string]string{"address": `give host:port, e.g. address: ":5673"`},
		}
	}}
}

func upstream(c *Config) object {
	u := &c.Upstream
	return object{
		fields: []field{
			{"nodes", required, list{example: nodesExample, atLeast: 1, item: func() shape { return node(u) }}},
			{"control", "", control(&u.Control)},
			{"dial-timeout", DefaultDialTimeout.String(), duration(&u.DialTimeout)},
		},
		missing: map[string]string{"nodes": "list RabbitMQ's nodes, e.g. " + nodesExample},
	}
}

func node(u *Upstream) object {
	u.Nodes = append(u.Nodes, Node{})
	i := len(u.Nodes) - 1
	return object{
		fields: []field{
			{"name", "learned from the broker, if it is the only node", scalar{
				kind: "text", want: "the node's name, e.g. rabbit@a",
				set: func(v string) error {
					u.Nodes[i].Name = v
					return CheckNodeName(v)
				},
			}},
			{"address", required, scalar{
				kind: "host:port", want: "host:port, e.g. \"a:5672\"",
				set: func(v string) error {
					u.Nodes[i].Address = v
					return CheckNode(v)
				},
			}},
		},
		missing: map[string]string{"address": `give host:port, e.g. address: "a:5672"`},
	}
}

func control(ctl *Control) object {
	return object{
		fields: []field{
			{"username", DefaultUsername, filled("a user name", &ctl.Username)},
			{"password", DefaultPassword, secret("a password, best as \"${SHARDMQ_PASSWORD}\"", &ctl.Password)},
		},
		done: func(p *parser, at place) {
			_, user := p.lines[at.key("username")]
			_, pass := p.lines[at.key("password")]
			if user != pass {
				p.fault(at, "has only one of username and password; give both, or neither for %s/%s",
					DefaultUsername, DefaultPassword)
			}
		},
	}
}

// policy is a policy as the file spells it; parser.policy makes a
// *shards.Policy of it.
type policy struct {
	name, vhost, pattern string
	priority             int
	definition           shards.Definition
}

func policies(c *Config) list {
	return list{example: policiesExample, item: func() shape {
		r := &policy{vhost: DefaultVhost}
		return object{
			fields: []field{
				{"name", required, filled("a name", &r.name)},
				{"vhost", DefaultVhost, filled("a vhost's name, e.g. /", &r.vhost)},
				{"pattern", required, filled("a regular expression, e.g. \"^images$\"", &r.pattern)},
				{"priority", "0", whole(math.MinInt32, math.MaxInt32, &r.priority)},
				{"definition", required, definition(&r.definition)},
			},
			missing: map[string]string{
				"name":       "give the policy a name, e.g. name: images",
				"pattern":    `say which exchanges to shard, e.g. pattern: "^images$"`,
				"definition": "say how many shards, e.g. definition: {shards-per-node: 4}",
			},
			done: func(p *parser, at place) { p.policy(c, r, at) },
		}
	}}
}

func definition(d *shards.Definition) object {
	return object{
		fields: []field{
			{"shards-per-node", required, whole(1, shards.MaxShardsPerNode, &d.ShardsPerNode)},
			{"routing-key", "empty", text("a routing key", func(v string) error { d.RoutingKey = v; return nil })},
			{"hash", "xxhash", oneOf(func(v string) { d.Hash, _ = shards.ParseHash(v) }, "xxhash", "phash2")},
			{"consumers", "balanced", oneOf(func(v string) { d.Consumers, _ = shards.ParseConsumerMode(v) }, "balanced", "one")},
			{"exchange-type", "the exchange's own", oneOf(func(v string) { d.ExchangeType = v }, shards.ModulusHash)},
			{"fed-by", "none", list{example: "[uploads]", item: func() shape {
				d.FedBy = append(d.FedBy, "")
				return filled("an exchange's name", &d.FedBy[len(d.FedBy)-1])
			}}},
		},
		missing: map[string]string{"shards-per-node": "say how many shards each node gets, e.g. shards-per-node: 4"},
	}
}
