package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parser walks a YAML document along the schema and gathers problems. A read
// goes on after a problem: the values read so far only serve further checks.
type parser struct {
	file     string
	lookup   func(string) (string, bool)
	problems Problems
	warnings Problems
	files    bool           // look into the files that the values name
	lines    map[string]int // line on which a key's value stands, by path
	// policies holds the line of each policy's name, by vhost and name;
	// policyPaths the paths of those in Config.Policies, in the same order.
	policies    map[[2]string]int
	policyPaths []string
}

// place is a value and the path of keys that leads to it.
type place struct {
	node *yaml.Node
	path string
}

// key returns the path of a key below the place.
func (at place) key(name string) string {
	if at.path == "" {
		return name
	}
	return at.path + "." + name
}

func (p *parser) problem(line int, path, format string, args ...any) {
	p.problems = append(p.problems, Problem{File: p.file, Line: line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// fault reports a problem of the value at a place.
func (p *parser) fault(at place, format string, args ...any) {
	p.problem(at.node.Line, at.path, format, args...)
}

// faultAt reports a problem of the value with that path; where the file does not
// have it, the line is that of what it would be in.
func (p *parser) faultAt(path, format string, args ...any) {
	p.problem(p.line(path), path, format, args...)
}

// warnAt notes something about the value with that path that does no harm yet.
func (p *parser) warnAt(path, format string, args ...any) {
	p.warnings = append(p.warnings, Problem{File: p.file, Line: p.line(path), Path: path, Text: fmt.Sprintf(format, args...)})
}

// line returns the line of the value with that path, else of what it would be in.
func (p *parser) line(path string) int {
	for path != "" {
		if line, ok := p.lines[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}

// given reports whether the mapping at a place has the key.
func (p *parser) given(at place, key string) bool {
	_, ok := p.lines[at.key(key)]
	return ok
}

// document parses data and returns the top-level value.
func (p *parser) document(data []byte) (*yaml.Node, bool) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]) {
		// Nothing but comments: read on as an empty mapping, so that the
		// keys that must be there are named.
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}, true
	}
	if err != nil {
		p.syntax(data, err)
		return nil, false
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		p.problem(second.Line, "", "a second YAML document begins here; put everything into one and remove the --- line")
	case !errors.Is(err, io.EOF):
		p.syntax(data, err)
	}
	return doc.Content[0], true
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

var (
	yamlLine   = regexp.MustCompile(`^line (\d+): `)
	yamlAnchor = regexp.MustCompile(`unknown anchor '([^']+)' referenced`)
)

// syntax reports what the YAML parser says. It names no line for the first
// one, and the line before for errors of its grammar.
func (p *parser) syntax(data []byte, err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line, last := 1, 1+bytes.Count(bytes.TrimRight(data, "\r\n"), []byte("\n"))
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
		if strings.HasPrefix(text, "did not find expected") {
			line = min(line+1, last)
		}
	} else if m := yamlAnchor.FindStringSubmatch(text); m != nil {
		if i := bytes.Index(data, []byte("*"+m[1])); i >= 0 {
			line += bytes.Count(data[:i], []byte("\n"))
		}
		// Its name may be the end of a password that lacks quotes.
		text = "there is no anchor for this alias"
	}
	p.problem(line, "", "not valid YAML: %s; correct the syntax near this line "+
		"(text with : # { } [ ] , & * %% @ belongs in quotes)", text)
}

// resolve follows an alias and remembers the line of the value.
func (p *parser) resolve(at place) place {
	p.lines[at.path] = at.node.Line
	// An alias cannot name another alias, and a schema has a fixed depth: a
	// value that contains itself ends in a wrong type, not in a loop.
	if at.node.Kind == yaml.AliasNode {
		n := *at.node.Alias
		n.Line = at.node.Line
		at.node = &n
	}
	return at
}

// describe says in words what a value is, for "is ...; want ...".
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "empty"
	}
	value := clip(n.Value)
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the text %q", value)
	case "!!int", "!!float":
		return "the number " + value
	case "!!bool":
		return "the truth value " + value
	case "!!timestamp":
		return "the date " + value
	default:
		return fmt.Sprintf("%q of type %s", value, n.ShortTag())
	}
}

// describeUnless is describe; of a private value it says no more than that it is one.
func describeUnless(private bool, n *yaml.Node) string {
	if private && n.Kind == yaml.ScalarNode && !isNull(n) {
		return "a single value"
	}
	return describe(n)
}

// clip shortens a value for a message.
func clip(s string) string {
	const limit = 60
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}
