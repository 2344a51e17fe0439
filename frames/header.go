package frames

import "encoding/binary"

// contentFixed is what a content header has before its properties: class, weight, body size (section 4.2.6.1).
const contentFixed = 12

// minContent adds the first word of property flags.
const minContent = contentFixed + 2

// flagMore says that another word of property flags follows. RabbitMQ never reads a second word, and class basic has no
// property in one, but the words must be stepped over to find the first property.
const flagMore uint16 = 1

// fieldKind is how a property is encoded.
type fieldKind uint8

const (
	kindShortstr fieldKind = iota
	kindTable
	kindOctet
	kindTimestamp
)

// ContentHeader is a view of a content header of class basic. It borrows the payload it was parsed from.
type ContentHeader struct {
	Class uint16
	// BodySize is the number of body octets that follow in body frames.
	BodySize uint64
	// Flags is the first word of property flags; see the Flag constants.
	Flags uint16
	// Headers is the headers table; HasHeaders tells an empty one from a missing one.
	Headers    Table
	HasHeaders bool

	payload []byte
	first   int // offset in payload of the first property
	after   int // offset behind the headers table, or where it would stand
}

// ParseContentHeader reads the payload of a header frame up to and including the headers table. Properties behind it are
// read when asked for, the table's entries not at all. ok is false when what it reads is malformed or the class is not
// basic. No allocation.
func ParseContentHeader(payload []byte) (h ContentHeader, ok bool) {
	first, at := propertyOffsets(payload)
	if at < 0 {
		return h, false
	}
	h = ContentHeader{
		Class:    binary.BigEndian.Uint16(payload),
		BodySize: binary.BigEndian.Uint64(payload[4:]),
		Flags:    binary.BigEndian.Uint16(payload[contentFixed:]),
		payload:  payload,
		first:    first,
		after:    at,
	}
	if h.Flags&FlagHeaders == 0 {
		return h, true
	}
	size := valueSize('F', payload[at:])
	if size < 0 {
		return ContentHeader{}, false
	}
	h.HasHeaders = true
	h.after = at + size
	h.Headers = Table(payload[at+4 : h.after : h.after])
	return h, true
}

// propertyOffsets is where in a content header's payload the first property and the headers table's length octets stand or
// would stand; table is -1 when the payload is malformed before it or its class is not basic.
func propertyOffsets(payload []byte) (first, table int) {
	if len(payload) < minContent || binary.BigEndian.Uint16(payload) != uint16(BasicPublishID>>16) {
		return 0, -1
	}
	flags := binary.BigEndian.Uint16(payload[contentFixed:])
	at := minContent
	for more := flags; more&flagMore != 0; at += 2 {
		if len(payload) < at+2 {
			return 0, -1
		}
		more = binary.BigEndian.Uint16(payload[at:])
	}
	first = at
	// Content type and content encoding are all that can stand before the table.
	for f := FlagContentType; f > FlagHeaders; f >>= 1 {
		if flags&f == 0 {
			continue
		}
		if len(payload) <= at || len(payload) < at+1+int(payload[at]) {
			return 0, -1
		}
		at += 1 + int(payload[at])
	}
	return first, at
}

// HasTable reports whether f, a header frame, announces a headers table.
func (f Frame) HasTable() bool {
	return len(f) >= Overhead+minContent && f[HeadSize+contentFixed]&byte(FlagHeaders>>8) != 0
}

// ContentBodySize is the body size in a content header's payload, of whatever class; ok is false when the payload is too
// short to be a content header.
func ContentBodySize(payload []byte) (size uint64, ok bool) {
	if len(payload) < minContent {
		return 0, false
	}
	return binary.BigEndian.Uint64(payload[4:]), true
}

// Property is the value of the property with that flag, which must be one of the Flag constants: a short string without
// its length octet, a table without its length octets, one octet, or the eight octets of a timestamp. ok is false when
// the property is missing, or the header is malformed before its end. The value borrows the payload.
func (h ContentHeader) Property(flag uint16) (value []byte, ok bool) {
	if h.Flags&flag == 0 {
		return nil, false
	}
	i, at := 3, h.after // what stands before the table was parsed already
	switch {
	case flag == FlagHeaders:
		return h.Headers, true
	case flag > FlagHeaders:
		i, at = 0, h.first
	}
	for ; i < len(basicProperties); i++ {
		f := FlagContentType >> i
		if h.Flags&f == 0 {
			continue
		}
		value, next := property(basicProperties[i], h.payload, at)
		if next < 0 {
			return nil, false
		}
		if f == flag {
			return value, true
		}
		at = next
	}
	return nil, false
}

// property reads one property at offset at; next is the offset behind it, -1 when it is cut short.
func property(kind fieldKind, payload []byte, at int) (value []byte, next int) {
	size, skip := 1, 0
	switch kind {
	case kindShortstr:
		if at >= len(payload) {
			return nil, -1
		}
		size, skip = 1+int(payload[at]), 1
	case kindTimestamp:
		size = 8
	}
	next = at + size
	if next > len(payload) {
		return nil, -1
	}
	return payload[at+skip : next : next], next
}

// MessageID is the message-id property; ok as in Property.
func (h ContentHeader) MessageID() (id []byte, ok bool) { return h.Property(FlagMessageID) }

// CorrelationID is the correlation-id property; ok as in Property.
func (h ContentHeader) CorrelationID() (id []byte, ok bool) { return h.Property(FlagCorrelationID) }
