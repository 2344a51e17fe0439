package frames

import (
	"encoding/binary"
	"math"
	"slices"
)

// A message as a publisher or a broker sends it most often, method, header and body frames one behind the other, can be looked at as a whole.

// Message is where the parts of a whole message lie: offsets from its start. It has as many fields as the compiler keeps in registers.
type Message struct {
	Key    int // the length octet of the routing key
	Header int // the header frame
	Body   int // the body frames
	End    int // what follows on the message
}

// PublishExchange is where in a basic.publish frame the length octet of the exchange's name stands: behind the ticket.
const PublishExchange = argsAt + 2

// DeliverTag is where in a basic.deliver frame the length octet of the consumer tag stands.
const DeliverTag = argsAt

// DeliverNumber is where in a basic.deliver frame the eight octets of the delivery tag begin, which redelivered follows on, and then the exchange's name.
func DeliverNumber(b []byte) int { return DeliverTag + 1 + int(b[DeliverTag]) }

// DeliverExchange is where in a basic.deliver frame the length octet of the exchange's name stands.
func DeliverExchange(b []byte) int { return DeliverNumber(b) + 8 + 1 }

// Shortstr is the short string whose length octet stands at offset at of b, which is borrowed and must hold it.
func Shortstr(b []byte, at int) []byte { return b[at+1 : at+1+int(b[at])] }

// argsAt is where a method frame's arguments begin: behind head and id.
const argsAt = HeadSize + 4

// lead is a frame's first eight octets, which every frame has, as one number: type and channel are compared at once.
func lead(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// leadOf is what lead(b)>>40 is for frames of that type on that channel.
func leadOf(kind byte, channel uint16) uint64 { return uint64(kind)<<16 | uint64(channel) }

// ScanPublish finds the parts of the message at the start of b, which must be a basic.publish by its id. ok is false when it is not all there, or when
// anything about its frames is not as it should be: looked at one by one, they tell. No payload may have more than most octets; 0: no
// limit. No allocation.
func ScanPublish(b []byte, most uint32) (m Message, ok bool) {
	if len(b) <= PublishExchange {
		return m, false
	}
	const bits = 1
	return scanMessage(b, PublishExchange, bits, most)
}

// ScanDelivery is ScanPublish for a basic.deliver. The limit is that of its body frames and of its header frame.
func ScanDelivery(b []byte, most uint32) (m Message, ok bool) {
	if len(b) <= argsAt {
		return m, false
	}
	exchange := DeliverExchange(b)
	if exchange >= len(b) {
		return m, false
	}
	return scanMessage(b, exchange, 0, most)
}

// scanMessage finds the parts of a message from its exchange's name on. behind is how many octets of arguments follow on the routing key.
func scanMessage(b []byte, exchange, behind int, most uint32) (m Message, ok bool) {
	key := exchange + 1 + int(b[exchange])
	if key >= len(b) {
		return m, false
	}
	end := key + 1 + int(b[key]) + behind // the method frame's end octet
	if len(b) < end+1+Overhead+minContent || b[end] != End {
		return m, false
	}
	method, header := lead(b), lead(b[end+1:])
	size := uint32(header >> 8)
	if uint64(uint32(method>>8)) != uint64(end-HeadSize) || header>>40 != method>>40+leadOf(TypeHeader-TypeMethod, 0) || size < minContent {
		return m, false
	}
	if most == 0 {
		most = math.MaxUint32
	}
	m = Message{Key: key, Header: end + 1, Body: end + 1 + int(size) + Overhead}
	if max(uint32(end-HeadSize), size) > most || uint64(size)+Overhead > uint64(len(b)-m.Header) || b[m.Body-1] != End {
		return m, false
	}
	body := method>>40 + leadOf(TypeBody-TypeMethod, 0)
	m.End = m.Body
	for left := binary.BigEndian.Uint64(b[m.Header+HeadSize+4:]); left > 0; {
		rest := b[m.End:]
		if len(rest) < Overhead {
			return m, false
		}
		head := lead(rest)
		size := uint32(head >> 8) // 0 is too large, less one
		whole := uint64(size) + Overhead
		if head>>40 != body || size-1 >= most || uint64(size) > left || whole > uint64(len(rest)) || rest[whole-1] != End {
			return m, false
		}
		left -= uint64(size)
		m.End += int(whole)
	}
	return m, true
}

// AppendMessageBCC appends to dst the first n octets of the message m at the start of b, with key added to BCC as AppendHeaderBCC does: it says when
// changed is false and what grows. n is m.Body or more.
func AppendMessageBCC(dst, b []byte, m Message, n int, key string) (out []byte, changed bool) {
	header := Frame(b[m.Header:m.Body:m.Body])
	at := bccSpot(header)
	if at == 0 {
		start := len(dst)
		dst = append(dst, b[:m.Header]...)
		if dst, changed = AppendHeaderBCC(dst, header, key); !changed {
			return dst[:start], false
		}
		return append(dst, b[m.Body:n]...), true
	}
	at += m.Header
	room := 5 + len(key)
	grown := 4 + bccEntry + room
	start := len(dst)
	dst = slices.Grow(dst, n+grown)[:start+n+grown]
	message := dst[start:]
	copy(message, b[:at])
	// What is written anew is read from b: reading what has just been copied waits for the copy.
	binary.BigEndian.PutUint32(message[m.Header+3:], binary.BigEndian.Uint32(b[m.Header+3:])+uint32(grown))
	message[m.Header+HeadSize+contentFixed] = b[m.Header+HeadSize+contentFixed] | byte(FlagHeaders>>8)
	table := message[at:]
	binary.BigEndian.PutUint32(table, uint32(grown-4))
	copy(table[4:], "\x03BCCA")
	binary.BigEndian.PutUint32(table[9:], uint32(room))
	table[13] = 'S'
	binary.BigEndian.PutUint32(table[14:], uint32(len(key)))
	copy(table[18:], key)
	copy(table[4+bccEntry+room:], b[at:n])
	return dst, true
}

// bccSpot is where in a header frame a headers table goes that it does not have yet; 0: it has one, or is not as it should be.
func bccSpot(f Frame) int {
	flags := binary.BigEndian.Uint16(f[HeadSize+contentFixed:])
	if flags&(FlagHeaders|flagMore) != 0 {
		return 0
	}
	if _, at := propertyOffsets(f.Payload()); at > 0 {
		return HeadSize + at
	}
	return 0
}
