package frames

import (
	"encoding/binary"
	"slices"
)

// Publish is what matters of basic.publish (60, 40). The slices borrow the frame.
type Publish struct {
	Exchange, RoutingKey []byte
	Mandatory, Immediate bool
}

// ParsePublish reads the arguments of basic.publish; ok is false when they are malformed. No allocation.
func ParsePublish(args []byte) (p Publish, ok bool) {
	// Layout: 2 octets ticket, exchange, routing key, 1 octet of bits.
	if len(args) < 5 {
		return p, false
	}
	x := 3 + int(args[2])
	if len(args) < x+2 {
		return p, false
	}
	k := x + 1 + int(args[x])
	if len(args) != k+1 {
		return p, false
	}
	return Publish{
		Exchange:   args[3:x:x],
		RoutingKey: args[x+1 : k : k],
		Mandatory:  args[k]&1 != 0,
		Immediate:  args[k]&2 != 0,
	}, true
}

// Deliver is basic.deliver (60, 60). The slices borrow the frame.
type Deliver struct {
	ConsumerTag          []byte
	DeliveryTag          uint64
	Redelivered          bool
	Exchange, RoutingKey []byte
}

// ParseDeliver reads the arguments of basic.deliver; ok is false when they are malformed. No allocation.
func ParseDeliver(args []byte) (d Deliver, ok bool) {
	// Layout: consumer tag, 8 octets delivery tag, 1 octet of bits, exchange, routing key.
	if len(args) < 12 {
		return d, false
	}
	t := 1 + int(args[0])
	if len(args) < t+11 {
		return d, false
	}
	x := t + 10 + int(args[t+9])
	if len(args) <= x {
		return d, false
	}
	k := x + 1 + int(args[x])
	if len(args) != k {
		return d, false
	}
	return Deliver{
		ConsumerTag: args[1:t:t],
		DeliveryTag: binary.BigEndian.Uint64(args[t:]),
		Redelivered: args[t+8]&1 != 0,
		Exchange:    args[t+10 : x : x],
		RoutingKey:  args[x+1 : k : k],
	}, true
}

// AppendDeliverWithTag appends to dst the basic.deliver frame f with tag as its consumer tag and every other octet as
// received. A tag over 255 octets is cut. When f is no basic.deliver, or too short to hold its tag, it is appended as it
// is. dst must not overlap f. It allocates only to grow dst.
func AppendDeliverWithTag(dst []byte, f Frame, tag string) []byte {
	args := f.Args()
	if f.Method() != BasicDeliverID || len(args) == 0 || len(args) < 1+int(args[0]) {
		return append(dst, f...)
	}
	return AppendDeliveryWithTag(dst, f, cut(tag, maxShortstr))
}

// AppendDeliveryWithTag is AppendDeliverWithTag for a basic.deliver that is as it should be, as ScanDelivery finds it, and what of its content stands
// behind it in b. The tag must not have more than 255 octets.
func AppendDeliveryWithTag(dst, b []byte, tag string) []byte {
	old := int(b[argsAt])
	dst = slices.Grow(dst, len(b)-old+len(tag))
	start := len(dst)
	dst = append(dst, b[:argsAt]...)
	binary.BigEndian.PutUint32(dst[start+3:], uint32(int(binary.BigEndian.Uint32(b[3:]))+len(tag)-old)) // of b: what has just been copied is slow to read
	dst = append(dst, byte(len(tag)))
	dst = append(dst, tag...)
	return append(dst, b[argsAt+1+old:]...)
}

// Ack is basic.ack (60, 80), basic.nack (60, 120) or basic.reject (60, 90). Multiple is false for a reject, Requeue for an
// ack.
type Ack struct {
	DeliveryTag       uint64
	Multiple, Requeue bool
}

// ParseAck reads the arguments of the method id, which must be basic.ack, basic.nack or basic.reject; ok is false for
// others and when the arguments are malformed. No allocation.
func ParseAck(id MethodID, args []byte) (a Ack, ok bool) {
	if len(args) != 9 {
		return a, false
	}
	a.DeliveryTag = binary.BigEndian.Uint64(args)
	bits := args[8]
	switch id {
	case BasicAckID:
		a.Multiple = bits&1 != 0
	case BasicNackID:
		a.Multiple, a.Requeue = bits&1 != 0, bits&2 != 0
	case BasicRejectID:
		a.Requeue = bits&1 != 0
	default:
		return Ack{}, false
	}
	return a, true
}
