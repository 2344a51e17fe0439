package frames

import "encoding/binary"

// leadSize is the size of what lead reads: a frame's head and the first octet behind it. No frame is shorter.
const leadSize = HeadSize + 1

// lead is a frame's first eight octets as one number, so that type and channel are compared at once.
func lead(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// leadOf is what lead(b)>>40 is for frames of that type on that channel.
func leadOf(kind byte, channel uint16) uint64 { return uint64(kind)<<16 | uint64(channel) }

// ScanContent finds the content of class basic at the start of b, a header frame and all its body frames, on that channel. header is the header
// frame, n how many octets they all are. ok is false when they are not all there, or when anything about them is not as it should be: a
// caller then looks at them one by one and finds out. No payload may have more than most octets; 0: no limit. Both borrow b. No allocation.
func ScanContent(b []byte, channel uint16, most uint32) (header Frame, n int, ok bool) {
	if len(b) < Overhead+minContent {
		return nil, 0, false
	}
	head := lead(b)
	size := uint32(head >> 8)
	// Sizes are above 0, so with most at 0 the subtraction makes a limit that nothing exceeds.
	if head>>40 != leadOf(TypeHeader, channel) || size < minContent || size-1 > most-1 || uint64(size)+Overhead > uint64(len(b)) {
		return nil, 0, false
	}
	n = int(size) + Overhead
	if b[n-1] != End {
		return nil, 0, false
	}
	header = Frame(b[:n:n])
	want := leadOf(TypeBody, channel)
	for left := binary.BigEndian.Uint64(b[HeadSize+4:]); left > 0; {
		rest := b[n:]
		if len(rest) < leadSize {
			return nil, 0, false
		}
		head = lead(rest)
		size = uint32(head >> 8)
		whole := uint64(size) + Overhead
		if head>>40 != want || size-1 > most-1 || uint64(size) > left || whole > uint64(len(rest)) || rest[whole-1] != End {
			return nil, 0, false
		}
		left -= uint64(size)
		n += int(whole)
	}
	return header, n, true
}
