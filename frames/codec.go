package frames

import (
	"encoding/binary"
	"unicode/utf8"
)

// maxShortstr is the longest short string: its length is one octet (section 4.2.5.3).
const maxShortstr = 255

// reader reads encoded arguments. After the first shortage it returns only zero values; done reports it.
type reader struct {
	b   []byte // what is left
	bad bool
}

// take returns the next n octets, nil when fewer are left.
func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) octet() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) short() uint16 {
	if v := r.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (r *reader) long() uint32 {
	if v := r.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *reader) longlong() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (r *reader) shortstr() string { return string(r.take(uint64(r.octet()))) }

// longstr returns nil for the empty string, so that equal values compare equal however they were made.
func (r *reader) longstr() []byte {
	if v := r.take(uint64(r.long())); len(v) > 0 {
		return v
	}
	return nil
}

func (r *reader) table() Table { return Table(r.longstr()) }

// done returns an *Exception when something was missing or is left over.
func (r *reader) done(id MethodID) error {
	if !r.bad && len(r.b) == 0 {
		return nil
	}
	if r.bad {
		return exceptionf(SyntaxError, id, "arguments of %s are cut short", id)
	}
	return exceptionf(SyntaxError, id, "%d octets follow the arguments of %s", len(r.b), id)
}

func appendOctet(dst []byte, v byte) []byte { return append(dst, v) }

func appendShort(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }

func appendLong(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

func appendLonglong(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

func appendShortstr(dst []byte, v string) []byte {
	v = cut(v, maxShortstr)
	dst = append(dst, byte(len(v)))
	return append(dst, v...)
}

func appendLongstr(dst, v []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	return append(dst, v...)
}

func appendTable(dst []byte, v Table) []byte { return appendLongstr(dst, v) }

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// cut shortens s to at most n octets without splitting a UTF-8 rune. Octets that are no UTF-8 are cut where they are.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := n; i > n-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n]
}
