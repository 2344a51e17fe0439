package config

import (
	"fmt"
	"strings"
)

// expand replaces ${NAME} by the variable's value and $$ by a single $. Any
// other $ stays as it is, so that "^images$" needs no escape. The values put
// in are not expanded again. All variables that are not set come back in
// unset, each once; err is set if a ${ is not well formed.
func expand(s string, lookup func(string) (string, bool)) (out string, unset []string, err error) {
	var b strings.Builder
	seen := map[string]bool{}
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			b.WriteString(s)
			return b.String(), unset, nil
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		switch {
		case strings.HasPrefix(s, "$"):
			b.WriteByte('$')
			s = s[1:]
		case strings.HasPrefix(s, "{"):
			name, rest, closed := strings.Cut(s[1:], "}")
			if !closed {
				return "", nil, fmt.Errorf("has a ${ without a closing }; write ${NAME}, or $${ for a literal ${")
			}
			if !isVariable(name) {
				return "", nil, fmt.Errorf("has ${%s}, which is no variable name; use letters, digits and _, or write $${ for a literal ${", name)
			}
			s = rest
			value, ok := lookup(name)
			if !ok && !seen[name] {
				seen[name] = true
				unset = append(unset, name)
			}
			b.WriteString(value)
		default:
			b.WriteByte('$')
		}
	}
}

// isVariable reports whether name can be an environment variable: a letter or
// underscore, then letters, digits and underscores.
func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
