package shards

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardmq/shardmq/shards/coordination"
)

// Shard is one queue of a sharded exchange.
type Shard = coordination.Shard

// Set is all shards of one exchange over all nodes, sorted by queue name as
// bytes, so "10" comes before "2": the order the hash counts in. It is immutable
// and safe for concurrent use.
type Set struct {
	exchange   string
	generation uint64
	shards     []Shard
	keys       []string // per shard, the key of MaxWords words; shorter ones are its prefixes
	index      map[string]int
}

// NewSet returns the set for shardsPerNode shards on each of nodes; a node named
// twice counts once. Its generation is 1.
func NewSet(exchange string, nodes []string, shardsPerNode int) *Set {
	return SetOf(exchange, 1, ShardsFor(exchange, &Definition{ShardsPerNode: shardsPerNode}, nodes, nil))
}

// ShardsFor returns the shards that a definition comes to on these nodes, in name
// order. A node named twice counts once.
//
// Shards of a fixed total are spread over the nodes, but those that are in present
// keep the node they have there, while it is one of nodes: their queues are where
// they are, and a node more must not look like a change of every shard. Replicated
// ones have no node.
func ShardsFor(exchange string, d *Definition, nodes []string, present []Shard) []Shard {
	nodes = slices.Clone(nodes)
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	var all []Shard
	if d.Shards > 0 {
		all = fixedShards(exchange, d, nodes, present)
	} else {
		for _, node := range nodes {
			for i := range d.ShardsPerNode {
				all = append(all, Shard{Queue: QueueName(exchange, node, i), Node: node, Index: i})
			}
		}
	}
	slices.SortFunc(all, func(a, b Shard) int { return strings.Compare(a.Queue, b.Queue) })
	return all
}

// fixedShards is ShardsFor for a fixed total.
func fixedShards(exchange string, d *Definition, nodes []string, present []Shard) []Shard {
	if len(nodes) == 0 {
		return nil
	}
	home := make(map[string]string, len(present))
	for _, shard := range present {
		if slices.Contains(nodes, shard.Node) {
			home[shard.Queue] = shard.Node
		}
	}
	all := make([]Shard, d.Shards)
	for i := range all {
		shard := Shard{Queue: QueueNameFixed(exchange, i), Index: i}
		if !d.Replicated() {
			shard.Node = nodes[i%len(nodes)]
			if node, known := home[shard.Queue]; known {
				shard.Node = node
			}
		}
		all[i] = shard
	}
	return all
}

// SetOf returns the set of these shards, which it sorts by name; generation is
// its number.
func SetOf(exchange string, generation uint64, all []Shard) *Set {
	s := &Set{exchange: exchange, generation: generation, shards: slices.Clone(all)}
	slices.SortFunc(s.shards, func(a, b Shard) int { return strings.Compare(a.Queue, b.Queue) })
	s.keys = make([]string, len(s.shards))
	s.index = make(map[string]int, len(s.shards))
	for i, shard := range s.shards {
		s.keys[i] = longestKey(shard.Queue)
		s.index[shard.Queue] = i
	}
	return s
}

// WithGeneration returns the same shards under another generation number.
func (s *Set) WithGeneration(g uint64) *Set {
	c := *s
	c.generation = g
	return &c
}

// Exchange returns the name of the exchange whose shards these are.
func (s *Set) Exchange() string { return s.exchange }

// Generation returns the set's generation number: a later set of the same
// exchange has a higher one.
func (s *Set) Generation() uint64 { return s.generation }

// Len returns the number of shards over all nodes; a nil set has none.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.shards)
}

// At returns shard i, 0 <= i < Len, in name order.
func (s *Set) At(i int) Shard { return s.shards[i] }

// Index returns the place of a queue in the set.
func (s *Set) Index(queue string) (int, bool) {
	i, ok := s.index[queue]
	return i, ok
}

// Has reports whether a queue is in the set.
func (s *Set) Has(queue string) bool {
	_, has := s.index[queue]
	return has
}

// Pick returns the shard for a hash value: h mod Len. The set must not be empty.
func (s *Set) Pick(h uint64) int { return int(h % uint64(len(s.shards))) }

