package router_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// properties are those of class basic, in the order of their flags, the highest first.
var properties = []string{"content-type", "content-encoding", "headers", "delivery-mode", "priority", "correlation-id", "reply-to",
	"expiration", "message-id", "timestamp", "type", "user-id", "app-id"}

func headerText(payload []byte) string {
	h, ok := frames.ParseContentHeader(payload)
	if !ok {
		return fmt.Sprintf("malformed %x", payload)
	}
	out := fmt.Sprintf("size=%d", h.BodySize)
	for i, name := range properties {
		v, ok := h.Property(frames.FlagContentType >> i)
		if !ok {
			continue
		}
		out += " " + name + "="
		switch name {
		case "headers":
			out += tableText(v)
		case "delivery-mode", "priority":
			out += strconv.Itoa(int(v[0]))
		case "timestamp":
			out += strconv.FormatUint(binary.BigEndian.Uint64(v), 10)
		default:
			out += textOf(string(v))
		}
	}
	return out
}

func parseHeader(w []string) []byte {
	given := map[string]string{}
	for _, pair := range w {
		name, value, _ := strings.Cut(pair, "=")
		given[name] = value
	}
	number := func(name string) uint64 {
		n, err := strconv.ParseUint(given[name], 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	var flags uint16
	var props []byte
	for i, name := range properties {
		v, ok := given[name]
		if !ok {
			continue
		}
		flags |= frames.FlagContentType >> i
		switch name {
		case "headers":
			t := parseTable(v)
			props = append(binary.BigEndian.AppendUint32(props, uint32(len(t))), t...)
		case "delivery-mode", "priority":
			props = append(props, byte(number(name)))
		case "timestamp":
			props = binary.BigEndian.AppendUint64(props, number(name))
		default:
			props = append(append(props, byte(len(untext(v)))), untext(v)...)
		}
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(frames.BasicPublishID&0xFFFF0000)) // class and weight
	out = binary.BigEndian.AppendUint64(out, number("size"))
	return append(binary.BigEndian.AppendUint16(out, flags), props...)
}
