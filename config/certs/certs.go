// Package certs makes TLS configurations of PEM files, says what is wrong with the files, and replaces a configuration while connections
// go on that were made with the one before.
package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"strings"
)

// ClientAuth says whether a client has to show a certificate. One that is shown must be good in any case.
type ClientAuth string

// The ways; the zero value is Required.
const (
	Required ClientAuth = "require"
	Optional ClientAuth = "optional"
)

// ServerOptions configure the side that is connected to.
type ServerOptions struct {
	Cert, Key  string     // files: the certificate with its intermediates, and its key
	ClientCA   string     // file: who signs clients' certificates; "" = clients show none
	ClientAuth ClientAuth // with ClientCA only
	MinVersion uint16     // 0 = TLS 1.2
}

// ClientOptions configure the side that connects.
type ClientOptions struct {
	CA         string // file: who signs the servers' certificates; "" = whom the system trusts
	Cert, Key  string // files; "" = no certificate is shown
	ServerName string // that servers are asked for, and must prove; "" = the host that is connected to
	NoVerify   bool   // whoever answers is believed
	MinVersion uint16 // 0 = TLS 1.2
}

// Problem is one thing about a file.
type Problem struct {
	Key     string // as the configuration calls the file: cert, key, ca, client-ca
	Text    string // what is wrong; what to do
	Warning bool   // it does no harm yet
}

// Problems is everything about the files of one configuration.
type Problems []Problem

// Error returns those that are no warnings, one a line.
func (ps Problems) Error() string {
	var lines []string
	for _, p := range ps {
		if !p.Warning {
			lines = append(lines, p.Key+": "+p.Text)
		}
	}
	return strings.Join(lines, "\n")
}

// Fatal reports whether there is more than warnings.
func (ps Problems) Fatal() bool {
	for _, p := range ps {
		if !p.Warning {
			return true
		}
	}
	return false
}

func (ps *Problems) addf(key, format string, args ...any) {
	*ps = append(*ps, Problem{Key: key, Text: fmt.Sprintf(format, args...)})
}

func (ps *Problems) warnf(key, format string, args ...any) {
	*ps = append(*ps, Problem{Key: key, Text: fmt.Sprintf(format, args...), Warning: true})
}

// Loaded is a TLS configuration as the files were at one moment. It does not change.
type Loaded struct {
	config *tls.Config
	leaf   *x509.Certificate // nil: none is shown
	sum    [sha256.Size]byte // of all that it was made of
}

// Leaf is the certificate that is shown; nil for none.
func (l *Loaded) Leaf() *x509.Certificate { return l.leaf }

// Verifies reports whether peers may show a certificate, which must be good then: of LoadServer's.
func (l *Loaded) Verifies() bool { return l.config.ClientAuth != tls.NoClientCert }

// Same reports whether two say the same.
func (l *Loaded) Same(other *Loaded) bool { return l.sum == other.sum }

// LoadServer reads the files. It returns nil if there is more than warnings among the problems.
func LoadServer(o ServerOptions) (*Loaded, Problems) {
	f := &loader{}
	c := &tls.Config{MinVersion: max(o.MinVersion, tls.VersionTLS12)}
	leaf := f.keyPair(c, o.Cert, o.Key)
	if o.ClientCA != "" {
		var all []*x509.Certificate
		c.ClientCAs, all = f.pool("client-ca", o.ClientCA)
		f.signers("client-ca", o.ClientCA, all)
		c.ClientAuth = tls.RequireAndVerifyClientCert
		if o.ClientAuth == Optional {
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
		// A resumed session would go by what was true of the certificate when it was made.
		c.SessionTicketsDisabled = true
	}
	f.mix(string(o.ClientAuth), fmt.Sprint(c.MinVersion))
	return f.done(c, leaf)
}

// LoadClient reads the files. It returns nil if there is more than warnings among the problems.
func LoadClient(o ClientOptions) (*Loaded, Problems) {
	f := &loader{}
	c := &tls.Config{MinVersion: max(o.MinVersion, tls.VersionTLS12), ServerName: o.ServerName,
		InsecureSkipVerify: o.NoVerify} //nolint:gosec // asked for, and warned of
	var leaf *x509.Certificate
	if o.CA != "" {
		c.RootCAs, _ = f.pool("ca", o.CA)
	}
	if o.Cert != "" {
		leaf = f.keyPair(c, o.Cert, o.Key)
	}
	f.mix(o.ServerName, fmt.Sprint(o.NoVerify, c.MinVersion))
	return f.done(c, leaf)
}

func (f *loader) done(c *tls.Config, leaf *x509.Certificate) (*Loaded, Problems) {
	if f.problems.Fatal() {
		return nil, f.problems
	}
	return &Loaded{config: c, leaf: leaf, sum: sha256.Sum256(f.material)}, f.problems
}

// mix adds to what the sum is of.
func (f *loader) mix(parts ...string) {
	for _, p := range parts {
		f.material = binary.BigEndian.AppendUint64(f.material, uint64(len(p)))
		f.material = append(f.material, p...)
	}
}
