package config

import (
	"fmt"
	"net/textproto"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// named is a mapping whose keys are names that the file chooses.
type named struct {
	example string
	atLeast int
	begin   func() // if set, is called before the first item
	// check returns what is wrong with a name, and what to do.
	check func(name string) error
	// item makes the shape of the value with that name; it is called once for each.
	item func(name string) shape
}

// anyName stands for such a key in the documentation.
const anyName = "NAME"

func (m named) keys(k Key) []Key {
	below := m.item(anyName).keys(Key{Path: place{path: k.Path}.key(anyName)})
	k.Type = "mapping"
	if len(below) == 1 { // to single values: one row says it all
		k.Type = "mapping to " + below[0].Type
		return []Key{k}
	}
	return append([]Key{k}, below[1:]...)
}

func (m named) read(p *parser, at place) {
	at = p.resolve(at)
	if at.node.Kind != yaml.MappingNode {
		p.fault(at, "is %s; give a mapping, e.g. %s", describeUnless(true, at.node), m.example)
		return
	}
	if len(at.node.Content) < 2*m.atLeast {
		p.fault(at, "is empty; give at least %d, e.g. %s", m.atLeast, m.example)
	}
	if m.begin != nil {
		m.begin()
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(at.node.Content); i += 2 {
		m.readOne(p, at, seen, at.node.Content[i], at.node.Content[i+1])
	}
}

func (m named) readOne(p *parser, at place, seen map[string]int, key, value *yaml.Node) {
	name := key.Value
	path := at.key(keyName(key))
	if key.Kind != yaml.ScalarNode || isNull(key) || name == "<<" {
		p.problem(key.Line, path, "is no name; give text, e.g. %s", m.example)
		return
	}
	if err := m.check(name); err != nil {
		p.problem(key.Line, path, "%s", err)
		return
	}
	if first, twice := seen[name]; twice {
		p.problem(key.Line, path, "is given twice, first on line %d; keep one of the two", first)
		return
	}
	seen[name] = key.Line
	m.item(name).read(p, place{node: value, path: path})
}

// checkName checks a name that people and programs are to use: of at most so many bytes, without control characters.
func checkName(name string, most int) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("is empty; give a name")
	case len(name) > most:
		return fmt.Errorf("is %d bytes long; give at most %d", len(name), most)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("has a control character in it; give a name of printable characters")
	}
	return nil
}

// httpHeaders are static headers of requests.
func httpHeaders(dst *map[string]string) named {
	all := map[string]string{}
	seen := map[string]string{} // as written, by canonical name
	return named{
		example: `{X-Tenant: "a"}`,
		begin:   func() { *dst = all },
		check: func(name string) error {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			if first, twice := seen[canonical]; twice && first != name {
				return fmt.Errorf("is the same header as %s; keep one of the two", first)
			}
			seen[canonical] = name
			return nil
		},
		item: func(name string) shape {
			return scalar{kind: "text", want: "the header's value", secret: true, set: func(v string) error {
				all[name] = v
				return nil
			}}
		},
	}
}
