package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "B_2": "two", "E": "", "D": "${A}$$"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for in, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"${A}":           "1",
		"x${A}y${B_2}z":  "x1ytwoz",
		"${E}":           "",
		"${D}":           "${A}$$", // a value is not expanded again
		"$${A}":          "${A}",
		"$$${A}":         "$1",
		"$$":             "$",
		"$$$":            "$$",
		"$$$$":           "$$",
		"^images$":       "^images$",
		"^a$|^b$":        "^a$|^b$",
		"$A":             "$A",
		"$":              "$",
		"costs $5 {x} }": "costs $5 {x} }",
	} {
		got, unset, err := expand(in, lookup)
		require.NoError(t, err, in)
		require.Empty(t, unset, in)
		require.Equal(t, want, got, in)
	}
	_, unset, err := expand("${A}${X}${Y}${X}", lookup)
	require.NoError(t, err)
	require.Equal(t, []string{"X", "Y"}, unset)
	for _, in := range []string{"${", "${A", "${}", "${1A}", "${A-b}", "${A:-b}", "${ä}"} {
		_, _, err := expand(in, lookup)
		require.Error(t, err, in)
	}
}
