package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"reflect"
)

// tlsFault is an error of TLS, worded for who has to mend it.
type tlsFault struct {
	text string
	err  error
}

func (e *tlsFault) Error() string { return e.text }
func (e *tlsFault) Unwrap() error { return e.err }

// How TLS begins: what a client says, and an alert, the answer of a TLS listener to plain AMQP.
const (
	tlsAlertRecord     = 0x15
	tlsHandshakeRecord = 0x16
)

// setting is how a key of the file is called where it is to be set: flags are few.
func (as *upstreamAs) setting(key string) string {
	switch {
	case !as.flags:
		return key
	case key == "upstream.tls.ca":
		return "--upstream-ca"
	}
	return key + " in a file (--config)"
}

// answersTLS is the error of a node that was spoken to in plain.
func (as *upstreamAs) answersTLS() error {
	if as.flags {
		return errors.New("it speaks TLS on this port: give amqps:// in --upstream")
	}
	return errors.New("it speaks TLS on this port: give amqps:// with its address, or upstream.tls")
}

// Alerts, RFC 8446 section 6.
const (
	alertHandshakeFailure    = 40
	alertBadCertificate      = 42
	alertCertificateUnknown  = 46
	alertUnknownCA           = 48
	alertAccessDenied        = 49
	alertProtocolVersion     = 70
	alertUnrecognizedName    = 112
	alertCertificateRequired = 116
)

// alertOf returns the alert that the peer has sent, 0 for none. crypto/tls keeps its type to itself.
func alertOf(err error) uint8 {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" && e.Err != nil {
		if v := reflect.ValueOf(e.Err); v.Kind() == reflect.Uint8 {
			return uint8(v.Uint())
		}
	}
	return 0
}

// refusesCertificate reports whether an alert is about the certificate that was shown.
func refusesCertificate(alert uint8) bool {
	return alert >= alertBadCertificate && alert <= alertCertificateUnknown || alert == alertUnknownCA || alert == alertAccessDenied
}

// upstreamFault is fault as far as it does not depend on who has been shown to the node.
func (as *upstreamAs) upstreamFault(err error) error {
	text := ""
	alert := alertOf(err)
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		text = as.unverified(err)
	case errors.As(err, new(tls.RecordHeaderError)):
		text = "it does not speak TLS on this port: give its port for TLS, usually 5671, or amqp:// to go without"
	case alert == alertCertificateRequired:
		text = "it asks for a certificate: set " + as.setting("upstream.tls.cert and upstream.tls.key")
	case alert == alertHandshakeFailure:
		text = fmt.Sprintf("it breaks the handshake off: it may ask for a certificate (%s), or for other ciphers", as.setting("upstream.tls.cert"))
	case alert == alertProtocolVersion:
		text = "it does not speak this version of TLS: see " + as.setting("upstream.tls.min-version")
	case alert == alertUnrecognizedName:
		text = "it does not know the name it is asked for: see " + as.setting("upstream.tls.server-name")
	default:
		return err
	}
	return &tlsFault{text: fmt.Sprintf("%s (%v)", text, err), err: err}
}

// fault words what has gone wrong with TLS to a node on a connection that is made so.
func (as *upstreamAs) fault(err error) error {
	if _, ok := errors.AsType[*tlsFault](err); ok || err == nil {
		return err
	}
	whose, where := "the proxy's certificate", "upstream.tls.cert"
	if as.client {
		whose, where = fmt.Sprintf("the certificate of identity %q", as.identity), "upstream.tls.identities"
	}
	switch alert := alertOf(err); {
	case refusesCertificate(alert):
		return &tlsFault{text: fmt.Sprintf("it refuses %s: see %s (%v)", whose, where, err), err: err}
	case alert == alertCertificateRequired && as.tls.Leaf() != nil: // crypto/tls shows none that is by no CA which the peer has named
		return &tlsFault{text: fmt.Sprintf("it trusts other CAs than that of %s: see %s (%v)", whose, where, err), err: err}
	}
	return as.upstreamFault(err)
}

// unverified says why a node's certificate is not believed.
func (as *upstreamAs) unverified(err error) string {
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "its certificate is signed by nobody that is trusted: name the CA's file in " + as.setting("upstream.tls.ca")
	case errors.As(err, new(x509.HostnameError)):
		return "its certificate is for another name: set " + as.setting("upstream.tls.server-name") + " to one that is in it"
	case isInvalid && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet: replace it at the broker"
	}
	return "its certificate is not good"
}

// clientFault words what has gone wrong with TLS to a client.
func (s *session) clientFault(err error) error {
	if h, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return &tlsFault{text: fmt.Sprintf("no TLS: the connection begins with %q%s", h.RecordHeader[:], s.spokenInPlain(h.RecordHeader[:])), err: err}
	}
	text := "TLS: %v"
	switch alert := alertOf(err); {
	case refusesCertificate(alert):
		text = "TLS: the client refuses this listener's certificate: it does not trust the CA, or uses another name (%v)"
	case alert == alertProtocolVersion, alert == alertHandshakeFailure:
		text = "TLS: the client speaks neither version nor cipher that this listener does (%v)"
	}
	return &tlsFault{text: fmt.Sprintf(text, err), err: err}
}

// spokenInPlain guesses what a peer speaks that does not speak TLS.
func (s *session) spokenInPlain(begin []byte) string {
	if bytes.HasPrefix(begin, []byte("AMQP")) {
		return " (plain AMQP on a TLS listener)"
	}
	return s.spoken(begin)
}
