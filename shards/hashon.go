package shards

import "regexp"

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
