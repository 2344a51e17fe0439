package shards

// Delivered looks at a message that was delivered from a shard for the first time,
// and counts it as one that came without a shard key if it is certain to be one:
// its shard is the catch-all's, and its routing key belongs to another. It does not
// allocate or block.
//
// Keys that belong to the catch-all's own shard cannot be told apart, so of n shards
// (n-1)/n of such messages are counted. While shards change or are not live nothing
// is: messages are where an earlier State has placed them. Neither is it where
// something else than the whole routing key is hashed.
func (x *Exchange) Delivered(queue string, routingKey []byte) {
	s := x.State()
	if s.Mode != Sharded || s.Set.Len() < 2 || s.Live != nil || s.All != nil || s.Next != nil || s.Set.At(0).Queue != queue {
		return
	}
	p := x.Policy()
	if p.Definition.Hash != HashXX || p.Definition.HashOn.Source != OnRoutingKey {
		return
	}
	if s.Set.Pick(p.HashKey(routingKey)) != 0 {
		x.unsharded.Add(1)
	}
}
