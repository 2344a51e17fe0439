package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

const (
	structuredType = "application/cloudevents+json"
	specVersion    = event.CloudEventsVersionV1
	defaultType    = "shardmq.job"
)

// attributePrefixes are what the headers of messages that are CloudEvents begin with: as the AMQP binding has it, both
// ways, and as that of HTTP.
var attributePrefixes = []string{"cloudEvents:", "cloudEvents_", "ce-"}

// reservedAttributes cannot be the names of extensions.
var reservedAttributes = []string{"id", "source", "type", "subject", "time", "dataschema", "datacontenttype", "specversion", "data", "data_base64"}

// invalidError says why a message is no CloudEvent, though it says so. It holds nothing of the message.
type invalidError string

func (e invalidError) Error() string { return "the message is an invalid CloudEvent: " + string(e) }

// structured is the request of mode CloudStructured.
func (c *Client) structured(m *Message, h *headers) ([]byte, error) {
	if mediaType(m.ContentType) == structuredType {
		if _, _, err := parseEvent(m.Body); err != nil {
			return nil, err
		}
		h.setText("Content-Type", m.ContentType)
		return m.Body, nil
	}
	e, err := c.event(m)
	if err != nil {
		return nil, err
	}
	form, dataType := formOf(m.ContentType, m.Body)
	if len(m.Body) > 0 {
		e.SetDataContentType(dataType)
	}
	if coding := coding(m); coding != "" {
		e.SetExtension("contentencoding", coding)
	}
	out, err := e.MarshalJSON()
	if err != nil {
		return nil, err
	}
	h.set("Content-Type", structuredType+"; charset=UTF-8")
	if len(m.Body) == 0 {
		return out, nil
	}
	// The SDK takes the data of types that end with +json for text.
	out = append(out[:len(out)-1], `,"`+form.member()+`":`...)
	return append(form.append(out, m.Body), '}'), nil
}

// binary sets the headers of mode CloudEvent and returns the body.
func (c *Client) binary(m *Message, h *headers) ([]byte, error) {
	if mediaType(m.ContentType) == structuredType {
		e, data, err := parseEvent(m.Body)
		if err != nil {
			return nil, err
		}
		h.setText("Content-Type", e.DataContentType())
		attributes(h, e)
		return data, nil
	}
	e, err := c.event(m)
	if err != nil {
		return nil, err
	}
	content(h, m)
	attributes(h, e)
	return m.Body, nil
}

func attributes(h *headers, e event.Event) {
	set := func(name, value string) { h.set(eventPrefix+name, escape(value, eventOctet)) }
	set("specversion", specVersion)
	set("id", e.ID())
	set("source", e.Source())
	set("type", e.Type())
	set("subject", e.Subject())
	set("dataschema", e.DataSchema())
	if t := e.Time(); !t.IsZero() {
		set("time", types.FormatTime(t))
	}
	for name, v := range e.Extensions() {
		if text, err := types.Format(v); err == nil {
			set(name, text)
		}
	}
}

// event is the attributes of a message's event, without its data.
func (c *Client) event(m *Message) (event.Event, error) {
	e := event.New(specVersion)
	for _, prefix := range attributePrefixes {
		if version, is := m.Headers[prefix+"specversion"]; is {
			if version != specVersion {
				return e, invalidError("its specversion is not " + specVersion)
			}
			fromHeaders(&e, prefix, m.Headers)
			c.extend(&e, m)
			return e, validated(e)
		}
	}
	id := m.ID
	if clean(id) != id {
		id = escape(id, plain)
	}
	e.SetID(id)
	e.SetSource(c.eventSource(m))
	e.SetType(firstText(m.Type, c.o.Event.Type, defaultType))
	e.SetSubject(clean(m.RoutingKey))
	e.SetTime(m.Timestamp)
	c.extend(&e, m)
	return e, validated(e)
}

func (c *Client) eventSource(m *Message) string {
	if c.o.Event.Source != "" {
		return c.o.Event.Source
	}
	return "/queues/" + url.PathEscape(m.Queue)
}

// extend passes on chosen headers of the message as extension attributes.
func (c *Client) extend(e *event.Event, m *Message) {
	set := func(name string) {
		text, ok := valueText(m.Headers[name])
		if name = extensionName(name); ok && name != "" && len(text) <= maxValue && e.Extensions()[name] == nil {
			e.SetExtension(name, clean(text))
		}
	}
	if c.allProperties {
		for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
			if !slices.ContainsFunc(attributePrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
				set(name)
			}
		}
	}
	for _, name := range c.properties {
		set(name)
	}
}

// extensionName is a name as CloudEvents allow it: small letters and digits. "" = there is none.
func extensionName(name string) string {
	name = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	if slices.Contains(reservedAttributes, name) {
		return ""
	}
	return name
}

// fromHeaders takes the attributes from a message that is an event in binary mode.
func fromHeaders(e *event.Event, prefix string, table map[string]any) {
	for key, v := range table {
		name, is := strings.CutPrefix(key, prefix)
		text, ok := valueText(v)
		if !is || !ok {
			continue
		}
		switch text = clean(text); name {
		case "specversion", "datacontenttype", "data", "data_base64":
		case "id":
			e.SetID(text)
		case "source":
			e.SetSource(text)
		case "type":
			e.SetType(text)
		case "subject":
			e.SetSubject(text)
		case "dataschema":
			e.SetDataSchema(text)
		case "time":
			t, err := time.Parse(time.RFC3339, text)
			if err == nil {
				e.SetTime(t)
			}
		default:
			e.SetExtension(name, text)
		}
	}
}

// validated says which attributes are wrong.
func validated(e event.Event) error {
	err := e.Validate()
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[event.ValidationError](err); ok {
		return invalidError("look at its " + strings.Join(slices.Sorted(maps.Keys(wrong)), ", "))
	}
	return invalidError("look at its attributes")
}

// parseEvent reads an event in structured mode.
func parseEvent(body []byte) (e event.Event, data []byte, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return e, nil, invalidError("it is no JSON object")
	}
	if string(members["specversion"]) != `"`+specVersion+`"` {
		return e, nil, invalidError("its specversion is not " + specVersion)
	}
	// The SDK takes the data of types that end with +json for text.
	value, encoded := members["data"], members["data_base64"]
	delete(members, "data")
	delete(members, "data_base64")
	rest, err := json.Marshal(members)
	if err == nil {
		err = e.UnmarshalJSON(rest)
	}
	if err != nil {
		return e, nil, invalidError("its attributes cannot be read")
	}
	if err := validated(e); err != nil {
		return e, nil, err
	}
	text := ""
	switch {
	case encoded != nil:
		if json.Unmarshal(encoded, &data) != nil {
			return e, nil, invalidError("its data_base64 is no base64")
		}
		return e, data, nil
	case isJSON(e.DataContentType()) || e.DataContentType() == "" || json.Unmarshal(value, &text) != nil:
		return e, bytes.TrimSpace(value), nil
	}
	return e, []byte(text), nil
}

// mediaType is a content type without its parameters, in small letters; "" = it is none.
func mediaType(contentType string) string {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return t
}

// clean is text as CloudEvents allow it: no control characters, and no space around it.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// firstText is the first that is not empty when clean.
func firstText(texts ...string) string {
	for _, t := range texts {
		if t = clean(t); t != "" {
			return t
		}
	}
	return ""
}