// Key returns the shard key of shard i with that many dot-separated words,
// clamped to 1..MaxWords. It does not allocate.
func (s *Set) Key(i, words int) string {
	words = min(max(words, 1), MaxWords)
	return s.keys[i][:keyLen(words)]
}

// Same reports whether both sets hold the same queues.
func (s *Set) Same(o *Set) bool {
	if s == nil || o == nil {
		return s == o
	}
	return slices.Equal(s.shards, o.shards)
}

// SetError says why a set cannot be used.
type SetError struct {
	Exchange, Queue string
	Reason          string
}

// Error implements error.
func (e *SetError) Error() string {
	return fmt.Sprintf("shards of exchange '%s': queue '%s': %s", e.Exchange, e.Queue, e.Reason)
}

// Validate checks what the broker and the placement rely on, and returns a
// *SetError otherwise: names fit in an AMQP short string, and no two shards have
// the same key (each would get the other's messages too).
func (s *Set) Validate() error {
	if u := Unsharded(s.exchange); len(u) > maxShortString {
		return &SetError{s.exchange, u, nameTooLong(u)}
	}
	owner := make(map[string]string, len(s.shards))
	for i, shard := range s.shards {
		if len(shard.Queue) > maxShortString {
			return &SetError{s.exchange, shard.Queue, nameTooLong(shard.Queue)}
		}
		if shard.Queue == QueueNameFixed(s.exchange, shard.Index) && strings.Contains(s.exchange, " - ") {
			return &SetError{s.exchange, shard.Queue, "with a fixed number of shards it could be a shard of another exchange and one of its nodes; " +
				"use shards-per-node, or an exchange name without ' - '"}
		}
		if other, taken := owner[s.Key(i, 1)]; taken {
			return &SetError{s.exchange, shard.Queue, fmt.Sprintf("its shard key is also that of '%s'; rename the exchange", other)}
		}
		owner[s.Key(i, 1)] = shard.Queue
	}
	return nil
}

func nameTooLong(name string) string {
	return fmt.Sprintf("name of %d bytes is longer than %d; use a shorter exchange name", len(name), maxShortString)
}

const (
	// MaxWords is the highest word count shard keys are made for.
	MaxWords = 16
	// maxShortString is the longest AMQP short string in bytes (AMQP 0-9-1, 4.2.5.3).
	maxShortString = 255

	keyWord    = "shardmq:" // no word users use; also the start of the first word
	keyHexLen  = 16
	keyHeadLen = len(keyWord) + keyHexLen
	queueWord  = "sharding: "
)

// keyLen is the length in bytes of a shard key of that many words.
func keyLen(words int) int { return keyHeadLen + (words-1)*(1+len(keyWord)) }

// longestKey returns the shard key of MaxWords words. It depends on the queue
// name alone, so that bindings stay right when shards are added or removed.
func longestKey(queue string) string {
	h := XXHash([]byte(queue))
	var sum [keyHexLen / 2]byte
	for i := range sum {
		sum[i] = byte(h >> (8 * (len(sum) - 1 - i)))
	}
	return keyWord + hex.EncodeToString(sum[:]) + strings.Repeat("."+keyWord, MaxWords-1)
}

// Words returns how many dot-separated words a shard key for that routing key
// has: dots + 1, at most MaxWords; 1 for the empty key.
func Words(routingKey []byte) int {
	words := 1
	for _, b := range routingKey {
		if b == '.' {
			if words++; words == MaxWords {
				break
			}
		}
	}
	return words
}

// QueueName returns the name of a shard queue, the one the sharding plugin uses.
func QueueName(exchange, node string, index int) string {
	return queueWord + exchange + " - " + node + " - " + strconv.Itoa(index)
}

// QueueNameFixed returns the name of a shard queue of a fixed total.
func QueueNameFixed(exchange string, index int) string {
	return queueWord + exchange + " - " + strconv.Itoa(index)
}

// Unsharded returns the name of the exchange's catch-all exchange.
func Unsharded(exchange string) string { return exchange + unshardedSuffix }
