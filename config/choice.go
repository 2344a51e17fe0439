package config

import (
	"cmp"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// choice is either a word or a mapping.
type choice struct {
	word   scalar
	object object
}

func (c choice) read(p *parser, at place) {
	at = p.resolve(at)
	if at.node.Kind == yaml.MappingNode {
		c.object.read(p, at)
		return
	}
	word := c.word
	word.want += ", or a mapping with one of " + c.object.names()
	word.set = func(v string) error {
		if c.word.set(v) != nil {
			return fmt.Errorf("is %q; give %s", clip(v), word.want)
		}
		return nil
	}
	word.read(p, at)
}

func (c choice) keys(k Key) []Key {
	out := c.object.keys(k)
	out[0].Type = c.word.kind + ", mapping"
	return out
}

// arguments is a mapping of any names to text, whole numbers and truth values,
// as AMQP's arguments of a queue are.
type arguments struct{ dst *map[string]any }

func (a arguments) keys(k Key) []Key {
	k.Type = "mapping"
	return []Key{k}
}

func (a arguments) read(p *parser, at place) {
	at = p.resolve(at)
	if at.node.Kind != yaml.MappingNode {
		p.fault(at, "is %s; give a mapping, e.g. {x-queue-type: quorum}", describe(at.node))
		return
	}
	*a.dst = map[string]any{}
	lines := map[string]int{}
	for i := 0; i+1 < len(at.node.Content); i += 2 {
		a.readOne(p, at, lines, at.node.Content[i], at.node.Content[i+1])
	}
}

func (a arguments) readOne(p *parser, at place, lines map[string]int, key, value *yaml.Node) {
	path := at.key(cmp.Or(keyName(key), `""`))
	switch first, twice := lines[key.Value]; {
	case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Value == "" || len(key.Value) > maxName:
		p.problem(key.Line, path, "is no argument's name; give text of 1 to %d bytes, e.g. x-queue-type", maxName)
		return
	case twice:
		p.problem(key.Line, path, "is given twice, first on line %d; keep one of the two", first)
		return
	}
	lines[key.Value] = key.Line
	scalar{want: "text, a whole number, true or false", any: true, set: func(v string) error {
		typed, err := argument(value, v)
		(*a.dst)[key.Value] = typed
		return err
	}}.read(p, place{node: value, path: path})
}

// argument is a value with the type that YAML gives it. What has a variable in
// it is text.
func argument(n *yaml.Node, v string) (any, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	var err error
	switch n.ShortTag() {
	case "!!int":
		var number int64
		err = n.Decode(&number)
		if err != nil {
			err = fmt.Errorf("is %s; give a whole number of at most 64 bits", clip(v))
		}
		return number, err
	case "!!bool":
		var truth bool
		err = n.Decode(&truth)
		return truth, err
	}
	return v, nil
}
