package frames

import (
	"encoding/binary"
	"math"
	"slices"
)

// AppendHeaderBCC appends to dst the content header frame f with keys added at the end of the array BCC in its headers
// table (RabbitMQ's sender-selected distribution). The array, the table and its flag are made when they are missing; every
// other octet, CC included, stays as received. Of several BCC entries the first is extended: RabbitMQ reads no other.
//
// changed is false, and dst is returned as it came, when there is nothing to add or nothing that can be added to: BCC or CC
// is no array, f is no content header of class basic, it is malformed up to the table's end, or its flags announce a second
// word. (The specification puts that word before the first property, RabbitMQ reads the properties at once: no edit is
// right for both.) Forward f then as it came: the broker answers. Properties behind the table and values nested in its
// other entries are not looked at.
//
// The frame grows by 5 octets and the key's length per key, 8 for a new array, up to 4 for a new table. No limit of
// frame_max is checked. dst must not overlap f. It allocates only to grow dst.
//
// RabbitMQ removes BCC and leaves an empty table where it was the only entry, so that a message published without headers and
// one with an empty table would look alike when they are delivered. A table that was there and holds nothing but BCC
// therefore gets the entry EmptyMarker too (11 octets); AppendHeaderRestored undoes both.
func AppendHeaderBCC(dst []byte, f Frame, keys ...string) (out []byte, changed bool) {
	if len(keys) == 0 || len(f) < Overhead+minContent || f[0] != TypeHeader {
		return dst, false
	}
	e := bccEdit{frame: f, keys: keys}
	for _, k := range keys {
		e.room += 5 + len(k)
	}
	if !e.locate() || uint64(len(f)+e.room+2*bccEntry) > math.MaxUint32 {
		return dst, false
	}
	return e.append(dst), true
}

// EmptyMarker is the name of an entry without value that stands for "there was a headers table, and it was empty".
const EmptyMarker = "x-shardmq"

// markerEntry is its size: name, type octet.
const markerEntry = 1 + len(EmptyMarker) + 1

// bccEntry is the size of an entry BCC with an empty array: name, type octet, length octets.
const bccEntry = 1 + len("BCC") + 1 + 4

// bccEdit is one edit. Offsets count from the start of the frame; 0 is "not there".
type bccEdit struct {
	frame Frame
	keys  []string
	room  int // octets that the keys take as array elements

	table  int  // length octets of the headers table
	array  int  // length octets of the BCC array
	insert int  // where the new octets go in
	others bool // the table has entries other than BCC
	mark   int  // octets that EmptyMarker takes, 0 when it is not needed
}

// locate finds the places to edit in one pass over the table's entries, false when the frame must stay as it is.
func (e *bccEdit) locate() bool {
	payload := e.frame.Payload()
	_, at := propertyOffsets(payload)
	if at < 0 {
		return false
	}
	flags := binary.BigEndian.Uint16(payload[contentFixed:])
	if flags&flagMore != 0 {
		return false
	}
	e.insert = HeadSize + at
	if flags&FlagHeaders == 0 {
		return true
	}
	size := valueSize('F', payload[at:])
	if size < 0 {
		return false
	}
	e.table = e.insert
	e.insert += size
	end := e.insert
	cc := false
	for t := Table(payload[at+4 : at+size]); len(t) > 0; {
		name, kind, value, rest, ok := t.split()
		if !ok {
			return false
		}
		t = rest
		e.others = e.others || e.array != 0 || string(name) != "BCC"
		if len(name) < 2 || len(name) > 3 || name[len(name)-1] != 'C' {
			continue // neither of the two names, for nearly every entry
		}
		switch {
		case string(name) == "BCC" && e.array == 0:
			if kind != 'A' || !wholeArray(value[4:]) {
				return false
			}
			e.insert = end - len(rest)
			e.array = e.insert - len(value)
		case string(name) == "CC" && !cc:
			if kind != 'A' || !wholeArray(value[4:]) {
				return false
			}
			cc = true
		}
	}
	if !e.others {
		e.mark = markerEntry
	}
	return true
}

func (e *bccEdit) append(dst []byte) []byte {
	dst = slices.Grow(dst, len(e.frame)+e.room+4+bccEntry+e.mark)
	start := len(dst)
	dst = append(dst, e.frame[:e.insert]...)
	head := dst[start:]
	grown := e.room
	if e.array == 0 {
		grown += bccEntry
	} else {
		addLength(head[e.array:], e.room)
	}
	if e.table == 0 {
		const at = HeadSize + contentFixed
		binary.BigEndian.PutUint16(head[at:], binary.BigEndian.Uint16(head[at:])|FlagHeaders)
		dst = appendLong(dst, uint32(grown))
		addLength(head[3:], grown+4)
	} else {
		addLength(head[e.table:], grown+e.mark)
		addLength(head[3:], grown+e.mark)
	}
	if e.array == 0 {
		dst = append(dst, "\x03BCCA"...)
		dst = appendLong(dst, uint32(e.room))
	}
	for _, k := range e.keys {
		dst = append(dst, 'S')
		dst = appendLong(dst, uint32(len(k)))
		dst = append(dst, k...)
	}
	if e.mark > 0 { // the BCC array ends the table here, so this is between entries
		dst = append(dst, byte(len(EmptyMarker)))
		dst = append(dst, EmptyMarker+"V"...)
	}
	return append(dst, e.frame[e.insert:]...)
}

// addLength adds n to the four length octets at the start of b.
func addLength(b []byte, n int) {
	binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)+uint32(n))
}
