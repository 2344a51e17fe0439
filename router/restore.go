package router

import (
	"bytes"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// A shard key makes a headers table where the publisher sent none, or fills an empty one, and the broker, which removes BCC before
// delivery, leaves an empty table behind. The content header of every message that carried a shard key is
// therefore restored on its way to a client; frames.AppendHeaderBCC says how the two cases are told apart.

// restores decides, from the method in front of a content, whether a shard key was added to the message when it was published.
func (c *Conn) restores(exchange, key []byte) bool {
	if c.dir == nil {
		return false
	}
	if len(exchange) == 0 {
		r := c.dir.Lookup(key)
		return r != nil && r.Exchange != nil && r.Exchange.State().Set != nil && !r.Exchange.State().RealQueue
	}
	if !bytes.Equal(exchange, c.downName) {
		c.downRoute = c.dir.Lookup(exchange)
		c.downName = append(c.downName[:0], exchange...)
	}
	r := c.downRoute
	if r == nil {
		return false
	}
	if r.Exchange != nil && r.Exchange.State().Mode == shards.Sharded {
		return true
	}
	for _, x := range r.Feeds {
		if x.State().Mode == shards.Sharded {
			return true
		}
	}
	return false
}

// restoreHeader appends the header frame to the client's octets as the publisher sent it, and reports whether it did: false means
// that the frame is right as it is.
func (c *Conn) restoreHeader(ch *channel, f frames.Frame) bool {
	if c.dir == nil {
		return false
	}
	out, changed := frames.AppendHeaderRestored(c.down, f, ch.emptied)
	if changed {
		c.down = out
	}
	return changed
}

// Fresh drops what was remembered of exchanges for the frames of one read: a policy or an exchange may have changed since.
func (c *Conn) Fresh() {
	c.lastName, c.downName = c.lastName[:0], c.downName[:0]
	c.lastRoute, c.downRoute = nil, nil
}
