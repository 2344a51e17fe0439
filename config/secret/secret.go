// Package secret is the type of passwords, tokens and keys: text that is not shown by accident.
package secret

import (
	"fmt"
	"io"
)

// Mask is printed in place of a secret, whatever its length.
const Mask = "********"

// String is a string that prints as a mask with every formatting verb and in
// every text encoding. Convert it with string(s) where the value is needed.
type String string

// Format implements fmt.Formatter: all verbs, %#v and %x included.
func (s String) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mask) }

// String returns the mask.
func (s String) String() string { return Mask }

// MarshalText implements encoding.TextMarshaler, which JSON uses as well.
func (s String) MarshalText() ([]byte, error) { return []byte(Mask), nil }

// MarshalYAML implements yaml.Marshaler.
func (s String) MarshalYAML() (any, error) { return Mask, nil }
