package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is what a value must look like. Reading stores the value in the Config
// that the shape was made for; keys lists the keys that exist below it.
type shape interface {
	read(p *parser, at place)
	keys(k Key) []Key
}

// Key describes one key of the file, as docs/config.md lists it.
type Key struct {
	Path    string // "policies[].definition.hash"
	Type    string
	Default string // "required" if there is none; empty if the key may just be absent
}

// Keys returns every key that the file may have, in the order of the schema.
func Keys() []Key { return schema(Default()).keys(Key{}) }

// field is a key of a mapping.
type field struct {
	name     string
	fallback string // the default, as documented
	value    shape
}

// required marks a key without which the file is not complete.
const required = "required"

// object is a mapping with known keys.
type object struct {
	fields []field
	// missing says what to do about a required key that is not there.
	missing map[string]string
	// inOrder has the keys read in the order of fields, not in that of the file: what comes first is what others build on.
	inOrder bool
	// private says that no message shows what stands in the mapping's place: it may be a secret.
	private bool
	// done, if set, checks keys against each other.
	done func(p *parser, at place)
}

func (o object) read(p *parser, at place) {
	at = p.resolve(at)
	if at.node.Kind != yaml.MappingNode {
		p.fault(at, "is %s; give a mapping with the keys %s", describeUnless(o.private, at.node), o.names())
		return
	}
	seen := map[string]int{}
	for _, pair := range o.pairs(at.node) {
		o.readKey(p, at, seen, pair[0], pair[1])
	}
	for _, f := range o.fields {
		if _, ok := seen[f.name]; !ok && f.fallback == required {
			p.problem(at.node.Line, at.key(f.name), "is missing; %s", o.missing[f.name])
		}
	}
	if o.done != nil {
		o.done(p, at)
	}
}

// pairs returns the keys and values of a mapping in the order in which they are to be read.
func (o object) pairs(n *yaml.Node) (out [][2]*yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, [2]*yaml.Node{n.Content[i], n.Content[i+1]})
	}
	if o.inOrder {
		at := func(pair [2]*yaml.Node) int {
			return slices.IndexFunc(o.fields, func(f field) bool { return f.name == pair[0].Value })
		}
		slices.SortStableFunc(out, func(a, b [2]*yaml.Node) int { return cmp.Compare(at(a), at(b)) })
	}
	return out
}

func (o object) readKey(p *parser, at place, seen map[string]int, key, value *yaml.Node) {
	name := key.Value
	path := at.key(name)
	if name == "<<" {
		p.problem(key.Line, path, "merge keys are not supported; write the keys out")
		return
	}
	i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == name })
	if key.Kind != yaml.ScalarNode || i < 0 {
		p.problem(key.Line, at.key(keyName(key)), "unknown key; %s", o.suggest(name))
		return
	}
	if first, ok := seen[name]; ok {
		p.problem(key.Line, path, "is given twice, first on line %d; keep one of the two", first)
		return
	}
	seen[name] = key.Line
	o.fields[i].value.read(p, place{node: value, path: path})
}

// keyName is how a message names an unknown key.
func keyName(key *yaml.Node) string {
	if key.Kind != yaml.ScalarNode {
		return "(" + describe(key) + ")"
	}
	return clip(key.Value)
}

// suggest names the key that was probably meant, else all there are.
func (o object) suggest(name string) string {
	best, least := "", 3
	for _, f := range o.fields {
		if d := distance(strings.ToLower(strings.ReplaceAll(name, "_", "-")), f.name); d < least {
			best, least = f.name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "known here: " + o.names()
}

func (o object) names() string {
	var names []string
	for _, f := range o.fields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

func (o object) keys(k Key) []Key {
	var out []Key
	if k.Path != "" {
		k.Type = "mapping"
		out = append(out, k)
	}
	for _, f := range o.fields {
		path := place{path: k.Path}.key(f.name)
		out = append(out, f.value.keys(Key{Path: path, Default: f.fallback})...)
	}
	return out
}

// list is a sequence. The item function makes the shape of the next element
// and is called once per element.
type list struct {
	item    func() shape
	example string
	atLeast int
	private bool   // no message shows what stands in its place
	begin   func() // if set, is called before the first item
}

func (l list) read(p *parser, at place) {
	at = p.resolve(at)
	if at.node.Kind != yaml.SequenceNode {
		p.fault(at, "is %s; give a list, e.g. %s", describeUnless(l.private, at.node), l.example)
		return
	}
	if len(at.node.Content) < l.atLeast {
		p.fault(at, "is an empty list; give at least %d, e.g. %s", l.atLeast, l.example)
	}
	if l.begin != nil {
		l.begin()
	}
	for i, n := range at.node.Content {
		l.item().read(p, place{node: n, path: fmt.Sprintf("%s[%d]", at.path, i)})
	}
}

func (l list) keys(k Key) []Key {
	below := l.item().keys(Key{Path: k.Path + "[]"})
	k.Type = "list"
	if len(below) == 1 { // a list of scalars: one row says it all
		k.Type = "list of " + below[0].Type
		return []Key{k}
	}
	return append([]Key{k}, below[1:]...)
}
