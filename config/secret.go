package config

import (
	"fmt"
	"io"
)

// mask is printed in place of a secret, whatever its length.
const mask = "********"

// Secret is a string that prints as a mask with every formatting verb and in
// every text encoding. Convert it with string(s) where the value is needed.
type Secret string

// Format implements fmt.Formatter: all verbs, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// String returns the mask.
func (s Secret) String() string { return mask }

// MarshalText implements encoding.TextMarshaler, which JSON uses as well.
func (s Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalYAML implements yaml.Marshaler.
func (s Secret) MarshalYAML() (any, error) { return mask, nil }
