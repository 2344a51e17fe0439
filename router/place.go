package router

import (
	"encoding/binary"
	"strconv"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// placing is a shard that a publish still needs, once its content header is there. State and policy are those the method has met: a
// message is placed by one of each.
type placing struct {
	st     *shards.State
	policy *shards.Policy
	need   shards.HashNeed
	spread *shards.Exchange // published through the default exchange: the shard is named as a queue; nil otherwise
}

// place finds the shard keys that depend on the content header: exchanges hashed with phash2 over routing key, CC and BCC, as RabbitMQ's
// x-modulus-hash does, and those hashed on a header or a property.
func (c *Conn) place(ch *channel, f frames.Frame) {
	head, _ := frames.ParseContentHeader(f.Payload())
	words := shards.Words(ch.pending)
	for i := range ch.hashed {
		p := &ch.hashed[i]
		if p.need == shards.NeedKeys {
			ch.keys = append(ch.keys, p.st.Set.Key(p.st.Place(hashKeys(ch.pending, head)), words))
			continue
		}
		value, found := c.hashedOn(p, head)
		switch {
		case p.spread == nil && !found:
			ch.keys = append(ch.keys, p.st.Set.Key(p.st.Place(p.policy.HashKey(ch.pending)), words))
		case p.spread == nil:
			ch.keys = append(ch.keys, p.st.Set.Key(p.st.Place(p.policy.HashValue(value)), words))
		case !found:
			ch.keys = append(ch.keys, nextQueue(p.spread, p.st))
		default:
			ch.keys = append(ch.keys, p.st.Set.At(p.st.Place(p.policy.HashValue(value))).Queue)
		}
	}
}

func hashKeys(key []byte, head frames.ContentHeader) uint64 {
	var h shards.PhashState
	h = h.Add(key)
	add := func(k []byte) bool { h = h.Add(k); return true }
	head.Headers.RoutingKeys("CC", add)
	head.Headers.RoutingKeys("BCC", add)
	return uint64(h.Sum())
}

// hashedOn reads the part of a content header that the policy hashes. Numbers and truth values count as their text, so that it does not matter
// which of the many integer types a client library picks; ok is false for other types.
func (c *Conn) hashedOn(p *placing, head frames.ContentHeader) (value []byte, ok bool) {
	switch p.need {
	case shards.NeedMessageID:
		return head.MessageID()
	case shards.NeedCorrelationID:
		return head.CorrelationID()
	}
	kind, v, ok := head.Headers.Lookup(p.policy.Definition.HashOn.Header)
	if !ok {
		return nil, false
	}
	var n int64
	switch kind {
	case 'S':
		return v[4:], true
	case 't':
		c.scratch = strconv.AppendBool(c.scratch[:0], v[0] != 0)
		return c.scratch, true
	case 'b':
		n = int64(int8(v[0]))
	case 'B':
		n = int64(v[0])
	case 's':
		n = int64(int16(binary.BigEndian.Uint16(v)))
	case 'u':
		n = int64(binary.BigEndian.Uint16(v))
	case 'I':
		n = int64(int32(binary.BigEndian.Uint32(v)))
	case 'i':
		n = int64(binary.BigEndian.Uint32(v))
	case 'l', 'L':
		n = int64(binary.BigEndian.Uint64(v))
	default:
		return nil, false
	}
	c.scratch = strconv.AppendInt(c.scratch[:0], n, 10)
	return c.scratch, true
}
