package frames

import "encoding/binary"

// Table is an encoded field table without its four length octets (section 4.2.5.5); nil and empty are both the empty
// table. The field types are RabbitMQ's, which differ from the specification's grammar:
//
//	t bool   b int8   B uint8   s int16   u uint16   I int32   i uint32   l L int64   f float   d double
//	D decimal (scale octet, int32)   T timestamp   V void   S string   x octets   A array   F table
//
// S, x, A and F start with four octets of length. A name may occur more than once: as in RabbitMQ, the first counts.
type Table []byte

// maxDepth is how deep tables and arrays may nest before Valid refuses them; it bounds the stack.
const maxDepth = 64

// Marks in kindSize.
const (
	kindUnknown  = 0
	kindPrefixed = 0xFF // four length octets, then the value
)

// kindSize is the size of a field's value plus one, by type octet.
var kindSize = [256]uint8{
	't': 2, 'b': 2, 'B': 2, 's': 3, 'u': 3, 'I': 5, 'i': 5, 'l': 9, 'L': 9, 'f': 5, 'd': 9, 'D': 6, 'T': 9, 'V': 1,
	'S': kindPrefixed, 'x': kindPrefixed, 'A': kindPrefixed, 'F': kindPrefixed,
}

// valueSize is the number of octets that a value of this kind takes at the start of b, its length octets included;
// -1 when the kind is unknown or b is too short.
func valueSize(kind byte, b []byte) int {
	size := uint64(kindSize[kind])
	switch size {
	case kindUnknown:
		return -1
	case kindPrefixed:
		if len(b) < 4 {
			return -1
		}
		size = uint64(binary.BigEndian.Uint32(b)) + 4
	default:
		size--
	}
	if size > uint64(len(b)) {
		return -1
	}
	return int(size)
}

// split takes the first entry off a table that is not empty; ok is false when the entry is malformed.
func (t Table) split() (name []byte, kind byte, value []byte, rest Table, ok bool) {
	n := int(t[0]) + 1
	if len(t) <= n {
		return nil, 0, nil, nil, false
	}
	kind = t[n]
	tail := t[n+1:]
	size := valueSize(kind, tail)
	if size < 0 {
		return nil, 0, nil, nil, false
	}
	return t[1:n:n], kind, tail[:size:size], tail[size:], true
}

// splitElement takes the first element off an array's content that is not empty.
func splitElement(a []byte) (kind byte, value, rest []byte, ok bool) {
	kind, a = a[0], a[1:]
	size := valueSize(kind, a)
	if size < 0 {
		return 0, nil, nil, false
	}
	return kind, a[:size:size], a[size:], true
}

// Valid walks the whole table, nested tables and arrays included, and returns an *Exception with SyntaxError when a length
// points past its end, a field type is unknown, or nesting is deeper than 64. It allocates only the error.
func (t Table) Valid() error {
	if why := validTable(t, 1); why != "" {
		return exceptionf(SyntaxError, 0, "field table: %s", why)
	}
	return nil
}

func validTable(t Table, depth int) (why string) {
	if depth > maxDepth {
		return "nested too deep"
	}
	for len(t) > 0 {
		_, kind, value, rest, ok := t.split()
		if !ok {
			return "cut short or unknown field type"
		}
		if why := validNested(kind, value, depth); why != "" {
			return why
		}
		t = rest
	}
	return ""
}

func validArray(a []byte, depth int) (why string) {
	if depth > maxDepth {
		return "nested too deep"
	}
	for len(a) > 0 {
		kind, value, rest, ok := splitElement(a)
		if !ok {
			return "array cut short or unknown field type in it"
		}
		if why := validNested(kind, value, depth); why != "" {
			return why
		}
		a = rest
	}
	return ""
}

func validNested(kind byte, value []byte, depth int) (why string) {
	switch kind {
	case 'F':
		return validTable(value[4:], depth+1)
	case 'A':
		return validArray(value[4:], depth+1)
	}
	return ""
}

// Lookup finds the first entry of that name. The value is all octets after the type octet: for S, x, A and F it starts
// with their four length octets (LookupString and LookupTable return it without). What follows the entry is not checked;
// ok is false when the name is missing or the table is malformed before it. The value borrows t.
func (t Table) Lookup(name string) (kind byte, value []byte, ok bool) {
	for len(t) > 0 {
		n, kind, value, rest, ok := t.split()
		if !ok {
			return 0, nil, false
		}
		if string(n) == name {
			return kind, value, true
		}
		t = rest
	}
	return 0, nil, false
}

