package shards

import "github.com/cespare/xxhash/v2"

// XXHash returns the XXH64 hash (seed 0) of a routing key. It does not allocate.
func XXHash(routingKey []byte) uint64 { return xxhash.Sum64(routingKey) }
