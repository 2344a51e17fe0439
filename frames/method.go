package frames

import (
	"encoding/binary"
	"fmt"
)

// MethodID is a method's class id in the upper and method id in the lower 16 bits. The zero value is no method.
type MethodID uint32

// Method is a decoded method. Every generated struct implements it with a pointer receiver.
type Method interface {
	// ID is the method's class and number.
	ID() MethodID
	// Decode reads encoded arguments, as Frame.Args returns them, into the struct. Strings are copied; Table and []byte
	// fields borrow args. The error is an *Exception with SyntaxError when args is too short, too long, or a length in
	// it points past its end; the struct's content is then undefined. What is inside a table is not looked at: unknown
	// field types are the broker's to judge, Table.Valid tells.
	Decode(args []byte) error
	// AppendArgs appends the encoded arguments to dst. Strings are cut to the 255 octets that a short string can hold.
	AppendArgs(dst []byte) []byte
}

type methodInfo struct {
	id      MethodID
	name    string
	by      sender
	replies []MethodID
	make    func() Method
}

// sender says which side may send a method.
type sender uint8

const (
	byClient sender = 1
	byServer sender = 2
	byBoth          = byClient | byServer
)

// Bounds of the ids in use; everything beyond is unknown.
const (
	maxClass  = 90
	maxMethod = 120
)

// methodIndex maps class and method to the position in methods plus one; 0 is unknown. An array, because every method
// frame is looked up here.
var methodIndex = func() (index [maxClass + 1][maxMethod + 1]uint8) {
	for i, m := range methods {
		index[m.id.Class()][m.id.Method()] = uint8(i + 1)
	}
	return index
}()

// info returns nil for unknown methods.
func (m MethodID) info() *methodInfo {
	class, method := m>>16, m&0xFFFF
	if class > maxClass || method > maxMethod {
		return nil
	}
	if i := methodIndex[class][method]; i > 0 {
		return &methods[i-1]
	}
	return nil
}

// Class is the class id.
func (m MethodID) Class() uint16 { return uint16(m >> 16) }

// Method is the method id within its class.
func (m MethodID) Method() uint16 { return uint16(m) }

// String is "basic.publish", or "class 77 method 1" when the method is unknown.
func (m MethodID) String() string {
	if in := m.info(); in != nil {
		return in.name
	}
	return fmt.Sprintf("class %d method %d", m.Class(), m.Method())
}

// Known says whether this package has a struct for the method.
func (m MethodID) Known() bool { return m.info() != nil }

// Synchronous says whether the method is a request that is answered, unless it has a no-wait flag that is set.
// (A basic.cancel from the broker is not answered by clients.)
func (m MethodID) Synchronous() bool {
	in := m.info()
	return in != nil && len(in.replies) > 0
}

// Reply returns the methods that may answer this one, nil when it is not answered. The slice must not be changed.
func (m MethodID) Reply() []MethodID {
	if in := m.info(); in != nil {
		return in.replies
	}
	return nil
}

// FromClient says whether a client may send the method; true for unknown methods.
func (m MethodID) FromClient() bool {
	in := m.info()
	return in == nil || in.by&byClient != 0
}

// FromServer says whether a broker may send the method; true for unknown methods.
func (m MethodID) FromServer() bool {
	in := m.info()
	return in == nil || in.by&byServer != 0
}

// NewMethod returns an empty struct for the method, nil when it is unknown.
func NewMethod(id MethodID) Method {
	if in := id.info(); in != nil {
		return in.make()
	}
	return nil
}

// Methods returns the ids of all known methods, in the order of the definitions.
func Methods() []MethodID {
	ids := make([]MethodID, len(methods))
	for i, m := range methods {
		ids[i] = m.id
	}
	return ids
}

// AppendMethod appends a whole method frame to dst.
func AppendMethod(dst []byte, channel uint16, m Method) []byte {
	start := len(dst)
	dst = appendHead(dst, Head{Type: TypeMethod, Channel: channel})
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.ID()))
	dst = m.AppendArgs(dst)
	binary.BigEndian.PutUint32(dst[start+3:], uint32(len(dst)-start-HeadSize))
	return append(dst, End)
}
