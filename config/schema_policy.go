package config

import (
	"fmt"
	"math"
	"regexp"

	"github.com/shardmq/shardmq/shards"
)

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
			{"shards-per-node", "this or shards", whole(1, shards.MaxShardsPerNode, &d.ShardsPerNode)},
			{"shards", "this or shards-per-node", whole(1, shards.MaxShards, &d.Shards)},
			{"queue-arguments", "none", arguments{&d.QueueArguments}},
			{"routing-key", "empty", text("a routing key", func(v string) error { d.RoutingKey = v; return nil })},
			{"hash", "xxhash", oneOf(func(v string) { d.Hash, _ = shards.ParseHash(v) }, "xxhash", "phash2")},
			{"hash-on", "the routing key", hashOn(&d.HashOn)},
			{"consumers", "balanced", oneOf(func(v string) { d.Consumers, _ = shards.ParseConsumerMode(v) }, "balanced", "one")},
			{"max-consumers-per-shard", "unlimited", onlyOne(&d.Ordered)},
			{"order-barrier", "false", truth(&d.Barrier)},
			{"on-node-down", "reroute", oneOf(func(v string) { d.OnNodeDown, _ = shards.ParseNodeDown(v) }, "reroute", "keep")},
			{"exchange-type", "the exchange's own", oneOf(func(v string) { d.ExchangeType = v }, shards.ModulusHash)},
			{"fed-by", "none", list{example: "[uploads]", item: func() shape {
				d.FedBy = append(d.FedBy, "")
				return filled("an exchange's name", &d.FedBy[len(d.FedBy)-1])
			}}},
		},
		done: func(p *parser, at place) {
			if !p.given(at, "shards-per-node") && !p.given(at, "shards") {
				p.problem(at.node.Line, at.key("shards-per-node"), "is missing; say how many shards each node gets, "+
					"e.g. shards-per-node: 4, or how many there are in all, e.g. shards: 8")
			}
		},
	}
}

// onlyOne is max-consumers-per-shard: a number in the file, so that other
// limits can be added, of which only 1 means anything so far.
func onlyOne(ordered *bool) scalar {
	s := whole(math.MinInt32, math.MaxInt32, new(int))
	s.want = "1, or leave the key out for any number of consumers"
	number := s.set
	s.set = func(v string) error {
		if number(v) != nil || v != "1" {
			return fmt.Errorf("is %s; give %s (1 keeps the order of messages with the same key)", clip(v), s.want)
		}
		*ordered = true
		return nil
	}
	return s
}

// hashOn is a word, or a mapping with one key that takes a value.
func hashOn(h *shards.HashOn) choice {
	return choice{
		word: oneOf(func(v string) {
			h.Source = shards.OnMessageID
			if v == "correlation-id" {
				h.Source = shards.OnCorrelationID
			}
		}, "message-id", "correlation-id"),
		object: object{
			fields: []field{
				{"header", "", text("a header's name", func(v string) error {
					if v == "" {
						return fmt.Errorf("is empty; give a header's name, e.g. tenant")
					}
					*h = shards.HashOn{Source: shards.OnHeader, Header: v}
					return nil
				})},
				{"routing-key", "", text("a regular expression with one group", func(v string) error {
					re, err := regexp.Compile(v)
					switch {
					case err != nil:
						return fmt.Errorf("is not a regular expression (%w); correct it", err)
					case re.NumSubexp() != 1:
						return fmt.Errorf("has %d groups; put the part of the routing key to hash between one pair of "+
							"parentheses, e.g. \"^([^.]*)\" for the first word, and write others as (?:...)", re.NumSubexp())
					}
					*h = shards.HashOn{Source: shards.OnCapture, Re: re}
					return nil
				})},
			},
			done: func(p *parser, at place) {
				if p.given(at, "header") == p.given(at, "routing-key") {
					p.fault(at, "needs one of header and routing-key; give e.g. {header: tenant} or {routing-key: \"^([^.]*)\"}")
				}
			},
		},
	}
}
