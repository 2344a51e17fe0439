package shards

import (
	"regexp"
	"unsafe"

	lru "github.com/hashicorp/golang-lru/v2"
)

// captureCacheSize bounds the routing keys whose captured part is remembered:
// routing keys come from clients, so their number has no other bound.
const captureCacheSize = 8192

// HashSource names the part of a message that is hashed.
type HashSource uint8

const (
	// OnRoutingKey is the whole routing key.
	OnRoutingKey HashSource = iota
	// OnCapture is what a group of a regular expression captures in the routing key.
	OnCapture
	// OnHeader is the value of a header.
	OnHeader
	// OnMessageID is the property message-id.
	OnMessageID
	// OnCorrelationID is the property correlation-id.
	OnCorrelationID
)

// HashOn says what of a message is hashed. A message without it goes by its
// routing key. The zero value is the routing key.
type HashOn struct {
	Source HashSource
	Header string         // OnHeader: the header's name
	Re     *regexp.Regexp // OnCapture: its first group counts
}

// same reports whether both place every message alike.
func (h *HashOn) same(o *HashOn) bool {
	return h.Source == o.Source && h.Header == o.Header && h.expression() == o.expression()
}

func (h *HashOn) expression() string {
	if h.Re == nil {
		return ""
	}
	return h.Re.String()
}

// problem returns what is wrong with it.
func (h *HashOn) problem() string {
	switch {
	case h.Source > OnCorrelationID:
		return "is unknown; use message-id, correlation-id, a header or a part of the routing key"
	case h.Source == OnHeader && h.Header == "":
		return "names no header"
	case h.Source == OnHeader && len(h.Header) > maxShortString:
		return "names a header longer than the 255 bytes that are possible"
	case h.Source == OnCapture && h.Re == nil:
		return "has no expression for the part of the routing key"
	case h.Source == OnCapture && h.Re.NumSubexp() != 1:
		return "needs an expression with exactly one group in parentheses, which is what counts (use (?:...) for others)"
	}
	return ""
}

// HashNeed is what placing a message takes beside its basic.publish.
type HashNeed uint8

const (
	// NeedNothing: Policy.HashKey tells.
	NeedNothing HashNeed = iota
	// NeedKeys: the keys in the header's CC and BCC, for PhashState.
	NeedKeys
	// NeedHeader: the header HashOn.Header, for Policy.HashValue.
	NeedHeader
	// NeedMessageID and NeedCorrelationID: that property, for Policy.HashValue.
	NeedMessageID
	NeedCorrelationID
)

// HashNeed says what it takes to place a message of an exchange of this policy.
func (p *Policy) HashNeed() HashNeed {
	d := &p.Definition
	switch d.HashOn.Source {
	case OnHeader:
		return NeedHeader
	case OnMessageID:
		return NeedMessageID
	case OnCorrelationID:
		return NeedCorrelationID
	case OnRoutingKey:
		if d.Hash == HashPhash2 {
			return NeedKeys
		}
	}
	return NeedNothing
}

// HashKey returns the hash value that a routing key places a message by: of the
// captured part if there is one (OnCapture), else of all of it. It is also what
// messages go by that lack the header or property of the policy. It does not
// allocate for keys seen lately.
func (p *Policy) HashKey(routingKey []byte) uint64 {
	if p.captures == nil {
		return p.HashValue(routingKey)
	}
	// Get keeps no key, so it can look at the caller's octets.
	if h, ok := p.captures.Get(unsafe.String(unsafe.SliceData(routingKey), len(routingKey))); ok {
		return h
	}
	part := routingKey
	if m := p.Definition.HashOn.Re.FindSubmatchIndex(routingKey); m != nil && m[2] >= 0 {
		part = routingKey[m[2]:m[3]]
	}
	h := p.HashValue(part)
	p.captures.Add(string(routingKey), h)
	return h
}

// HashValue returns the hash of one value: with phash2 as a list of that one
// element. It does not allocate.
func (p *Policy) HashValue(value []byte) uint64 {
	if p.Definition.Hash == HashPhash2 {
		return uint64(PhashState(0).Add(value).Sum())
	}
	return XXHash(value)
}

// remember readies the policy for HashKey.
func (p *Policy) remember() {
	if p.Definition.HashOn.Source == OnCapture {
		p.captures, _ = lru.New[string, uint64](captureCacheSize) // fails for a size that is not positive only
	}
}
