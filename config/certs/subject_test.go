package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	commonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	organization = asn1.ObjectIdentifier{2, 5, 4, 10}
	domain       = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
)

// subject is a certificate's, with these parts in this order.
func subject(t require.TestingT, parts ...pkix.RelativeDistinguishedNameSET) Subject {
	raw, err := asn1.Marshal(pkix.RDNSequence(parts))
	require.NoError(t, err)
	return SubjectOf(&x509.Certificate{RawSubject: raw})
}

func part(all ...pkix.AttributeTypeAndValue) pkix.RelativeDistinguishedNameSET { return all }

func is(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

func TestSubjects(t *testing.T) {
	example := part(is(organization, "Example"))
	for text, parts := range map[string][]pkix.RelativeDistinguishedNameSET{
		"CN=app2,O=Example":                 {example, part(is(commonName, "app2"))},
		" cn = app2 , 2.5.4.10 = Example ":  {example, part(is(commonName, "app2"))},
		"O=Example,CN=app2":                 {part(is(commonName, "app2")), example},
		"CN=app2,CN=evil,O=Example":         {example, part(is(commonName, "evil")), part(is(commonName, "app2"))},
		"CN=app2+O=Example":                 {part(is(commonName, "app2"), is(organization, "Example"))},
		"O=Example+CN=app2":                 {part(is(commonName, "app2"), is(organization, "Example"))},
		`CN=app2\,O\=Example`:               {part(is(commonName, "app2,O=Example"))},
		`CN=\ a\\b\C3\A9\ ,DC=example,DC=y`: {part(is(domain, "y")), part(is(domain, "example")), part(is(commonName, ` a\bé `))},
		"CN=":                               {part(is(commonName, ""))},
		"1.2.3=x":                           {part(is(asn1.ObjectIdentifier{1, 2, 3}, "x"))},
	} {
		want, err := ParseSubject(text)
		require.NoError(t, err, text)
		require.Equal(t, want, subject(t, parts...), text)
	}
	for text, name := range map[string]string{"CN=app2,O=Example": "app2", `O=x+2.5.4.3=a\,b`: "a,b", "O=Example": "", "CN=a,CN=a": "", "CN=a+CN=b": ""} {
		s, err := ParseSubject(text)
		require.NoError(t, err, text)
		require.Equal(t, name, s.CommonName(), text)
	}
	require.Zero(t, subject(t), "none")
	require.Zero(t, subject(t, part(is(commonName, 5))), "no text")
	require.Zero(t, SubjectOf(&x509.Certificate{RawSubject: []byte("x")}))
	for _, bad := range []string{"", "app2", "=", "CN=a,", "CN=a,b", "XY=a", `CN="a"`, `CN=a\`, "CN=#0c0161", "CN=a=b", "/O=Example/CN=app2"} {
		_, err := ParseSubject(bad)
		require.ErrorIs(t, err, errSubject, bad)
	}
}

// Subjects are equal if, and only if, all that is in them is, whatever characters it has.
func TestSubjectsThatDiffer(t *testing.T) {
	type name struct {
		organization bool
		value        string
	}
	values := rapid.StringOfN(rapid.SampledFrom([]rune("ab ,+\"\\<>;=#é\x00\n")), 0, 4, -1)
	names := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) name {
		return name{rapid.Bool().Draw(t, "organization"), values.Draw(t, "value")}
	}), 1, 3)
	of := func(t *rapid.T, from []name) Subject {
		var all []pkix.RelativeDistinguishedNameSET
		for _, each := range from {
			oid := commonName
			if each.organization {
				oid = organization
			}
			all = append(all, part(is(oid, each.value)))
		}
		return subject(t, all...)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		one, other := of(t, a), of(t, b)
		require.Equal(t, slices.Equal(a, b), one == other)
		again, err := ParseSubject(one.String())
		require.NoError(t, err, one.String())
		require.Equal(t, one, again)
	})
}
