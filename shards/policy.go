package shards

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
)

// ModulusHash is the exchange type of RabbitMQ's sharding plugin.
const ModulusHash = "x-modulus-hash"

// unshardedSuffix ends the name of every catch-all exchange.
const unshardedSuffix = ".unsharded"

const (
	// MaxShardsPerNode is the highest shards-per-node a policy may ask for.
	MaxShardsPerNode = 1000
	// MaxShards is the highest fixed total a policy may ask for.
	MaxShards = 1000
)

const (
	queueTypeArg = "x-queue-type"
	quorumType   = "quorum"
	classicType  = "classic"
)

// Hash names the function that places a message on a shard.
type Hash uint8

const (
	// HashXX is XXH64 of the routing key.
	HashXX Hash = iota
	// HashPhash2 is erlang:phash2 over the list of the message's routing keys,
	// the placement of RabbitMQ's own x-modulus-hash.
	HashPhash2
)

// String returns the configuration word for the hash.
func (h Hash) String() string {
	if h == HashPhash2 {
		return "phash2"
	}
	return "xxhash"
}

// ParseHash reads a configuration word; "" is the default, xxhash.
func ParseHash(word string) (Hash, error) {
	switch word {
	case "", "xxhash":
		return HashXX, nil
	case "phash2":
		return HashPhash2, nil
	}
	return 0, fmt.Errorf("unknown hash '%s': use xxhash or phash2", word)
}

// ConsumerMode says how consumers share the shards of an exchange.
type ConsumerMode uint8

const (
	// Balanced keeps every shard covered while there is any consumer.
	Balanced ConsumerMode = iota
	// One gives each consumer one least-consumed local shard and never moves it,
	// as the sharding plugin does.
	One
)

// String returns the configuration word for the mode.
func (m ConsumerMode) String() string {
	if m == One {
		return "one"
	}
	return "balanced"
}

// ParseConsumerMode reads a configuration word; "" is the default, balanced.
func ParseConsumerMode(word string) (ConsumerMode, error) {
	switch word {
	case "", "balanced":
		return Balanced, nil
	case "one":
		return One, nil
	}
	return 0, fmt.Errorf("unknown consumers mode '%s': use balanced or one", word)
}

// NodeDown says what becomes of new messages for shards on a node that is down.
type NodeDown uint8

const (
	// Reroute hashes their keys again over the shards that are live.
	Reroute NodeDown = iota
	// Keep lets the broker nack them.
	Keep
)

// String returns the configuration word.
func (n NodeDown) String() string {
	if n == Keep {
		return "keep"
	}
	return "reroute"
}

// ParseNodeDown reads a configuration word; "" is the default, reroute.
func ParseNodeDown(word string) (NodeDown, error) {
	switch word {
	case "", "reroute":
		return Reroute, nil
	case "keep":
		return Keep, nil
	}
	return 0, fmt.Errorf("unknown on-node-down '%s': use reroute or keep", word)
}

// Definition is what a policy says about the exchanges it matches.
type Definition struct {
	ShardsPerNode  int            // 1..MaxShardsPerNode, or 0 when Shards is given
	Shards         int            // 1..MaxShards: a fixed total over all nodes, under names without a node; 0 = ShardsPerNode counts
	QueueArguments map[string]any // further arguments of new shards: texts, numbers, truth values; not to be modified
	RoutingKey     string         // binding key of the shards for exchanges of other types
	Hash           Hash           // places messages on shards
	HashOn         HashOn         // what of a message is hashed
	Consumers      ConsumerMode   // shares shards among consumers
	Ordered        bool           // max-consumers-per-shard: 1
	Barrier        bool           // order-barrier: publishes wait while other shards replace the present ones; needs Ordered
	OnNodeDown     NodeDown       // what becomes of new messages for shards that are down
	ExchangeType   string         // "" or ModulusHash: shard exchanges of whatever type is declared
	FedBy          []string       // exchanges bound to this one whose publishes carry its shard key
}

// Replicated reports whether the shards are queues that are on several nodes, so
// that any node that is up can be asked about them.
func (d *Definition) Replicated() bool { return d.QueueArguments[queueTypeArg] == quorumType }

