package jobxml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Bounds of what is read: far more than any real file has.
const (
	MaxSize  = 1 << 20 // octets of a file
	maxDepth = 16      // elements in one another
)

// element is an XML element. Namespaces are left out.
type element struct {
	name     string
	line     int // on which it begins
	attrs    []attr
	text     []byte // in it, without that of its children
	children []*element
}

type attr struct{ name, value string }

// parse returns the outermost element.
func parse(data []byte) (*element, *Problem) {
	if len(data) > MaxSize {
		return nil, &Problem{1, "", fmt.Sprintf("the file is larger than %d bytes; is it the right one?", MaxSize)}
	}
	if p := encoded(data); p != nil {
		return nil, p
	}
	r := &reader{dec: xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))}
	for r.problem == nil {
		line, _ := r.dec.InputPos()
		token, err := r.dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, syntax(r.dec, err)
		}
		r.take(token, line)
	}
	switch {
	case r.problem != nil:
		return nil, r.problem
	case r.root == nil:
		return nil, &Problem{1, "", "there is no XML element in the file; give a job.xml, which begins with <jobs>"}
	}
	return r.root, nil
}

// encoded finds what is not UTF-8, which encoding/xml says in fewer words or does not notice.
func encoded(data []byte) *Problem {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("<\x00")) || bytes.HasPrefix(data, []byte("\x00<")) {
		return &Problem{1, "", "the file is in UTF-16; convert it: iconv -f UTF-16 -t UTF-8"}
	}
	if declared, ok := declaration(data); ok && !strings.EqualFold(declared, "utf-8") && !strings.EqualFold(declared, "us-ascii") {
		return &Problem{1, "", fmt.Sprintf("the file is declared to be in encoding %q; convert it, iconv -f %s -t UTF-8, and declare encoding=\"UTF-8\"",
			clip(declared), clip(declared))}
	}
	line := 1
	for rest := data; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		if c == utf8.RuneError && size == 1 {
			return &Problem{line, "", "there are octets that are no UTF-8; convert the file: iconv -f ISO-8859-1 -t UTF-8, if it is Latin 1"}
		}
		if c == '\n' {
			line++
		}
		rest = rest[size:]
	}
	return nil
}

// declaration returns the encoding in <?xml ... encoding="..."?>.
func declaration(data []byte) (string, bool) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	inside, is := bytes.CutPrefix(data, []byte("<?xml"))
	end := bytes.Index(inside, []byte("?>"))
	if !is || end < 0 {
		return "", false
	}
	_, rest, found := bytes.Cut(inside[:end], []byte("encoding"))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	rest, is = bytes.CutPrefix(rest, []byte("="))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if !found || !is || len(rest) < 2 {
		return "", false
	}
	value, _, closed := bytes.Cut(rest[1:], rest[:1])
	return string(value), closed
}

// syntax is what encoding/xml says, with the line where it has stopped.
func syntax(dec *xml.Decoder, err error) *Problem {
	line, _ := dec.InputPos()
	text := err.Error()
	if e, ok := errors.AsType[*xml.SyntaxError](err); ok {
		line, text = e.Line, e.Msg
	}
	remedy := "correct the file near this line"
	if strings.Contains(text, "entity") {
		remedy = "only &lt; &gt; &amp; &quot; &apos; and &#...; are known; write & as &amp;"
	}
	return &Problem{line, "", fmt.Sprintf("not valid XML: %s; %s", text, remedy)}
}

// reader makes a tree of tokens.
type reader struct {
	dec     *xml.Decoder
	root    *element
	open    []*element
	problem *Problem
}

func (r *reader) take(token xml.Token, line int) {
	switch t := token.(type) {
	case xml.StartElement:
		r.start(t, line)
	case xml.EndElement:
		r.open = r.open[:len(r.open)-1]
	case xml.CharData:
		if n := len(r.open); n > 0 {
			r.open[n-1].text = append(r.open[n-1].text, t...)
		} else if len(bytes.TrimSpace(t)) > 0 {
			r.problem = &Problem{line, "", "there is text outside of all elements; remove it"}
		}
	case xml.Directive:
		r.problem = &Problem{line, "", "there is a <!DOCTYPE> or another declaration, which can define entities; remove it: a job.xml needs none"}
	}
}

func (r *reader) start(t xml.StartElement, line int) {
	e := &element{name: t.Name.Local, line: line}
	for _, a := range t.Attr {
		if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
			e.attrs = append(e.attrs, attr{a.Name.Local, a.Value})
		}
	}
	switch n := len(r.open); {
	case n == maxDepth:
		r.problem = &Problem{line, e.name, fmt.Sprintf("is the element number %d in one another; a job.xml has 3", n+1)}
		return
	case n > 0:
		r.open[n-1].children = append(r.open[n-1].children, e)
	case r.root != nil:
		r.problem = &Problem{line, e.name, "is a second outermost element; put all jobs into one <jobs>"}
		return
	default:
		r.root = e
	}
	r.open = append(r.open, e)
}

// all returns the children of that name.
func (e *element) all(name string) (out []*element) {
	for _, c := range e.children {
		if c.name == name {
			out = append(out, c)
		}
	}
	return out
}
