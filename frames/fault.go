package frames

import (
	"fmt"
	"strconv"
	"strings"
)

// What RabbitMQ says of a frame it cannot read, word for word: "type 3, first 16 octets = <<...>>: reason", where octets and reason
// are Erlang terms.

const (
	snippet = 16 // octets of a payload that are shown
	column  = 80 // where Erlang breaks lines
)

// fault words what Check found; apart, so that Check stays small enough to be inlined. RabbitMQ looks at the size first.
func (h Head) fault(frameMax uint32) error {
	why := "unknown_frame"
	if frameMax > 0 && h.Size > frameMax {
		why = fmt.Sprintf("{frame_too_large,%d,%d}", h.Size, int64(frameMax)-Overhead)
	}
	return unreadable(h.Type, 0, nil, why)
}

// Unreadable says why the frame at the start of b, which Head.Check has refused, is none; all of b's head must be there. Of a frame that is there
// as a whole RabbitMQ looks at the end octet before the type, and shows the payload.
func Unreadable(b []byte, frameMax uint32) error {
	h := ParseHead(b)
	size := uint64(h.Size) + Overhead
	if uint64(len(b)) < size || frameMax > 0 && h.Size > frameMax {
		return h.fault(frameMax)
	}
	payload := b[HeadSize : size-1]
	if end := b[size-1]; end != End {
		return WrongEnd(h.Type, h.Size, payload, end)
	}
	return unreadable(h.Type, h.Size, payload, "unknown_frame")
}

// WrongEnd is the *Exception for a frame of that type and payload size whose end octet is another one. payload is what there is of the
// payload, of which the first 16 octets count.
func WrongEnd(typ byte, size uint32, payload []byte, end byte) error {
	return unreadable(typ, size, payload, fmt.Sprintf("{invalid_frame_end_marker,%d}", end))
}

func unreadable(typ byte, size uint32, payload []byte, why string) error {
	which := "all"
	if size > snippet {
		which, payload = "first 16", payload[:min(len(payload), snippet)]
	}
	text := fmt.Sprintf("type %d, %s octets = %s: ", typ, which, erlang(payload))
	if first, rest, ok := strings.Cut(why, ","); ok && len(text)+len(why) > column {
		why = first + ",\n" + strings.Repeat(" ", len(text)+1) + rest
	}
	return exceptionf(FrameError, 0, "%s%s", text, why)
}

// erlang prints octets as Erlang's ~p does.
func erlang(b []byte) string {
	text := true
	list := make([]string, len(b))
	for i, octet := range b {
		text = text && octet >= ' ' && octet <= '~'
		list[i] = strconv.Itoa(int(octet))
	}
	if text && len(b) > 0 {
		return "<<" + strconv.Quote(string(b)) + ">>"
	}
	return "<<" + strings.Join(list, ",") + ">>"
}
