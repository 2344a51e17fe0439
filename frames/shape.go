package frames

import (
	"encoding/binary"
	"unsafe"
)

// Shape is what a message has in common with others that differ from it in nothing but contents: octets behind a prefix, delivery tags, names of the same
// length, properties and bodies of the same size. To see that the next message has the shape of the last takes loads that do not wait for one
// another, as those do that find each frame by the length of the one before it, and one branch for all.
type Shape struct {
	prefix []byte // the first octets of all
	// Where things are in a message. Offsets and values are those of same.
	header, body, end, last, exchange, key int

	first, begin, class, flags, data, tail uint64
	name, routing                          byte
}

// ShapeOf returns the shape of the message m at the start of b, which is borrowed; all of that shape have its first octets up to prefix, eight or more,
// in common. exchange is where its length octet stands. ok is false when it has no body or a body of several frames.
func (m Message) ShapeOf(b []byte, prefix, exchange int) (s Shape, ok bool) {
	b = b[:m.End]
	size := binary.BigEndian.Uint64(b[m.Header+HeadSize+4:])
	if size == 0 || uint64(m.End-m.Body) != size+Overhead {
		return s, false
	}
	s = Shape{prefix: b[:prefix], header: m.Header - 1, body: m.Body - 1, end: m.End, last: prefix - 8, exchange: exchange, key: m.Key}
	// Bounds are checked here, for same.
	s.first, s.tail = native(b), native(b[s.last:])
	s.begin, s.class, s.flags = native(b[s.header:]), native(b[s.header+classAt:]), native(b[s.header+flagsAt:])
	s.data, s.name, s.routing = native(b[s.body:]), b[exchange], b[m.Key]
	return s, b[m.End-1] == End
}

// What same looks at in a header frame, from the end octet of the frame before it on, which makes one number with the head; so do class, weight and
// the begin of the body size, and its end and the flags.
const (
	classAt = 1 + HeadSize
	flagsAt = classAt + minContent - 8
)

// Next reports whether b begins with a message of the shape. No allocation.
func (s *Shape) Next(b []byte) bool {
	return len(b) >= s.end && s.same(unsafe.Pointer(unsafe.SliceData(b)))
}

// Count is how many messages of the shape there are at the start of b, one behind the other. No allocation.
func (s *Shape) Count(b []byte) (n int) {
	message := unsafe.Pointer(unsafe.SliceData(b))
	for left := len(b) - s.end; left >= 0 && s.same(message); left -= s.end {
		n++
		if left == 0 {
			return n // a pointer behind the last octet would keep alive what lies there
		}
		message = unsafe.Add(message, s.end)
	}
	return n
}

// same reports whether the octets at message, s.end or more of them, are of the shape. Most of what a publish costs is here: checks of bounds, which ShapeOf
// has made once for all, would triple that.
func (s *Shape) same(message unsafe.Pointer) bool {
	header := unsafe.Add(message, s.header)
	differ := (wordAt(header, 0) ^ s.begin) | (wordAt(header, classAt) ^ s.class) | (wordAt(header, flagsAt) ^ s.flags) |
		(wordAt(message, s.body) ^ s.data) | uint64(octetAt(message, s.end-1)^End) |
		uint64(octetAt(message, s.exchange)^s.name) | uint64(octetAt(message, s.key)^s.routing) |
		(wordAt(message, 0) ^ s.first) | (wordAt(message, s.last) ^ s.tail)
	prefix := unsafe.Pointer(unsafe.SliceData(s.prefix))
	for at := 8; at < s.last; at += 8 {
		differ |= wordAt(prefix, at) ^ wordAt(message, at)
	}
	return differ == 0
}

// wordAt is the eight octets at an offset, as native reads them.
func wordAt(p unsafe.Pointer, offset int) uint64 { return *(*uint64)(unsafe.Add(p, offset)) }

func octetAt(p unsafe.Pointer, offset int) byte { return *(*byte)(unsafe.Add(p, offset)) }

func native(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
