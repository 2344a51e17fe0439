package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Subject is the whole subject of certificates, in its order and with all that is in it. Two are equal if they say the same; the zero value is no
// certificate's.
//
// x509.Certificate.Subject does not do: it keeps one common name of several, and not the order.
type Subject struct{ text, commonName string }

// attributes are the names of RFC 2253, and those that openssl uses beside them. Of two for the same type the first is shown.
var attributes = []struct{ name, oid string }{
	{"CN", oidCommonName}, {"L", "2.5.4.7"}, {"ST", "2.5.4.8"}, {"O", "2.5.4.10"}, {"OU", "2.5.4.11"}, {"C", "2.5.4.6"}, {"STREET", "2.5.4.9"},
	{"DC", "0.9.2342.19200300.100.1.25"}, {"UID", "0.9.2342.19200300.100.1.1"},
	{"emailAddress", "1.2.840.113549.1.9.1"}, {"E", "1.2.840.113549.1.9.1"}, {"serialNumber", "2.5.4.5"}, {"SN", "2.5.4.4"}, {"GN", "2.5.4.42"},
	{"title", "2.5.4.12"}, {"postalCode", "2.5.4.17"},
}

const oidCommonName = "2.5.4.3"

// errSubject is what is wrong with a subject's text.
var errSubject = errors.New("not a subject in the form of RFC 2253")

// ParseSubject reads a subject in the form of RFC 2253: CN=app1,O=Example, the last part of the certificate's first, as
// "openssl x509 -noout -subject -nameopt RFC2253" prints it.
func ParseSubject(text string) (Subject, error) {
	var rdns, rdn, commonNames []string
	for rest, more := text, true; more; {
		name, after, ok := strings.Cut(rest, "=")
		oid, known := typeNamed(strings.TrimSpace(name))
		if !ok || !known {
			return Subject{}, fmt.Errorf("%w: %q is no attribute", errSubject, strings.TrimSpace(name))
		}
		value, end, err := unescape(after)
		if err != nil {
			return Subject{}, err
		}
		rdn = append(rdn, attribute(oid, value))
		if oid == oidCommonName {
			commonNames = append(commonNames, value)
		}
		if after[end:] == "" || after[end] != '+' {
			rdns, rdn = append(rdns, together(rdn)), nil
		}
		if more = after[end:] != ""; more {
			rest = after[end+1:]
		}
	}
	return Subject{strings.Join(rdns, ","), only(commonNames)}, nil
}

// SubjectOf is a certificate's; the zero value if there is none in it, or anything that is no text.
func SubjectOf(c *x509.Certificate) Subject {
	var names pkix.RDNSequence
	if rest, err := asn1.Unmarshal(c.RawSubject, &names); err != nil || len(rest) > 0 {
		return Subject{}
	}
	var rdns, commonNames []string
	for _, set := range slices.Backward(names) {
		var rdn []string
		for _, each := range set {
			value, ok := each.Value.(string)
			if !ok {
				return Subject{}
			}
			oid := each.Type.String()
			rdn = append(rdn, attribute(oid, value))
			if oid == oidCommonName {
				commonNames = append(commonNames, value)
			}
		}
		rdns = append(rdns, together(rdn))
	}
	return Subject{strings.Join(rdns, ","), only(commonNames)}
}

// String is the subject in the form of RFC 2253.
func (s Subject) String() string { return s.text }

// CommonName is the common name in it; "" if there is none, or more than one.
func (s Subject) CommonName() string { return s.commonName }

func only(all []string) string {
	if len(all) != 1 {
		return ""
	}
	return all[0]
}

// together are the attributes of one part, whose order says nothing.
func together(rdn []string) string {
	slices.Sort(rdn)
	return strings.Join(rdn, "+")
}

// attribute is one as all are written that are the same.
func attribute(oid, value string) string {
	name := oid
	for _, each := range slices.Backward(attributes) {
		if each.oid == oid {
			name = each.name
		}
	}
	var b strings.Builder
	b.WriteString(name + "=")
	for i, c := range []byte(value) {
		switch {
		case strings.IndexByte(`,+"\<>;=`, c) >= 0, i == 0 && (c == '#' || c == ' '), i == len(value)-1 && c == ' ':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%02X`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// typeNamed is the type with a name, or that is given by its numbers.
func typeNamed(name string) (oid string, ok bool) {
	for _, each := range attributes {
		if strings.EqualFold(each.name, name) || each.oid == name {
			return each.oid, true
		}
	}
	return name, strings.Contains(name, ".") && strings.Trim(name, "0123456789.") == ""
}

// unescape reads a value up to the comma or plus behind it, which is at end.
func unescape(text string) (value string, end int, err error) {
	var b []byte
	kept := 0 // without the spaces at the end that are not escaped
	for ; end < len(text) && text[end] != ',' && text[end] != '+'; end++ {
		c := text[end]
		switch {
		case c == '\\' && end+2 < len(text) && isHex(text[end+1]) && isHex(text[end+2]):
			pair, _ := hex.DecodeString(text[end+1 : end+3])
			b = append(b, pair...)
			end += 2
		case c == '\\' && end+1 < len(text):
			end++
			b = append(b, text[end])
		case c == ' ' && len(b) == 0:
			continue
		case c == ' ':
			b = append(b, c)
			continue
		case strings.IndexByte(`\"<>;=`, c) >= 0, c == '#' && len(b) == 0:
			return "", 0, fmt.Errorf(`%w: write \%c for %[2]c`, errSubject, c)
		default:
			b = append(b, c)
		}
		kept = len(b)
	}
	return string(b[:kept]), end, nil
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }
