package integration

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"unicode"

	"github.com/shardmq/shardmq/frames"
)

// said is a method that came, with its content if it has one.
type said struct {
	channel uint16
	id      frames.MethodID
	method  frames.Method // nil when the method is unknown or malformed
	args    []byte
	header  []byte // payload of the content header
	left    uint64 // octets of the body to come
	body    []byte
}

// maskTimes replaces when a message was dead-lettered, as it stands in its x-death header.
func maskTimes(header []byte) {
	name := []byte("\x04timeT")
	for at := bytes.Index(header, name); at >= 0 && len(header) >= at+len(name)+8; {
		header = header[at+len(name):]
		copy(header, "sometime")
		at = bytes.Index(header, name)
	}
}

func newSaid(f frames.Frame) *said {
	s := &said{channel: f.Channel(), id: f.Method(), args: append([]byte(nil), f.Args()...)}
	if m := frames.NewMethod(s.id); m != nil && m.Decode(s.args) == nil {
		s.method = m
	}
	return s
}

// String is one line: the method, its arguments, the content header octet for octet and the body.
func (s *said) String() string {
	text := s.id.String()
	if s.method == nil {
		return fmt.Sprintf("%s %q", text, s.args)
	}
	v := reflect.ValueOf(s.method).Elem()
	for i := range v.NumField() {
		if field := v.Field(i); !field.IsZero() {
			text += " " + kebab(v.Type().Field(i).Name) + "=" + argument(field.Interface())
		}
	}
	if s.header == nil {
		return text
	}
	maskTimes(s.header)
	text += fmt.Sprintf(" | header of %d octets %q | body of %d octets", len(s.header), head(s.header, 600), len(s.body))
	if len(s.body) > 100 {
		return fmt.Sprintf("%s, CRC %08x", text, crc32.ChecksumIEEE(s.body))
	}
	return fmt.Sprintf("%s %q", text, s.body)
}

func argument(v any) string {
	switch v := v.(type) {
	case string, []byte, frames.Table:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// kebab writes a field's name as AMQP does: ConsumerTag is consumer-tag.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(name[i-1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
