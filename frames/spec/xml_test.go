package spec_test

import (
	"encoding/xml"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames/spec"
)

// xmlPath is where Debian's package amqp-specs puts the protocol definition with RabbitMQ's extensions.
const xmlPath = "/usr/share/amqp/specs/0-9-1-rabbit/amqp0-9-1.stripped.extended.xml"

type xmlField struct {
	Name     string `xml:"name,attr"`
	Domain   string `xml:"domain,attr"`
	Type     string `xml:"type,attr"`
	Reserved string `xml:"reserved,attr"`
}

type xmlSpec struct {
	Constants []struct {
		Name  string `xml:"name,attr"`
		Value uint16 `xml:"value,attr"`
		Class string `xml:"class,attr"`
	} `xml:"constant"`
	Domains []struct {
		Name string `xml:"name,attr"`
		Type string `xml:"type,attr"`
	} `xml:"domain"`
	Classes []struct {
		Name    string     `xml:"name,attr"`
		Index   uint16     `xml:"index,attr"`
		Fields  []xmlField `xml:"field"`
		Methods []struct {
			Name    string `xml:"name,attr"`
			Index   uint16 `xml:"index,attr"`
			Content string `xml:"content,attr"`
			Chassis []struct {
				Name string `xml:"name,attr"`
			} `xml:"chassis"`
			Responses []struct {
				Name string `xml:"name,attr"`
			} `xml:"response"`
			Fields []xmlField `xml:"field"`
		} `xml:"method"`
	} `xml:"class"`
}

func loadXML(t *testing.T) *xmlSpec {
	t.Helper()
	b, err := os.ReadFile(xmlPath)
	require.NoError(t, err, "this test compares with the official definition; install it: apt-get install amqp-specs")
	x := new(xmlSpec)
	require.NoError(t, xml.Unmarshal(b, x))
	return x
}

// missing is what RabbitMQ speaks beyond the XML, written down a second time here.
var missing = map[string]spec.Method{
	"connection.blocked": {
		Name: "blocked", ID: 60, FromServer: true, Fields: []spec.Field{{Name: "reason", Type: "shortstr"}},
	},
	"connection.unblocked": {Name: "unblocked", ID: 61, FromServer: true},
	"connection.update-secret": {
		Name: "update-secret", ID: 70, FromClient: true, Replies: []string{"update-secret-ok"},
		Fields: []spec.Field{{Name: "new-secret", Type: "longstr"}, {Name: "reason", Type: "shortstr"}},
	},
	"connection.update-secret-ok": {Name: "update-secret-ok", ID: 71, FromServer: true},
	"access.request": {
		Name: "request", ID: 10, FromClient: true, Replies: []string{"request-ok"},
		Fields: []spec.Field{
			{Name: "realm", Type: "shortstr"}, {Name: "exclusive", Type: "bit"}, {Name: "passive", Type: "bit"},
			{Name: "active", Type: "bit"}, {Name: "write", Type: "bit"}, {Name: "read", Type: "bit"},
		},
	},
	"access.request-ok": {Name: "request-ok", ID: 11, FromServer: true, Fields: []spec.Field{{Name: "ticket", Type: "short"}}},
}

func TestMethodsMatchTheXML(t *testing.T) {
	x := loadXML(t)
	want := xmlMethods(t, x)
	require.Len(t, want, 60)
	for name, m := range missing {
		require.NotContains(t, want, name)
		want[name] = m
	}
	// The XML does not say what answers basic.recover; the specification's text and RabbitMQ do.
	unanswered := want["basic.recover"]
	require.Empty(t, unanswered.Replies)
	unanswered.Replies = []string{"recover-ok"}
	want["basic.recover"] = unanswered

	d, err := spec.Parse(spec.Text)
	require.NoError(t, err)
	got := map[string]spec.Method{}
	for _, c := range d.Classes {
		for _, m := range c.Methods {
			got[c.Name+"."+m.Name] = m
		}
	}
	require.Len(t, got, 66)
	for name, w := range want {
		require.Equal(t, w, got[name], name)
	}
}

// xmlMethods turns the XML's methods into ours, by full name.
func xmlMethods(t *testing.T, x *xmlSpec) map[string]spec.Method {
	t.Helper()
	out := map[string]spec.Method{}
	for _, c := range x.Classes {
		for _, xm := range c.Methods {
			m := spec.Method{Name: xm.Name, ID: xm.Index, Content: xm.Content == "1", Fields: fields(t, x, xm.Fields)}
			// The XML names who must accept a method, the definition file who sends it.
			for _, ch := range xm.Chassis {
				m.FromServer = m.FromServer || ch.Name == "client"
				m.FromClient = m.FromClient || ch.Name == "server"
			}
			for _, r := range xm.Responses {
				m.Replies = append(m.Replies, r.Name)
			}
			out[c.Name+"."+xm.Name] = m
		}
	}
	return out
}

func fields(t *testing.T, x *xmlSpec, in []xmlField) []spec.Field {
	t.Helper()
	var out []spec.Field
	for _, f := range in {
		typ := f.Type
		if typ == "" {
			for _, d := range x.Domains {
				if d.Name == f.Domain {
					typ = d.Type
				}
			}
		}
		require.NotEmpty(t, typ, f.Name)
		name := f.Name
		switch {
		case f.Reserved == "1" && typ == "short":
			name = "ticket" // what it was before it was reserved, and what RabbitMQ calls it
		case name == "nowait":
			name = "no-wait" // confirm.select spells it unlike all others
		}
		out = append(out, spec.Field{Name: name, Type: typ})
	}
	return out
}

func TestClassesMatchTheXML(t *testing.T) {
	x := loadXML(t)
	d, err := spec.Parse(spec.Text)
	require.NoError(t, err)
	want := map[string]uint16{"access": 30}
	for _, c := range x.Classes {
		want[c.Name] = c.Index
	}
	got := map[string]uint16{}
	for _, c := range d.Classes {
		got[c.Name] = c.ID
		for _, xc := range x.Classes {
			if xc.Name == c.Name {
				require.Equal(t, fields(t, x, xc.Fields), c.Properties, c.Name)
			}
		}
	}
	require.Equal(t, want, got)
}

func TestCodesMatchTheXML(t *testing.T) {
	x := loadXML(t)
	d, err := spec.Parse(spec.Text)
	require.NoError(t, err)
	// NO_ROUTE is in the specification's text, not in the XML.
	want := map[spec.Code]bool{{Value: 312, Name: "no-route", Scope: "channel"}: true}
	for _, c := range x.Constants {
		switch {
		case c.Class == "soft-error":
			want[spec.Code{Value: c.Value, Name: c.Name, Scope: "channel"}] = true
		case c.Class == "hard-error":
			want[spec.Code{Value: c.Value, Name: c.Name, Scope: "connection"}] = true
		case c.Name == "reply-success":
			want[spec.Code{Value: c.Value, Name: c.Name, Scope: "none"}] = true
		}
	}
	got := map[spec.Code]bool{}
	for _, c := range d.Codes {
		require.False(t, got[c], "%s twice", c.Name)
		got[c] = true
	}
	require.Equal(t, want, got)
}
