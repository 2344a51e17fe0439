package dispatch

import (
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// headerCut names the headers that a dead letter has no room for.
const headerCut = headerPrefix + "left-out"

// room is what the properties of a message may have, in octets: AMQP has them in one frame. What goes over it costs the
// connection, and the same again when the job comes again.
func (s *session) room() int {
	const (
		frame   = 8 + 14  // around the properties
		publish = 64      // for what the publisher adds
		broker  = 4 << 10 // for what the broker adds after the delay: x-death and its like, with names of up to 255 octets
	)
	if size := s.conn.Config.FrameSize; size > 0 {
		return size - frame - publish - broker
	}
	return 1 << 30
}

// maxLeftOut bounds what a dead letter tells of the headers that it lacks.
const maxLeftOut = 1 << 10

// shorten leaves out a message's longest headers, ours apart, until its properties take no more than room octets.
func shorten(m amqp.Publishing, room int) {
	out := ""
	for propertiesSize(m) > room {
		names := slices.DeleteFunc(slices.Collect(maps.Keys(m.Headers)), func(name string) bool { return strings.HasPrefix(name, headerPrefix) })
		if len(names) == 0 {
			return
		}
		longest := slices.MaxFunc(names, func(a, b string) int { return entrySize(a, m.Headers[a]) - entrySize(b, m.Headers[b]) })
		delete(m.Headers, longest)
		if len(out)+len(longest) < maxLeftOut {
			out = strings.TrimPrefix(out+", "+longest, ", ")
			m.Headers[headerCut] = out
		}
	}
}

// propertiesSize is at least how many octets the properties of a message take.
func propertiesSize(m amqp.Publishing) int {
	n := 1 + 1 + 8 + tableSize(m.Headers) // delivery mode, priority and timestamp
	for _, text := range []string{m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.Expiration, m.MessageId, m.Type, m.UserId, m.AppId} {
		n += 1 + len(text)
	}
	return n
}

func tableSize(t amqp.Table) int {
	n := 4
	for name, v := range t {
		n += entrySize(name, v)
	}
	return n
}

func entrySize(name string, v any) int { return 1 + len(name) + valueSize(v) }

func valueSize(v any) int {
	switch v := v.(type) {
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case amqp.Table:
		return 1 + tableSize(v)
	case []any:
		n := 5
		for _, element := range v {
			n += valueSize(element)
		}
		return n
	}
	return 9 // the longest of the others
}