// LookupString is the text of the first entry of that name; ok is false when it is missing or no string (S).
func (t Table) LookupString(name string) (value []byte, ok bool) {
	kind, v, ok := t.Lookup(name)
	if !ok || kind != 'S' {
		return nil, false
	}
	return v[4:], true
}

// LookupTable is the table in the first entry of that name; ok is false when it is missing or no table (F).
func (t Table) LookupTable(name string) (value Table, ok bool) {
	kind, v, ok := t.Lookup(name)
	if !ok || kind != 'F' {
		return nil, false
	}
	return v[4:], true
}

// LookupBool is the first entry of that name; ok is false when it is missing or no bool (t).
func (t Table) LookupBool(name string) (value, ok bool) {
	kind, v, ok := t.Lookup(name)
	if !ok || kind != 't' {
		return false, false
	}
	return v[0] != 0, true
}

// Each yields the entries in order until yield returns false; values are as in Lookup, names and values borrow t.
// It returns an *Exception with SyntaxError at the first malformed entry, after those before it have been yielded.
func (t Table) Each(yield func(name []byte, kind byte, value []byte) bool) error {
	for left := t; len(left) > 0; {
		name, kind, value, rest, ok := left.split()
		if !ok {
			return exceptionf(SyntaxError, 0, "field table: malformed entry at octet %d", len(t)-len(left))
		}
		if !yield(name, kind, value) {
			return nil
		}
		left = rest
	}
	return nil
}

// RoutingKeys yields the strings in the array of that name (CC or BCC), in order, until yield returns false. Elements of
// other types are passed over, as RabbitMQ does. ok is true when the name is missing; it is false, and nothing is yielded,
// when the entry is no array or is malformed, or the table is malformed before it.
func (t Table) RoutingKeys(name string, yield func(key []byte) bool) (ok bool) {
	for len(t) > 0 {
		n, kind, value, rest, ok := t.split()
		if !ok {
			return false
		}
		if string(n) != name {
			t = rest
			continue
		}
		if kind != 'A' || !wholeArray(value[4:]) {
			return false
		}
		yieldStrings(value[4:], yield)
		return true
	}
	return true
}

// wholeArray says whether the elements of an array's content can be told apart to its end.
func wholeArray(a []byte) bool {
	for len(a) > 0 {
		_, _, rest, ok := splitElement(a)
		if !ok {
			return false
		}
		a = rest
	}
	return true
}

func yieldStrings(a []byte, yield func([]byte) bool) {
	for len(a) > 0 {
		kind, value, rest, _ := splitElement(a)
		if kind == 'S' && !yield(value[4:]) {
			return
		}
		a = rest
	}
}

// Without returns a copy of t without any entry of that name. A malformed entry and all after it are kept as they are.
func (t Table) Without(name string) Table {
	out := make(Table, 0, len(t))
	for len(t) > 0 {
		n, _, _, rest, ok := t.split()
		if !ok {
			return append(out, t...)
		}
		if string(n) != name {
			out = append(out, t[:len(t)-len(rest)]...)
		}
		t = rest
	}
	return out
}

// AppendField appends an entry of any type; value is everything that follows the type octet, as in Lookup.
// All Append functions cut names to 255 octets.
func AppendField(t Table, name string, kind byte, value []byte) Table {
	return append(appendName(t, name, kind), value...)
}

// AppendString appends a string entry (S).
func AppendString(t Table, name, value string) Table {
	t = appendName(t, name, 'S')
	t = binary.BigEndian.AppendUint32(t, uint32(len(value)))
	return append(t, value...)
}

// AppendBool appends a bool entry (t).
func AppendBool(t Table, name string, value bool) Table {
	return append(appendName(t, name, 't'), bit(value))
}

// AppendInt32 appends a signed 32-bit entry (I).
func AppendInt32(t Table, name string, value int32) Table {
	return binary.BigEndian.AppendUint32(appendName(t, name, 'I'), uint32(value))
}

// AppendInt64 appends a signed 64-bit entry (l).
func AppendInt64(t Table, name string, value int64) Table {
	return binary.BigEndian.AppendUint64(appendName(t, name, 'l'), uint64(value))
}

// AppendTable appends a table entry (F).
func AppendTable(t Table, name string, value Table) Table {
	return appendLongstr(appendName(t, name, 'F'), value)
}

func appendName(t Table, name string, kind byte) Table {
	return append(appendShortstr(t, name), kind)
}
