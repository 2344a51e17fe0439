package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/router"
)

// Identity is a certificate that the proxy shows to nodes in a client's stead, so that the client can log in with SASL EXTERNAL: RabbitMQ goes by
// the certificate of the connection it sees.
type Identity struct {
	Name string // as listeners name it
	// Whose it is: of those that have shown a certificate which the listener has verified, the one with this common name, or with this
	// subject. With neither it is given to nobody but the listeners that name it.
	CommonName string
	Subject    certs.Subject
	TLS        *certs.Live // Options.UpstreamTLS with the identity's certificate and key
}

// has reports whether the identity is the one of a verified certificate.
func (i *Identity) has(leaf *x509.Certificate) bool {
	if i.CommonName != "" {
		cn, ok := commonName(leaf)
		return ok && cn == i.CommonName
	}
	return i.Subject != certs.Subject{} && certs.SubjectOf(leaf) == i.Subject
}

var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// commonName is the common name of a certificate's subject, if there is exactly one: which of several counts is not agreed on.
func commonName(c *x509.Certificate) (name string, ok bool) {
	for _, each := range c.Subject.Names {
		if !each.Type.Equal(oidCommonName) {
			continue
		}
		if ok {
			return "", false
		}
		name, ok = each.Value.(string)
		if !ok || name == "" {
			return "", false
		}
	}
	return name, ok
}

// identity is the one that a client gets, nil for none: its listener's, else the one of its certificate.
func (o *Options) identity(from *Listener, state *tls.ConnectionState) *Identity {
	for i := range o.Identities {
		each := &o.Identities[i]
		if from.Identity != "" && each.Name == from.Identity {
			return each
		}
		if from.Identity == "" && state != nil && len(state.VerifiedChains) > 0 && each.has(state.PeerCertificates[0]) {
			return each
		}
	}
	return nil
}

// speakFor is how the session's upstream connection begins: whose address it tells, whose certificate it shows.
func (s *session) speakFor() (upstreamAs, error) {
	preamble, err := s.srv.o.ProxyProtocol.header(&s.origin, s.tls)
	as := upstreamAs{preamble: preamble, tls: s.srv.o.UpstreamTLS.Loaded()}
	if mine := s.srv.o.identity(&s.from, s.tls); mine != nil {
		as.tls, as.client, as.identity = mine.TLS.Loaded(), true, mine.Name
	}
	return as, err
}

// certificate says whose certificate, if any, the broker has seen on a connection to the node that was made so.
func (as *upstreamAs) certificate(n *node) router.Certificate {
	switch {
	case !n.TLS || as.tls.Leaf() == nil:
		return router.NoCertificate
	case as.client:
		return router.ClientCertificate
	}
	return router.ProxyCertificate
}
