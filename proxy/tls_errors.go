package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/shardmq/shardmq/config/certs"
)

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

// remedies is what to do where the file, or the flags, say how nodes are connected to.
func (as *upstreamAs) remedies() *certs.Remedies {
	return &certs.Remedies{
		CA:          "name the CA's file in " + as.setting("upstream.tls.ca"),
		Name:        "set " + as.setting("upstream.tls.server-name") + " to one that is in it",
		Required:    ": set " + as.setting("upstream.tls.cert and upstream.tls.key"),
		MayRequire:  as.setting("upstream.tls.cert"),
		Version:     "see " + as.setting("upstream.tls.min-version"),
		UnknownName: "see " + as.setting("upstream.tls.server-name"),
	}
}

// fault words what has gone wrong with TLS to a node on a connection that is made so.
func (as *upstreamAs) fault(err error) error {
	if _, ok := errors.AsType[*certs.Fault](err); ok || err == nil {
		return err
	}
	whose, where := "the proxy's certificate", "upstream.tls.cert"
	if as.client {
		whose, where = fmt.Sprintf("the certificate of identity %q", as.identity), "upstream.tls.identities"
	}
	switch alert := certs.AlertOf(err); {
	case certs.RefusesCertificate(alert):
		return &certs.Fault{Text: fmt.Sprintf("it refuses %s: see %s (%v)", whose, where, err), Err: err}
	case alert == certs.AlertCertificateRequired && as.tls.Leaf() != nil: // crypto/tls shows none that is by no CA which the peer has named
		return &certs.Fault{Text: fmt.Sprintf("it trusts other CAs than that of %s: see %s (%v)", whose, where, err), Err: err}
	}
	return as.remedies().Fault(err)
}

// clientFault words what has gone wrong with TLS to a client.
func (s *session) clientFault(err error) error {
	if h, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return &certs.Fault{Text: fmt.Sprintf("no TLS: the connection begins with %q%s", h.RecordHeader[:], s.spokenInPlain(h.RecordHeader[:])), Err: err}
	}
	text := "TLS: %v"
	switch alert := certs.AlertOf(err); {
	case certs.RefusesCertificate(alert):
		text = "TLS: the client refuses this listener's certificate: it does not trust the CA, or uses another name (%v)"
	case alert == certs.AlertProtocolVersion, alert == certs.AlertHandshakeFailure:
		text = "TLS: the client speaks neither version nor cipher that this listener does (%v)"
	}
	return &certs.Fault{Text: fmt.Sprintf(text, err), Err: err}
}

// spokenInPlain guesses what a peer speaks that does not speak TLS.
func (s *session) spokenInPlain(begin []byte) string {
	if bytes.HasPrefix(begin, []byte("AMQP")) {
		return " (plain AMQP on a TLS listener)"
	}
	return s.spoken(begin)
}
