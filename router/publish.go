package router

import (
	"bytes"
	"fmt"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// publish looks at a basic.publish. The method itself always goes on as it came; what it leads to is remembered on the
// channel, and publishHeader adds the shard keys to the content header that follows.
func (c *Conn) publish(ch *channel, f frames.Frame) Verdict {
	p, ok := frames.ParsePublish(f.Args())
	if !ok {
		return Forward
	}
	ch.keys = ch.keys[:0]
	ch.hashed = ch.hashed[:0]
	if c.dir != nil {
		if v := c.route(ch, f, p); v != Forward {
			return v
		}
	}
	ch.up.wantHeader = true
	ch.confirms.published(1)
	return Forward
}

// route finds the shard keys of a publish. hold: something about the exchange has to be asked first.
func (c *Conn) route(ch *channel, f frames.Frame, p frames.Publish) Verdict {
	if len(p.Exchange) == 0 {
		if r := c.dir.Lookup(p.RoutingKey); r != nil && r.Exchange != nil && r.Exchange != ch.unsure {
			return c.spread(ch, f, r.Exchange)
		}
		return Forward
	}
	r := c.routeOf(p.Exchange)
	if r == nil {
		return Forward
	}
	if r.Exchange != nil {
		if c.stale(ch, r.Exchange) { // the broker's 404, unless somebody else has made it meanwhile
			return c.redo(ch, f, Ask{Kind: AskResolve, Exchange: r.Exchange, Force: true})
		}
		if v := c.shard(ch, f, r.Exchange, p.RoutingKey); v == hold {
			return hold
		}
	}
	for _, x := range r.Feeds {
		if v := c.shard(ch, f, x, p.RoutingKey); v == hold {
			return hold
		}
	}
	return Forward
}

// routeOf looks an exchange's name up, which most often is that of the publish before.
func (c *Conn) routeOf(exchange []byte) *shards.Route {
	if !bytes.Equal(exchange, c.lastName) {
		c.lastRoute = c.dir.Lookup(exchange)
		c.lastName = append(c.lastName[:0], exchange...)
	}
	return c.lastRoute
}

// plainKey is the shard key of a sharded exchange for a routing key where nothing stands in its way; ok is false when shard has to see to it.
func (ch *channel) plainKey(x *shards.Exchange, key []byte) (shardKey string, ok bool) {
	st := x.State()
	if st.Mode != shards.Sharded || st.Paused {
		return "", st.Mode == shards.Plain
	}
	p := x.Policy()
	words := shards.Words(key)
	if st.Words&(1<<(words-1)) == 0 || p.HashNeed() != shards.NeedNothing {
		return "", false
	}
	ch.writes(p)
	return st.Set.Key(st.Place(p.HashKey(key)), words), true
}

// shard adds the shard key of one sharded exchange for the routing key.
func (c *Conn) shard(ch *channel, f frames.Frame, x *shards.Exchange, key []byte) Verdict {
	st := x.State()
	switch st.Mode {
	case shards.Unknown:
		return c.redo(ch, f, Ask{Kind: AskResolve, Exchange: x})
	case shards.Sharded:
	case shards.Native:
		ch.native = x
		return Forward // the broker spreads by itself
	default:
		return Forward
	}
	if st.Paused {
		return c.pause(ch, x)
	}
	p := x.Policy()
	ch.writes(p)
	words := shards.Words(key)
	if st.Words&(1<<(words-1)) == 0 {
		return c.redo(ch, f, Ask{Kind: AskBindWords, Exchange: x, Words: words})
	}
	if need := p.HashNeed(); need != shards.NeedNothing {
		ch.hashed = append(ch.hashed, placing{st: st, policy: p, need: need})
		ch.pending = append(ch.pending[:0], key...)
		return Forward
	}
	ch.keys = append(ch.keys, st.Set.Key(st.Place(p.HashKey(key)), words))
	return Forward
}

// spread names one shard queue for a publish to a pseudo-queue through the default exchange.
func (c *Conn) spread(ch *channel, f frames.Frame, x *shards.Exchange) Verdict {
	st := x.State()
	// When only a pattern matches, the name most likely is an ordinary queue's, and publishing to it must not stop each time.
	if _, literal := x.Policy().Literal(); st.Mode == shards.Unknown || literal && c.stale(ch, x) {
		return c.resolve(ch, f, x)
	}
	if st.Set == nil || st.Set.Len() == 0 {
		return Forward
	}
	if st.Paused {
		return c.pause(ch, x)
	}
	if st.RealQueue { // it would get a copy, which nobody reads: consumers of that name get the shards
		return c.refuse(ch, f, frames.PreconditionFailed, fmt.Sprintf("cannot publish to pseudo-queue '%s' in vhost '%s' through the default exchange: "+
			"there is a queue of that name too; delete it, or take the policy '%s' off the name", x.Name, x.Vhost, x.Policy().Name))
	}
	if st.LiveLen() == 0 && ch.asked != x { // no shard is there: make them
		return c.redo(ch, f, Ask{Kind: AskResolve, Exchange: x, Force: true})
	}
	p := x.Policy()
	ch.writes(p)
	switch need := p.HashNeed(); need {
	case shards.NeedHeader, shards.NeedMessageID, shards.NeedCorrelationID:
		ch.hashed = append(ch.hashed, placing{st: st, policy: p, need: need, spread: x})
	default: // the routing key is the pseudo-queue's name, the same for all
		ch.keys = append(ch.keys, nextQueue(x, st))
	}
	return Forward
}

// nextQueue is the shard whose turn it is. With none live the broker decides what becomes of the message.
func nextQueue(x *shards.Exchange, st *shards.State) string {
	return st.Set.At(max(x.NextSpread(st), 0)).Queue
}

// publishHeader forwards a content header, with the shard keys of its publish added to BCC.
func (c *Conn) publishHeader(ch *channel, f frames.Frame) Verdict {
	if !ch.up.wantHeader {
		return Forward // out of order: the broker answers 505
	}
	ch.up.header(f)
	v := c.addKeys(ch, f)
	if ch.dirty && !ch.up.active() {
		c.kick(ch) // no body will tell that the content is complete
	}
	return v
}

// addKeys writes the header anew with the shard keys its publish has led to, if any.
func (c *Conn) addKeys(ch *channel, f frames.Frame) Verdict {
	if len(ch.hashed) > 0 {
		c.place(ch, f)
	}
	if len(ch.keys) == 0 {
		return Forward
	}
	before := len(c.up)
	out, changed := frames.AppendHeaderBCC(c.up, f, ch.keys...)
	if !changed {
		return Forward // BCC or CC of another type: the broker refuses it
	}
	c.up = out
	if n := len(out) - before; c.limits.broker > 0 && n > int(c.limits.broker) {
		c.up = out[:before]
		c.RaiseConnection(&frames.Exception{Code: frames.FrameError, Method: frames.BasicPublishID,
			Text: "content header too large to add the shard key within the broker's frame_max"})
	}
	return Drop
}