// PolicyError says what is wrong with a policy.
type PolicyError struct {
	Policy string // the policy's name
	Field  string // configuration key, for example "definition.shards-per-node"
	Text   string // what is wrong and what to do
	Err    error  // cause, may be nil
}

// Error implements error.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("policy '%s': %s: %s", e.Policy, e.Field, e.Text)
}

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.Err }

// Policy says which exchanges of one vhost are sharded, and how. It is not to be
// modified after NewPolicy, and then safe for concurrent use.
type Policy struct {
	Name, Vhost, Pattern string
	Priority             int
	Definition           Definition

	re        *regexp.Regexp
	literal   string
	isLiteral bool
	captures  *lru.Cache[string, uint64] // hash by routing key; nil unless a part of it is hashed
}

// NewPolicy checks a policy and compiles its pattern, a regular expression that
// may match anywhere in the name unless anchored, as in RabbitMQ. Errors are
// *PolicyError.
func NewPolicy(name, vhost, pattern string, priority int, def Definition) (*Policy, error) {
	def.QueueArguments = plainNumbers(def.QueueArguments)
	p := &Policy{Name: name, Vhost: vhost, Pattern: pattern, Priority: priority, Definition: def}
	fail := func(field, format string, args ...any) (*Policy, error) {
		return nil, &PolicyError{Policy: name, Field: field, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case name == "":
		return fail("name", "is empty; give the policy a name")
	case vhost == "":
		return fail("vhost", "is empty; the default vhost is called /")
	case pattern == "":
		return fail("pattern", "is empty and would match every exchange; write ^name$ for one exchange")
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, &PolicyError{Policy: name, Field: "pattern", Text: fmt.Sprintf("is not a regular expression: %v", err), Err: err}
	}
	p.re = re
	p.literal, p.isLiteral = literalOf(pattern)
	if p.isLiteral && TooLong(p.literal) { // before reserved, which it is too
		return fail("pattern", "names an exchange of %d bytes, which leaves no room for the names of its shards; use a shorter name", len(p.literal))
	}
	if p.isLiteral && reserved(p.literal) {
		return fail("pattern", "names exchange '%s', which is never sharded (reserved name)", p.literal)
	}
	if field, text := def.problem(p.literal); field != "" {
		return fail("definition."+field, "%s", text)
	}
	p.remember()
	return p, nil
}

// Literal returns the one exchange name the policy is for, when its pattern is
// that name between ^ and $.
func (p *Policy) Literal() (string, bool) { return p.literal, p.isLiteral }

// matches reports whether the policy is for that exchange of its vhost.
func (p *Policy) matches(exchange string) bool {
	if p.isLiteral {
		return exchange == p.literal
	}
	return p.re.MatchString(exchange)
}

// literalOf returns the only name a pattern of the form ^name$ matches, escapes
// undone.
func literalOf(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || re.Op != syntax.OpConcat || len(re.Sub) < 3 {
		return "", false
	}
	last := len(re.Sub) - 1
	if re.Sub[0].Op != syntax.OpBeginText || re.Sub[last].Op != syntax.OpEndText {
		return "", false
	}
	var name strings.Builder
	for _, sub := range re.Sub[1:last] {
		if sub.Op != syntax.OpLiteral || sub.Flags&syntax.FoldCase != 0 {
			return "", false
		}
		name.WriteString(string(sub.Rune))
	}
	return name.String(), true
}

// reserved reports whether no policy may ever match the name: the default
// exchange, the broker's own exchanges, our catch-alls and coordination names,
// the names of shard queues, and names too long to have any.
func reserved(name string) bool {
	return name == "" ||
		strings.HasPrefix(name, "amq.") ||
		strings.HasSuffix(name, unshardedSuffix) ||
		strings.HasPrefix(name, "shardmq.") ||
		strings.HasPrefix(name, queueWord) ||
		TooLong(name)
}

// TooLong reports whether an exchange of that name could have no shard or no catch-all, whatever the node is called: their names would
// not be AMQP short strings.
func TooLong(name string) bool {
	return max(len(QueueName(name, "", 0)), len(Unsharded(name))) > maxShortString
}
