package frames

import "encoding/binary"

// AppendHeaderRestored appends to dst the content header frame f of a message on its way to a client as its publisher sent it, as far
// as AppendHeaderBCC has changed what the broker does not change back: the entry EmptyMarker is removed, and an empty headers
// table goes together with its flag if dropEmpty says that the broker has emptied it. changed is false, and dst returned as it came,
// when there is nothing to restore. f is borrowed; dst must not overlap it. It allocates only to grow dst.
func AppendHeaderRestored(dst []byte, f Frame, dropEmpty bool) (out []byte, changed bool) {
	h, ok := ParseContentHeader(f.Payload())
	if !ok || !h.HasHeaders {
		return dst, false
	}
	length := HeadSize + h.after - len(h.Headers) - 4 // of the table, its length octets
	if len(h.Headers) == 0 {
		if !dropEmpty {
			return dst, false
		}
		start := len(dst)
		dst = append(dst, f[:length]...)
		dst = append(dst, f[length+4:]...)
		addLength(dst[start+3:], -4)
		binary.BigEndian.PutUint16(dst[start+HeadSize+contentFixed:], h.Flags&^FlagHeaders)
		return dst, true
	}
	for t := h.Headers; len(t) > 0; {
		name, kind, _, rest, ok := t.split()
		if !ok {
			return dst, false
		}
		if string(name) == EmptyMarker && kind == 'V' {
			at := HeadSize + h.after - len(t)
			start := len(dst)
			dst = append(dst, f[:at]...)
			dst = append(dst, f[at+markerEntry:]...)
			addLength(dst[start+3:], -markerEntry)
			addLength(dst[start+length:], -markerEntry)
			return dst, true
		}
		t = rest
	}
	return dst, false
}
