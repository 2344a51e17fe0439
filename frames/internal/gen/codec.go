package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/shardmq/shardmq/frames/spec"
)

var goTypes = map[string]string{
	"bit":      "bool",
	"octet":    "byte",
	"short":    "uint16",
	"long":     "uint32",
	"longlong": "uint64",
	"shortstr": "string",
	"longstr":  "[]byte",
	"table":    "Table",
}

func renderStruct(w *bytes.Buffer, c spec.Class, m spec.Method) {
	name := goName(c, m)
	fmt.Fprintf(w, "\n%s\ntype %s struct {\n", comment(c, m), name)
	for _, f := range m.Fields {
		fmt.Fprintf(w, "%s %s\n", camel(f.Name), goTypes[f.Type])
	}
	fmt.Fprintf(w, "}\n\n// ID returns %sID.\nfunc (*%s) ID() MethodID { return %sID }\n", name, name, name)
}

func comment(c spec.Class, m spec.Method) string {
	sender := "sent by either side"
	switch {
	case !m.FromServer:
		sender = "sent by the client"
	case !m.FromClient:
		sender = "sent by the server"
	}
	text := fmt.Sprintf("// %s is %s.%s (%d, %d), %s", goName(c, m), c.Name, m.Name, c.ID, m.ID, sender)
	if m.Content {
		text += ", followed by content"
	}
	if len(m.Replies) > 0 {
		text += ", answered by " + strings.Join(m.Replies, " or ")
	}
	return text + "."
}

func renderCodec(w *bytes.Buffer, c spec.Class, m spec.Method) {
	name := goName(c, m)
	recv := "m *" + name
	if len(m.Fields) == 0 {
		recv = "*" + name
	}
	fmt.Fprintf(w, "\n// Decode implements Method.\nfunc (%s) Decode(args []byte) error {\nr := reader{b: args}\n", recv)
	for _, g := range groups(m.Fields) {
		if g[0].Type != "bit" {
			fmt.Fprintf(w, "m.%s = r.%s()\n", camel(g[0].Name), g[0].Type)
			continue
		}
		if len(g) == 1 {
			fmt.Fprintf(w, "m.%s = r.octet()&1 != 0\n", camel(g[0].Name))
			continue
		}
		fmt.Fprint(w, "bits := r.octet()\n")
		for i, f := range g {
			fmt.Fprintf(w, "m.%s = bits&%d != 0\n", camel(f.Name), 1<<i)
		}
	}
	fmt.Fprintf(w, "return r.done(%sID)\n}\n", name)

	fmt.Fprintf(w, "\n// AppendArgs implements Method.\nfunc (%s) AppendArgs(dst []byte) []byte {\n", recv)
	for _, g := range groups(m.Fields) {
		if g[0].Type != "bit" {
			fmt.Fprintf(w, "dst = append%s(dst, m.%s)\n", camel(g[0].Type), camel(g[0].Name))
			continue
		}
		terms := make([]string, len(g))
		for i, f := range g {
			terms[i] = fmt.Sprintf("bit(m.%s)", camel(f.Name))
			if i > 0 {
				terms[i] += fmt.Sprintf("<<%d", i)
			}
		}
		fmt.Fprintf(w, "dst = append(dst, %s)\n", strings.Join(terms, " | "))
	}
	fmt.Fprint(w, "return dst\n}\n")
}

// groups puts neighbouring bits, which share an octet (section 4.2.5.2), together; every other field stands alone.
func groups(fields []spec.Field) [][]spec.Field {
	var out [][]spec.Field
	for _, f := range fields {
		if last := len(out) - 1; f.Type == "bit" && last >= 0 && out[last][0].Type == "bit" && len(out[last]) < 8 {
			out[last] = append(out[last], f)
			continue
		}
		out = append(out, []spec.Field{f})
	}
	return out
}
