package target

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// failure says why there is no answer. The texts of errors are not shown unless they are known to hold nothing that the
// endpoint has sent.
func (w *wire) failure(err error) Outcome {
	if reason, is := w.unconnected(err); is {
		if trouble := w.trouble(); trouble != nil {
			reason += " (" + trouble.Error() + ")"
		}
		return Outcome{Verdict: Again, Class: Unreachable, Reason: reason}
	}
	o := Outcome{Verdict: Again, Class: Broken}
	errno, _ := errors.AsType[syscall.Errno](err)
	text := err.Error()
	switch {
	case errno != 0:
		o.Reason = "the connection broke before the answer was whole: " + errno.Error()
	case strings.Contains(text, "malformed"):
		o.Reason = "what came is no HTTP"
	case strings.Contains(text, "headers exceeded"):
		o.Reason = "the answer's headers are too long"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		o.Reason = "the connection ended before the answer was whole"
	default:
		o.Reason = "the connection broke before the answer was whole"
	}
	return o
}

// unconnected says why there is no connection, if there is none.
func (w *wire) unconnected(err error) (reason string, is bool) {
	if refused, ok := errors.AsType[proxyError](err); ok {
		return refused.Error(), true
	}
	op, _ := errors.AsType[*net.OpError](err)
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "there is no host " + dns.Name, true
		}
		return "the address of " + dns.Name + " cannot be found out", true
	}
	if op != nil && (op.Op == "dial" || op.Op == "proxyconnect") {
		return w.undialled(op), true
	}
	if why, ok := handshake(err, op); ok {
		return "no TLS with " + w.host + ": " + why, true
	}
	return "", false
}

func (w *wire) undialled(op *net.OpError) string {
	where := "no connection to " + w.host
	if op.Op == "proxyconnect" {
		where = "no connection to the proxy"
	}
	if errno, ok := errors.AsType[syscall.Errno](op.Err); ok {
		return where + ": " + errno.Error()
	}
	if op.Timeout() {
		return where + " in time"
	}
	return where
}

// handshake says what is wrong with TLS.
func handshake(err error, op *net.OpError) (why string, is bool) {
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return certificate(bad.Err), true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "what answers does not speak it", true
	}
	if op != nil && op.Op == "remote error" { // also later: with TLS 1.3 a certificate is refused after the handshake
		return "it answers " + strings.TrimPrefix(op.Err.Error(), "tls: "), true
	}
	if strings.Contains(err.Error(), "TLS handshake timeout") {
		return "no answer in time", true
	}
	if strings.Contains(err.Error(), "http2: client conn could not be established") { // it was over before HTTP began
		return "it has closed the connection; does it want another certificate (tls.cert)?", true
	}
	if text, ok := strings.CutPrefix(err.Error(), "tls: "); ok {
		return text, true
	}
	return "", false
}

// certificate says what is wrong with one.
func certificate(err error) string {
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok && bad.Reason == x509.Expired {
		return "its certificate has expired, or is not valid yet"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its certificate is for another host"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by nobody who is trusted; give tls.ca"
	}
	return err.Error()
}
