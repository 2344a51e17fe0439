package shards

import (
	"fmt"
	"maps"
	"slices"
)

// problem returns the first thing wrong with the definition; literal is the one
// exchange it is for, if known.
func (d *Definition) problem(literal string) (field, text string) {
	if field, text := d.sizeProblem(); field != "" {
		return field, text
	}
	if text := d.HashOn.problem(); text != "" {
		return "hash-on", text
	}
	switch {
	case len(d.RoutingKey) > maxShortString:
		return "routing-key", fmt.Sprintf("has %d bytes; at most %d are possible", len(d.RoutingKey), maxShortString)
	case d.Hash > HashPhash2:
		return "hash", "is unknown; use xxhash or phash2"
	case d.Consumers > One:
		return "consumers", "is unknown; use balanced or one"
	case d.Ordered && d.Consumers == One:
		return "max-consumers-per-shard", "takes consumers: balanced; with consumers: one several may get the same shard"
	case d.Barrier && !d.Ordered:
		return "order-barrier", "takes max-consumers-per-shard: 1; with several consumers of a shard messages of one key overtake each other anyway"
	case d.OnNodeDown > Keep:
		return "on-node-down", "is unknown; use reroute or keep"
	case d.ExchangeType != "" && d.ExchangeType != ModulusHash:
		return "exchange-type", fmt.Sprintf("is '%s'; only %s is possible", d.ExchangeType, ModulusHash)
	}
	if text := d.argumentProblem(); text != "" {
		return "queue-arguments", text
	}
	return d.feedProblem(literal)
}

// sizeProblem is problem for the number of shards.
func (d *Definition) sizeProblem() (field, text string) {
	switch {
	case d.Shards != 0 && d.ShardsPerNode != 0:
		return "shards", "cannot be used together with shards-per-node: give one of them"
	case d.Shards < 0 || d.Shards > MaxShards:
		return "shards", fmt.Sprintf("is %d; it must be 1 to %d", d.Shards, MaxShards)
	case d.Shards == 0 && (d.ShardsPerNode < 1 || d.ShardsPerNode > MaxShardsPerNode):
		return "shards-per-node", fmt.Sprintf("is %d; it must be 1 to %d, unless shards says how many there are in all", d.ShardsPerNode, MaxShardsPerNode)
	}
	return "", ""
}

// feedProblem is problem for fed-by.
func (d *Definition) feedProblem(literal string) (field, text string) {
	seen := make(map[string]bool, len(d.FedBy))
	for _, from := range d.FedBy {
		switch {
		case from == "":
			return "fed-by", "names the default exchange, which nothing can be bound to"
		case len(from) > maxShortString:
			return "fed-by", fmt.Sprintf("names an exchange of %d bytes; at most %d are possible", len(from), maxShortString)
		case from == literal:
			return "fed-by", fmt.Sprintf("names the sharded exchange '%s' itself", from)
		case seen[from]:
			return "fed-by", fmt.Sprintf("names '%s' twice", from)
		}
		seen[from] = true
	}
	return "", ""
}

// argumentKinds says what values RabbitMQ takes for the arguments it knows; it
// passes over others. A wrong one would only show when the shards are declared.
var argumentKinds = map[string]string{
	"x-expires": "whole number", "x-message-ttl": "whole number", "x-max-length": "whole number", "x-max-length-bytes": "whole number",
	"x-max-priority": "whole number", "x-delivery-limit": "whole number", "x-max-in-memory-length": "whole number", "x-max-in-memory-bytes": "whole number",
	"x-quorum-initial-group-size": "whole number", "x-queue-version": "whole number", "x-consumer-timeout": "whole number",
	"x-dead-letter-exchange": "text", "x-dead-letter-routing-key": "text", "x-dead-letter-strategy": "text", "x-overflow": "text",
	"x-queue-mode": "text", "x-queue-master-locator": "text", "x-queue-leader-locator": "text", queueTypeArg: "text",
	singleActive: "truth value",
}

// argumentProblem is problem for queue-arguments.
func (d *Definition) argumentProblem() string {
	for _, name := range slices.Sorted(maps.Keys(d.QueueArguments)) {
		value := d.QueueArguments[name]
		kind, number := kindOf(value)
		want, known := argumentKinds[name]
		switch {
		case name == "" || len(name) > maxShortString:
			return fmt.Sprintf("has a name of %d bytes; 1 to %d are possible", len(name), maxShortString)
		case kind == "":
			return fmt.Sprintf("%s is neither a text nor a number nor a truth value", name)
		case known && kind != want:
			return fmt.Sprintf("%s is a %s; RabbitMQ takes a %s", name, kind, want)
		case name == "x-expires":
			return "x-expires would delete a shard with its messages when nobody uses it for a while; x-message-ttl bounds the life of messages"
		case known && want == "whole number" && number < 0:
			return fmt.Sprintf("%s is %d, which is too low", name, number)
		case name == "x-max-priority" && number > 255:
			return fmt.Sprintf("%s is %d; RabbitMQ takes at most 255", name, number)
		}
	}
	return d.typeProblem()
}

// typeProblem is argumentProblem for what goes together.
func (d *Definition) typeProblem() string {
	kind, given := d.QueueArguments[queueTypeArg]
	_, priorities := d.QueueArguments["x-max-priority"]
	switch {
	case given && kind != classicType && kind != quorumType:
		return fmt.Sprintf("%s is '%v'; shards are %s or %s queues", queueTypeArg, kind, classicType, quorumType)
	case d.Replicated() && d.Shards == 0:
		return fmt.Sprintf("%s is %s, which is on several nodes: say shards, a total for all of them, instead of shards-per-node", queueTypeArg, quorumType)
	case d.Replicated() && priorities:
		return "x-max-priority is not possible for queues of type quorum"
	case d.QueueArguments[singleActive] == true && !d.Ordered:
		return singleActive + " would leave all consumers of a shard but one without messages; say max-consumers-per-shard: 1 for one consumer at a time"
	}
	return ""
}

// kindOf returns what a value is, "" for what no argument can be, and for a whole
// number which one.
func kindOf(value any) (kind string, number int64) {
	switch v := value.(type) {
	case string:
		return "text", 0
	case bool:
		return "truth value", 0
	case int64:
		return "whole number", v
	case float64:
		return "fraction", 0
	}
	return "", 0
}

// plainNumbers returns a copy of arguments in which every whole number is an int64.
func plainNumbers(arguments map[string]any) map[string]any {
	if len(arguments) == 0 {
		return nil
	}
	plain := make(map[string]any, len(arguments))
	for name, value := range arguments {
		switch v := value.(type) {
		case int:
			value = int64(v)
		case int32:
			value = int64(v)
		case uint64:
			if v <= 1<<63-1 {
				value = int64(v)
			}
		}
		plain[name] = value
	}
	return plain
}

// placesItself reports whether the policy asks for a placement that the broker's
// own x-modulus-hash cannot give: then a new exchange is ours on every version.
func (d *Definition) placesItself() bool {
	return d.HashOn.Source != OnRoutingKey || len(d.FedBy) > 0 || d.Barrier
}
