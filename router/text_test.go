package router_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/shardmq/shardmq/frames"
)

// The text form of frames in transcripts:
//
//	1 basic.publish exchange=images routing-key=a.b mandatory
//	1 header size=3 message-id=m headers={n=5 BCC=[x y]}
//	1 body abc
//
// Fields that are zero are left out. Strings with other characters than letters and the like are quoted. In tables numbers are
// signed 32-bit integers, true and false are bits, all else is text unless it is written as type:hex.

var (
	plainText = regexp.MustCompile(`^[A-Za-z@#*.,:/'<>~_-][A-Za-z0-9@#*.,:/'<>~_+-]*$`)
	otherKind = regexp.MustCompile(`^([a-zA-Z]):([0-9a-f]+)$`)
)

func textOf(s string) string {
	if plainText.MatchString(s) && s != "true" && s != "false" && !otherKind.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

func untext(s string) string {
	if u, err := strconv.Unquote(s); err == nil {
		return u
	}
	return s
}

// words splits at spaces outside quotes and brackets.
func words(s string) []string {
	var out []string
	start, depth, quote := -1, 0, false
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case quote && b == '\\':
			i++
			continue
		case b == '"':
			quote = !quote
		case quote:
		case b == '{' || b == '[':
			depth++
		case b == '}' || b == ']':
			depth--
		case b == ' ' && depth == 0:
			if start >= 0 {
				out = append(out, s[start:i])
			}
			start = -1
			continue
		}
		if start < 0 {
			start = i
		}
	}
	if start >= 0 {
		out = append(out, s[start:])
	}
	return out
}

// kebab writes a field's Go name as AMQP does: ConsumerTag is consumer-tag.
func kebab(s string) string {
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(s[i-1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// frameText is a frame in text form.
func frameText(f frames.Frame) string {
	head := fmt.Sprintf("%d ", f.Channel())
	switch f.Type() {
	case frames.TypeHeader:
		return head + "header " + headerText(f.Payload())
	case frames.TypeBody:
		return head + "body " + textOf(string(f.Payload()))
	case frames.TypeHeartbeat:
		return head + "heartbeat"
	}
	m := frames.NewMethod(f.Method())
	if m == nil {
		return head + "method " + hex.EncodeToString(f.Payload())
	}
	if err := m.Decode(f.Args()); err != nil {
		return head + f.Method().String() + " malformed " + hex.EncodeToString(f.Args())
	}
	out := head + f.Method().String()
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		field := v.Field(i)
		if field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0 {
			continue
		}
		out += " " + kebab(v.Type().Field(i).Name)
		switch x := field.Interface().(type) {
		case bool:
		case string:
			out += "=" + textOf(x)
		case []byte:
			out += "=" + textOf(string(x))
		case frames.Table:
			out += "=" + tableText(x)
		default:
			out += fmt.Sprintf("=%d", x)
		}
	}
	return out
}

// parseFrame reads the text form of a frame: channel, kind, fields.
func parseFrame(w []string) frames.Frame {
	channel, err := strconv.ParseUint(w[0], 10, 16)
	if err != nil || len(w) < 2 {
		panic(fmt.Sprintf("no frame: %q", w))
	}
	ch := uint16(channel)
	switch w[1] {
	case "header":
		return frames.AppendFrame(nil, frames.TypeHeader, ch, parseHeader(w[2:]))
	case "body":
		return frames.AppendFrame(nil, frames.TypeBody, ch, []byte(untext(w[2])))
	case "heartbeat":
		return frames.AppendFrame(nil, frames.TypeHeartbeat, ch, nil)
	case "method":
		payload, err := hex.DecodeString(w[2])
		if err != nil {
			panic(err)
		}
		return frames.AppendFrame(nil, frames.TypeMethod, ch, payload)
	}
	m := newMethod(w[1])
	v := reflect.ValueOf(m).Elem()
	for _, pair := range w[2:] {
		key, value, _ := strings.Cut(pair, "=")
		field := v.FieldByNameFunc(func(n string) bool { return kebab(n) == key })
		if !field.IsValid() {
			panic(fmt.Sprintf("%s has no field %q", w[1], key))
		}
		switch field.Interface().(type) {
		case bool:
			field.SetBool(true)
		case string:
			field.SetString(untext(value))
		case []byte:
			field.SetBytes([]byte(untext(value)))
		case frames.Table:
			field.SetBytes(parseTable(value))
		default:
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				panic(err)
			}
			field.SetUint(n)
		}
	}
	return frames.AppendMethod(nil, ch, m)
}

func newMethod(name string) frames.Method {
	for _, id := range frames.Methods() {
		if id.String() == name {
			return frames.NewMethod(id)
		}
	}
	panic("no method " + name)
}

func tableText(t frames.Table) string {
	var out []string
	err := t.Each(func(name []byte, kind byte, value []byte) bool {
		out = append(out, textOf(string(name))+"="+valueText(kind, value))
		return true
	})
	if err != nil {
		out = append(out, "malformed")
	}
	return "{" + strings.Join(out, " ") + "}"
}

func valueText(kind byte, v []byte) string {
	switch kind {
	case 't':
		return strconv.FormatBool(v[0] != 0)
	case 'I':
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(v))))
	case 'S':
		return textOf(string(v[4:]))
	case 'F':
		return tableText(v[4:])
	case 'A':
		// An array holds a table's values without the names: give each an empty one to have it read.
		var out []string
		for rest := v[4:]; len(rest) > 0; {
			named := frames.Table(append([]byte{0}, rest...))
			k, value, ok := named.Lookup("")
			if !ok {
				return "[malformed]"
			}
			out = append(out, valueText(k, value))
			rest = rest[1+len(value):]
		}
		return "[" + strings.Join(out, " ") + "]"
	}
	return fmt.Sprintf("%c:%x", kind, v)
}

func parseTable(s string) frames.Table {
	var t frames.Table
	for _, pair := range words(s[1 : len(s)-1]) {
		name, value, _ := strings.Cut(pair, "=")
		kind, v := parseValue(value)
		t = frames.AppendField(t, untext(name), kind, v)
	}
	return t
}

func parseValue(s string) (kind byte, value []byte) {
	long := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	if m := otherKind.FindStringSubmatch(s); m != nil {
		v, err := hex.DecodeString(m[2])
		if err != nil {
			panic(err)
		}
		return m[1][0], v
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case s == "true":
		return 't', []byte{1}
	case s == "false":
		return 't', []byte{0}
	case err == nil:
		return 'I', binary.BigEndian.AppendUint32(nil, uint32(n))
	case s[0] == '{':
		return 'F', long(parseTable(s))
	case s[0] == '[':
		var b []byte
		for _, e := range words(s[1 : len(s)-1]) {
			k, v := parseValue(e)
			b = append(append(b, k), v...)
		}
		return 'A', long(b)
	}
	return 'S', long([]byte(untext(s)))
}
