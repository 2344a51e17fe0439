package frames

import (
	"encoding/binary"
	"errors"
)

// Frame types (section 4.2.3).
const (
	TypeMethod    byte = 1
	TypeHeader    byte = 2
	TypeBody      byte = 3
	TypeHeartbeat byte = 8
)

// Sizes and marks of the frame layout (section 4.2.3), in octets.
const (
	// End is the last octet of every frame.
	End byte = 0xCE
	// HeadSize is type, channel and payload size.
	HeadSize = 7
	// Overhead is what a frame has beside its payload: head and end octet.
	Overhead = HeadSize + 1
	// MinFrameMax is the smallest frame_max two peers may agree on.
	MinFrameMax = 4096
)

// knownTypes has the bit of every frame type set.
const knownTypes uint64 = 1<<TypeMethod | 1<<TypeHeader | 1<<TypeBody | 1<<TypeHeartbeat

// ProtocolHeader is what a client sends before its first frame (section 4.2.2).
var ProtocolHeader = [8]byte{'A', 'M', 'Q', 'P', 0, 0, 9, 1}

// ErrShort says that the slice does not hold a whole frame yet: read more and try again.
var ErrShort = errors.New("frames: frame is not complete yet")

// Head is a frame's first seven octets. Size counts the payload only.
type Head struct {
	Type    byte
	Channel uint16
	Size    uint32
}

// ParseHead reads a frame's head. It panics when b has fewer than HeadSize octets.
func ParseHead(b []byte) Head {
	_ = b[HeadSize-1]
	return Head{Type: b[0], Channel: binary.BigEndian.Uint16(b[1:]), Size: binary.BigEndian.Uint32(b[3:])}
}

// Check returns an *Exception with FrameError when the type is unknown or the frame is larger than frameMax; 0 is no limit (section
// 4.2.3, connection.tune). As in RabbitMQ the payload alone is compared with it: a frame may have 8 octets more.
func (h Head) Check(frameMax uint32) error {
	if knownTypes>>h.Type&1 != 0 && (frameMax == 0 || h.Size <= frameMax) {
		return nil
	}
	return h.fault(frameMax)
}

// Frame is one whole frame, head and end octet included, as Next returns it. It borrows the slice given to Next.
// Its methods panic on slices shorter than Overhead.
type Frame []byte

// Next returns the frame at the start of b. The error is ErrShort when b does not hold all of it, or an *Exception with
// FrameError when it can never become a frame: unknown type, larger than frameMax (see Head.Check), wrong end octet.
// A bad head is reported as soon as its seven octets are there, before any payload is waited for.
func Next(b []byte, frameMax uint32) (Frame, error) {
	if len(b) < HeadSize {
		return nil, ErrShort
	}
	size := uint64(binary.BigEndian.Uint32(b[3:7])) + Overhead
	// The end octet is checked on the fast path too: a stream out of step must not be forwarded.
	if size <= uint64(len(b)) && b[size-1] == End && knownTypes>>b[0]&1 != 0 && (frameMax == 0 || size <= uint64(frameMax)+Overhead) {
		return Frame(b[:size:size]), nil
	}
	return nil, notNext(b, frameMax)
}

// notNext says why b does not start with a frame.
func notNext(b []byte, frameMax uint32) error {
	h := ParseHead(b)
	if err := h.Check(frameMax); err != nil {
		return err
	}
	size := uint64(h.Size) + Overhead
	if uint64(len(b)) < size {
		return ErrShort
	}
	return WrongEnd(h.Type, h.Size, b[HeadSize:size-1], b[size-1])
}

// Type is one of TypeMethod, TypeHeader, TypeBody, TypeHeartbeat.
func (f Frame) Type() byte { return f[0] }

// Channel is the channel number; 0 is the connection itself.
func (f Frame) Channel() uint16 { return binary.BigEndian.Uint16(f[1:3]) }

// Payload is what stands between head and end octet.
func (f Frame) Payload() []byte { return f[HeadSize : len(f)-1 : len(f)-1] }

// Method is the method's id, or 0 when f is no method frame or too short for an id.
func (f Frame) Method() MethodID {
	if f[0] != TypeMethod || len(f) < Overhead+4 {
		return 0
	}
	return MethodID(binary.BigEndian.Uint32(f[HeadSize:]))
}

// Args is the encoded arguments of a method frame: the payload after class and method id; nil when it is too short.
func (f Frame) Args() []byte {
	if len(f) < Overhead+4 {
		return nil
	}
	return f[HeadSize+4 : len(f)-1 : len(f)-1]
}

// AppendFrame appends one whole frame to dst. The payload must be shorter than 4 GiB; no limit is checked.
func AppendFrame(dst []byte, typ byte, channel uint16, payload []byte) []byte {
	dst = appendHead(dst, Head{Type: typ, Channel: channel, Size: uint32(len(payload))})
	dst = append(dst, payload...)
	return append(dst, End)
}

func appendHead(dst []byte, h Head) []byte {
	dst = append(dst, h.Type)
	dst = binary.BigEndian.AppendUint16(dst, h.Channel)
	return binary.BigEndian.AppendUint32(dst, h.Size)
}
