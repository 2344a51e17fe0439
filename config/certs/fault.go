package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"
)

// Fault is an error of TLS, worded for who has to mend it.
type Fault struct {
	Text string // what is wrong; what to do
	Err  error  // as crypto/tls has it
}

// Error implements error.
func (e *Fault) Error() string { return e.Text }

// Unwrap returns the error of crypto/tls.
func (e *Fault) Unwrap() error { return e.Err }

// Alerts, RFC 8446 section 6.
const (
	AlertHandshakeFailure    = 40
	AlertBadCertificate      = 42
	AlertCertificateUnknown  = 46
	AlertUnknownCA           = 48
	AlertAccessDenied        = 49
	AlertProtocolVersion     = 70
	AlertUnrecognizedName    = 112
	AlertCertificateRequired = 116
)

// AlertOf returns the alert that the peer has sent, 0 for none. crypto/tls keeps its type to itself.
func AlertOf(err error) uint8 {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" && e.Err != nil {
		if v := reflect.ValueOf(e.Err); v.Kind() == reflect.Uint8 {
			return uint8(v.Uint())
		}
	}
	return 0
}

// RefusesCertificate reports whether an alert is about the certificate that was shown.
func RefusesCertificate(alert uint8) bool {
	return alert >= AlertBadCertificate && alert <= AlertCertificateUnknown || alert == AlertUnknownCA || alert == AlertAccessDenied
}

// Remedies is what to do where a broker is connected to: each ends a sentence that says what is wrong.
type Remedies struct {
	CA          string // its certificate is signed by nobody that is trusted
	Name        string // its certificate is for another name
	Required    string // it asks for a certificate
	MayRequire  string // it may ask for one
	Version     string // it does not speak this version of TLS
	UnknownName string // it does not know the name it is asked for
}

// Fault words an error of TLS as a *Fault, save for what the peer thinks of a certificate it was shown. Others are returned as they are.
func (r *Remedies) Fault(err error) error {
	text := ""
	switch alert := AlertOf(err); {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return r.unverified(err)
	case errors.As(err, new(tls.RecordHeaderError)):
		text = "it does not speak TLS on this port: give its port for TLS, usually 5671, or amqp:// to go without"
	case alert == AlertCertificateRequired:
		text = "it asks for a certificate" + r.Required
	case alert == AlertHandshakeFailure:
		text = fmt.Sprintf("it breaks the handshake off: it may ask for a certificate (%s), or for other ciphers", r.MayRequire)
	case alert == AlertProtocolVersion:
		text = "it does not speak this version of TLS: " + r.Version
	case alert == AlertUnrecognizedName:
		text = "it does not know the name it is asked for: " + r.UnknownName
	default:
		return err
	}
	return &Fault{Text: fmt.Sprintf("%s (%v)", text, err), Err: err}
}

// unverified says why a certificate is not believed. crypto/tls tells the time for one that has expired, and so never the same twice.
func (r *Remedies) unverified(err error) *Fault {
	text, cause := "its certificate is not good", err.Error()
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		text = "its certificate is signed by nobody that is trusted: " + r.CA
	case errors.As(err, new(x509.HostnameError)):
		text = "its certificate is for another name: " + r.Name
	case isInvalid && invalid.Reason == x509.Expired && invalid.Cert != nil:
		text = "its certificate has expired or is not valid yet: replace it at the broker"
		cause = fmt.Sprintf("x509: %q is valid from %s to %s", invalid.Cert.Subject, invalid.Cert.NotBefore.Format(time.RFC3339), invalid.Cert.NotAfter.Format(time.RFC3339))
	}
	return &Fault{Text: fmt.Sprintf("%s (%s)", text, cause), Err: err}
}
