package spec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames/spec"
)

func TestParse(t *testing.T) {
	d, err := spec.Parse(`
# comment
code 404 not-found channel   # trailing comment
class one 1
property shortstr a b
method ask 10 both content -> tell
  bit x y
  table z
method tell 11 server
`)
	require.NoError(t, err)
	require.Equal(t, &spec.Definitions{
		Codes: []spec.Code{{Value: 404, Name: "not-found", Scope: "channel"}},
		Classes: []spec.Class{{
			Name: "one", ID: 1,
			Properties: []spec.Field{{Name: "a", Type: "shortstr"}, {Name: "b", Type: "shortstr"}},
			Methods: []spec.Method{
				{
					Name: "ask", ID: 10, FromClient: true, FromServer: true, Content: true, Replies: []string{"tell"},
					Fields: []spec.Field{{Name: "x", Type: "bit"}, {Name: "y", Type: "bit"}, {Name: "z", Type: "table"}},
				},
				{Name: "tell", ID: 11, FromServer: true},
			},
		}},
	}, d)
}

func TestParseErrors(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"unknown statement":    {"klass a 1", `line 1: unknown statement "klass"`},
		"code words":           {"code 404 x", "line 1: want: code"},
		"code number":          {"code 70000 x none", `line 1: number "70000"`},
		"code scope":           {"code 404 x both", `unknown scope "both"`},
		"class words":          {"\nclass a", "line 2: want: class"},
		"class number":         {"class a x", `number "x"`},
		"property too early":   {"property bit a", "property outside a class"},
		"method too early":     {"method a 1 client", "method outside a class"},
		"method words":         {"class a 1\nmethod b 1", "line 2: want: method"},
		"method number":        {"class a 1\nmethod b -1 client", `number "-1"`},
		"sender":               {"class a 1\nmethod b 1 broker", `unknown sender "broker"`},
		"arrow":                {"class a 1\nmethod b 1 client c", `got "c"`},
		"arrow without method": {"class a 1\nmethod b 1 client ->", `got "->"`},
		"unknown reply":        {"class a 1\nmethod b 1 client -> c", `a.b: unknown reply "c"`},
		"method number twice":  {"class a 1\nmethod b 1 client\nmethod c 1 client", "method c 1 is there twice"},
		"method name twice":    {"class a 1\nmethod b 1 client\nmethod b 2 client", "method b 2 is there twice"},
		"type":                 {"class a 1\nmethod b 1 client\nword x", `unknown type "word"`},
		"argument names":       {"class a 1\nmethod b 1 client\nbit", "want: TYPE NAME"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := spec.Parse(tt.text)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
