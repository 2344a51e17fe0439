package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"

	"github.com/shardmq/shardmq/frames/spec"
)

// fileOf says which file a class goes to: small classes share one.
var fileOf = map[string]string{"access": "channel", "confirm": "channel", "tx": "channel"}

// render makes every generated file: name to gofmt'ed text.
func render(d *spec.Definitions) (map[string][]byte, error) {
	raw := map[string]*bytes.Buffer{
		"codes_gen.go":   new(bytes.Buffer),
		"methods_gen.go": new(bytes.Buffer),
	}
	renderCodes(raw["codes_gen.go"], d.Codes)
	renderIDs(raw["methods_gen.go"], d)
	for _, c := range d.Classes {
		base := c.Name
		if to, ok := fileOf[c.Name]; ok {
			base = to
		}
		// Structs and codecs apart keep each file readable in one sitting.
		for _, m := range c.Methods {
			renderStruct(buffer(raw, base+"_gen.go"), c, m)
			renderCodec(buffer(raw, base+"_codec_gen.go"), c, m)
		}
	}
	out := make(map[string][]byte, len(raw))
	for name, b := range raw {
		text, err := format.Source(append([]byte("// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.\n\npackage frames\n"), b.Bytes()...))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

func buffer(m map[string]*bytes.Buffer, name string) *bytes.Buffer {
	if m[name] == nil {
		m[name] = new(bytes.Buffer)
	}
	return m[name]
}

func renderCodes(w *bytes.Buffer, codes []spec.Code) {
	fmt.Fprint(w, "\n// Reply codes (section 1.2 of the reference; 312 is RabbitMQ's, for basic.return).\nconst (\n")
	for _, c := range codes {
		fmt.Fprintf(w, "%s Code = %d\n", camel(c.Name), c.Value)
	}
	fmt.Fprint(w, ")\n\n// codeNames are the words that reply texts start with.\nvar codeNames = map[Code]string{\n")
	for _, c := range codes {
		fmt.Fprintf(w, "%s: %q,\n", camel(c.Name), strings.ToUpper(strings.ReplaceAll(c.Name, "-", "_")))
	}
	var soft []string
	for _, c := range codes {
		if c.Scope != "connection" {
			soft = append(soft, camel(c.Name))
		}
	}
	fmt.Fprint(w, "}\n\n// Hard says whether an error with this code closes the connection; otherwise it closes only the channel.\n")
	fmt.Fprint(w, "// Unknown codes count as hard. ReplySuccess is no error and not hard.\n")
	fmt.Fprintf(w, "func (c Code) Hard() bool {\nswitch c {\ncase %s:\nreturn false\n}\nreturn true\n}\n", strings.Join(soft, ", "))
}

func renderIDs(w *bytes.Buffer, d *spec.Definitions) {
	fmt.Fprint(w, "\n// Method ids: class in the upper, method in the lower 16 bits.\nconst (\n")
	for _, c := range d.Classes {
		for _, m := range c.Methods {
			fmt.Fprintf(w, "%sID MethodID = %d<<16 | %d\n", goName(c, m), c.ID, m.ID)
		}
	}
	fmt.Fprint(w, ")\n\n// methods is everything known about each method, by class id, then in the definitions' order.\nvar methods = [...]methodInfo{\n")
	for _, c := range d.Classes {
		for _, m := range c.Methods {
			replies := "nil"
			if len(m.Replies) > 0 {
				ids := make([]string, len(m.Replies))
				for i, r := range m.Replies {
					ids[i] = camel(c.Name) + camel(r) + "ID"
				}
				replies = "[]MethodID{" + strings.Join(ids, ", ") + "}"
			}
			fmt.Fprintf(w, "{%sID, %q, %s, %s, func() Method { return new(%s) }},\n",
				goName(c, m), c.Name+"."+m.Name, senderOf(m), replies, goName(c, m))
		}
	}
	fmt.Fprint(w, "}\n")
	renderHasContent(w, d)
	renderProperties(w, d)
}

func renderHasContent(w *bytes.Buffer, d *spec.Definitions) {
	var ids []string
	for _, c := range d.Classes {
		for _, m := range c.Methods {
			if m.Content {
				ids = append(ids, goName(c, m)+"ID")
			}
		}
	}
	fmt.Fprint(w, "\n// HasContent says whether a content header frame and body frames follow the method.\n")
	fmt.Fprintf(w, "func (m MethodID) HasContent() bool {\nswitch m {\ncase %s:\nreturn true\n}\nreturn false\n}\n", strings.Join(ids, ", "))
}

func renderProperties(w *bytes.Buffer, d *spec.Definitions) {
	for _, c := range d.Classes {
		if len(c.Properties) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n// Property flags of class %s, as in ContentHeader.Flags.\nconst (\n", c.Name)
		for i, p := range c.Properties {
			fmt.Fprintf(w, "Flag%s uint16 = 1 << %d\n", camel(p.Name), 15-i)
		}
		fmt.Fprintf(w, ")\n\n// %sProperties are the kinds of the properties, the one with the highest flag first.\nvar %sProperties = [...]fieldKind{\n", c.Name, c.Name)
		for _, p := range c.Properties {
			fmt.Fprintf(w, "kind%s,\n", camel(p.Type))
		}
		fmt.Fprint(w, "}\n")
	}
}

// camel turns "no-wait" into "NoWait" and the word "id" into "ID".
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		if word == "id" {
			b.WriteString("ID")
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func senderOf(m spec.Method) string {
	switch {
	case !m.FromServer:
		return "byClient"
	case !m.FromClient:
		return "byServer"
	}
	return "byBoth"
}

func goName(c spec.Class, m spec.Method) string { return camel(c.Name) + camel(m.Name) }
