package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar is a single value. The set function gets the value after expansion;
// an error it returns is reported at the value's place.
type scalar struct {
	kind string // as documented
	// want completes "is ...; give ...", for a value of the wrong type.
	want string
	// number says that plain YAML numbers are accepted, whole ones only.
	number  bool
	any     bool // truth values are accepted as well as numbers and text
	decimal bool // plain YAML numbers with a point are accepted
	secret  bool // never shown in a message
	set     func(v string) error
}

func (s scalar) keys(k Key) []Key {
	k.Type = s.kind
	return []Key{k}
}

func (s scalar) read(p *parser, at place) {
	at = p.resolve(at)
	if at.node.Kind != yaml.ScalarNode || isNull(at.node) {
		p.fault(at, "is %s; give %s", describe(at.node), s.want)
		return
	}
	v, expanded, ok := s.expand(p, at)
	if !ok || !s.typed(p, at, expanded) {
		return
	}
	if err := s.set(v); err != nil {
		p.fault(at, "%s", err)
	}
}

// expand replaces the variables in a value of type text. Others have none.
func (s scalar) expand(p *parser, at place) (v string, expanded, ok bool) {
	if at.node.ShortTag() != "!!str" {
		return at.node.Value, false, true
	}
	v, unset, err := expand(at.node.Value, p.lookup)
	switch {
	case err != nil && s.secret:
		p.fault(at, "has a ${ that is not part of ${NAME}; write $${ for a literal ${")
		return "", false, false
	case err != nil:
		p.fault(at, "%s", err)
		return "", false, false
	}
	for _, name := range unset {
		p.fault(at, "the environment variable %s is not set; set it before starting shardmq, "+
			"or write $${%s} if that text is meant", name, name)
	}
	return v, strings.Contains(at.node.Value, "${"), len(unset) == 0
}

// typed checks the YAML type. Text is a number where it comes from a variable:
// a variable's value has no YAML type, and flow style forces quotes on ${}.
func (s scalar) typed(p *parser, at place, expanded bool) bool {
	tag := at.node.ShortTag()
	switch {
	case tag == "!!str" && (!s.number || expanded), (s.number || s.any) && tag == "!!int", s.any && tag == "!!bool", s.decimal && tag == "!!float":
		return true
	case s.secret:
		p.fault(at, "is not text; give %s, in quotes", s.want)
	case s.kind == "text" && tag != "!!binary":
		p.fault(at, "is %s; give %s, in quotes", describe(at.node), s.want)
	default:
		p.fault(at, "is %s; give %s", describe(at.node), s.want)
	}
	return false
}

// text is a string of at most 255 bytes, AMQP's limit for names.
func text(want string, set func(string) error) scalar {
	return scalar{kind: "text", want: want, set: func(v string) error {
		if len(v) > maxName {
			return fmt.Errorf("is %d bytes long; give %s of at most %d bytes", len(v), want, maxName)
		}
		return set(v)
	}}
}

// maxName is the longest short string of AMQP 0-9-1 (section 4.2.5.3).
const maxName = 255

// filled is text that may not be empty.
func filled(want string, dst *string) scalar {
	return text(want, func(v string) error {
		if v == "" {
			return fmt.Errorf("is empty; give %s", want)
		}
		*dst = v
		return nil
	})
}

// secret is text that no message shows.
func secret(want string, dst *Secret) scalar {
	s := filled(want, (*string)(dst))
	s.secret = true
	return s
}

// whole is a whole number from lo to hi.
func whole(lo, hi int, dst *int) scalar {
	want := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if lo == math.MinInt32 {
		want = "a whole number"
	}
	return scalar{kind: "number", want: want, number: true, set: func(v string) error {
		n, err := strconv.ParseInt(strings.ReplaceAll(v, "_", ""), 0, 64)
		if err != nil || n < int64(lo) || n > int64(hi) {
			return fmt.Errorf("is %s; give %s", clip(v), want)
		}
		*dst = int(n)
		return nil
	}}
}

// maxDuration bounds every time limit: a longer one is a slip of the unit.
const maxDuration = time.Hour

// duration is a positive length of time of at most maxDuration.
func duration(dst *time.Duration) scalar { return durationBetween(0, maxDuration, dst) }

// durationBetween is a positive length of time within bounds.
func durationBetween(least, most time.Duration, dst *time.Duration) scalar {
	const want = "a duration with its unit, such as 5s, 500ms or 1m30s"
	return scalar{kind: "duration", want: want, set: func(v string) error {
		d, err := time.ParseDuration(v)
		switch {
		case err != nil:
			return fmt.Errorf("is %q; give %s", clip(v), want)
		case d <= 0:
			return fmt.Errorf("is %s; give a duration above zero", v)
		case d < least:
			return fmt.Errorf("is %s; give at least %s", v, least)
		case d > most:
			return fmt.Errorf("is %s; give at most %s", v, most)
		}
		*dst = d
		return nil
	}}
}

// truth is true or false.
func truth(dst *bool) scalar {
	s := oneOf(func(v string) { *dst = v == "true" }, "true", "false")
	s.any = true
	return s
}

// oneOf is one of a few words.
func oneOf(set func(string), words ...string) scalar {
	want := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	if len(words) == 1 {
		want = words[0] + ", or leave the key out"
	}
	return scalar{kind: strings.Join(words, ", "), want: want, set: func(v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("is %q; give %s", clip(v), want)
		}
		set(v)
		return nil
	}}
}
