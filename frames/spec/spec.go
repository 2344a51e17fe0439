// Package spec reads the protocol definitions that the frames package is generated from.
package spec

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Text is the definition file; its head describes the format.
//
//go:embed amqp091.txt
var Text string

// Definitions is the parsed file, everything in file order.
type Definitions struct {
	Codes   []Code
	Classes []Class
}

// Code is one reply code. Scope is "channel", "connection" or "none".
type Code struct {
	Value uint16
	Name  string
	Scope string
}

// Class is one class with its content properties and methods.
type Class struct {
	Name       string
	ID         uint16
	Properties []Field
	Methods    []Method
}

// Method is one method. Replies are names of methods of the same class.
type Method struct {
	Name       string
	ID         uint16
	FromClient bool
	FromServer bool
	Content    bool
	Replies    []string
	Fields     []Field
}

// Field is one argument or property.
type Field struct {
	Name string
	Type string
}

var types = []string{"bit", "octet", "short", "long", "longlong", "timestamp", "shortstr", "longstr", "table"}

// Parse reads definitions. Errors name the line.
func Parse(text string) (*Definitions, error) {
	d := new(Definitions)
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := d.statement(words); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Definitions) statement(words []string) error {
	switch words[0] {
	case "code":
		return d.code(words[1:])
	case "class":
		return d.class(words[1:])
	case "property":
		c := d.lastClass()
		if c == nil {
			return fmt.Errorf("property outside a class")
		}
		return addFields(&c.Properties, words[1:])
	case "method":
		return d.method(words[1:])
	}
	c := d.lastClass()
	if c == nil || len(c.Methods) == 0 {
		return fmt.Errorf("unknown statement %q, or an argument outside a method", words[0])
	}
	return addFields(&c.Methods[len(c.Methods)-1].Fields, words)
}

func (d *Definitions) lastClass() *Class {
	if len(d.Classes) == 0 {
		return nil
	}
	return &d.Classes[len(d.Classes)-1]
}

func (d *Definitions) code(words []string) error {
	if len(words) != 3 {
		return fmt.Errorf("want: code NUMBER NAME SCOPE")
	}
	v, err := number(words[0])
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"channel", "connection", "none"}, words[2]) {
		return fmt.Errorf("unknown scope %q", words[2])
	}
	d.Codes = append(d.Codes, Code{Value: v, Name: words[1], Scope: words[2]})
	return nil
}

func (d *Definitions) class(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("want: class NAME NUMBER")
	}
	id, err := number(words[1])
	if err != nil {
		return err
	}
	d.Classes = append(d.Classes, Class{Name: words[0], ID: id})
	return nil
}

func (d *Definitions) method(words []string) error {
	c := d.lastClass()
	if c == nil {
		return fmt.Errorf("method outside a class")
	}
	if len(words) < 3 {
		return fmt.Errorf("want: method NAME NUMBER SENDER [content] [-> REPLY...]")
	}
	id, err := number(words[1])
	if err != nil {
		return err
	}
	m := Method{
		Name:       words[0],
		ID:         id,
		FromClient: words[2] == "client" || words[2] == "both",
		FromServer: words[2] == "server" || words[2] == "both",
	}
	if !m.FromClient && !m.FromServer {
		return fmt.Errorf("unknown sender %q", words[2])
	}
	words = words[3:]
	if len(words) > 0 && words[0] == "content" {
		m.Content = true
		words = words[1:]
	}
	if len(words) > 0 {
		if words[0] != "->" || len(words) == 1 {
			return fmt.Errorf("want \"-> REPLY...\", got %q", strings.Join(words, " "))
		}
		m.Replies = words[1:]
	}
	c.Methods = append(c.Methods, m)
	return nil
}

func addFields(to *[]Field, words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("want: TYPE NAME...")
	}
	if !slices.Contains(types, words[0]) {
		return fmt.Errorf("unknown type %q", words[0])
	}
	for _, name := range words[1:] {
		*to = append(*to, Field{Name: name, Type: words[0]})
	}
	return nil
}

func number(s string) (uint16, error) {
	v, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("number %q: %w", s, err)
	}
	return uint16(v), nil
}

// check refuses what would not compile or could not be told apart on the wire.
func (d *Definitions) check() error {
	for _, c := range d.Classes {
		ids := make(map[uint16]string)
		names := make(map[string]bool)
		for _, m := range c.Methods {
			if other, dup := ids[m.ID]; dup || names[m.Name] {
				return fmt.Errorf("class %s: method %s %d is there twice (%s)", c.Name, m.Name, m.ID, other)
			}
			ids[m.ID] = m.Name
			names[m.Name] = true
		}
		for _, m := range c.Methods {
			for _, r := range m.Replies {
				if !names[r] {
					return fmt.Errorf("%s.%s: unknown reply %q", c.Name, m.Name, r)
				}
			}
		}
	}
	return nil
}
