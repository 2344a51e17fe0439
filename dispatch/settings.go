package dispatch

import (
	"strings"
	"time"
)

// DefaultDrain is how long requests in flight are waited for at the end.
const DefaultDrain = 30 * time.Second

// Bounds of the delays of retries.
const (
	ShortestDelay = 100 * time.Millisecond
	LongestDelay  = 24 * time.Hour
)

// Settings is what a configuration says of dispatching. It is not changed once it is complete.
type Settings struct {
	Jobs  []*Job // in the order of the configuration; at least one
	Drain time.Duration
	// Files are those that the settings name: certificates, and what secrets were read from.
	Files []string
}

// KnownExchangeType reports whether an exchange can be of that type: one of RabbitMQ's own, or of a plugin.
func KnownExchangeType(kind string) bool {
	switch kind {
	case "direct", "fanout", "topic", "headers":
		return true
	}
	return len(kind) > 2 && len(kind) <= 255 && strings.HasPrefix(kind, "x-")
}
