package target

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// datum is how a body is put into JSON.
type datum int

const (
	asJSON   datum = iota // it is JSON already
	asText                // a string
	asBase64              // what is neither
)

// formOf says how a body is put into JSON, and of which type it is then. Where a message does not say, or not in a way
// that can be read, JSON objects and arrays are taken for JSON, and other text for text.
func formOf(contentType string, body []byte) (datum, string) {
	known := mediaType(contentType) != ""
	trimmed := bytes.TrimSpace(body)
	mayBe := isJSON(contentType) || !known && len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
	form, otherwise := asBase64, "application/octet-stream"
	switch {
	case !utf8.Valid(body):
	case mayBe && json.Valid(body):
		form, otherwise = asJSON, "application/json"
	case !isJSON(contentType):
		form, otherwise = asText, "text/plain; charset=utf-8"
	}
	if known {
		return form, contentType
	}
	return form, otherwise
}

// isJSON reports whether bodies of a type are JSON.
func isJSON(contentType string) bool {
	t := mediaType(contentType)
	return t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json")
}

// member is the name under which it stands.
func (d datum) member() string {
	if d == asBase64 {
		return "data_base64"
	}
	return "data"
}

// append appends a body to JSON.
func (d datum) append(out, body []byte) []byte {
	switch d {
	case asJSON:
		return append(out, body...)
	case asText:
		return appendJSON(out, string(body))
	case asBase64:
	}
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, body)
	return append(out, '"')
}

// appendJSON appends a value, which is one that JSON has.
func appendJSON(out []byte, v any) []byte {
	b := bytes.NewBuffer(out)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only of our own types
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
