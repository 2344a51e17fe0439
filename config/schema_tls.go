package config

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/shardmq/shardmq/config/certs"
)

// listenerTLS is how a listener serves clients with TLS.
func listenerTLS(dst **certs.ServerOptions) object {
	o := &certs.ServerOptions{ClientAuth: certs.Required, MinVersion: tls.VersionTLS12}
	return object{
		fields: []field{
			{"cert", required, pemFile("the path of a PEM file with the certificate", &o.Cert)},
			{"key", required, pemFile("the path of a PEM file with the certificate's key", &o.Key)},
			{"client-ca", "", pemFile("the path of a PEM file with CA certificates", &o.ClientCA)},
			{"client-auth", string(certs.Required), oneOf(func(v string) { o.ClientAuth = certs.ClientAuth(v) },
				string(certs.Required), string(certs.Optional))},
			{"min-version", "1.2", tlsVersion(&o.MinVersion)},
		},
		missing: map[string]string{
			"cert": "give the path of a PEM file with the listener's certificate, e.g. cert: server.pem",
			"key":  "give the path of a PEM file with the certificate's key, e.g. key: server.key",
		},
		done: func(p *parser, at place) {
			*dst = o
			if p.given(at, "client-auth") && !p.given(at, "client-ca") {
				p.faultAt(at.key("client-auth"), "has no effect without client-ca; add client-ca with the CA of the clients' certificates, or leave it out")
			}
			p.resolvePaths(&o.Cert, &o.Key, &o.ClientCA)
			if o.Cert != "" && o.Key != "" && p.files {
				_, found := certs.LoadServer(*o)
				p.certificates(at, found)
			}
		},
	}
}

// upstreamTLS is how the proxy connects to nodes with TLS.
func upstreamTLS(dst **certs.ClientOptions, all *[]Identity) object {
	o := &certs.ClientOptions{}
	shared := clientTLS(o, field{"server-name", "the host of the node's address", serverName(&o.ServerName)},
		"a node's address is believed, and is told passwords", (*parser).resolvePaths)
	return object{
		fields: append(shared.fields, field{"identities", "none", identities(all)}),
		done: func(p *parser, at place) {
			*dst = o
			shared.done(p, at)
			for i := range *all {
				(*all)[i].complete(*o)
			}
		},
	}
}

// clientTLS is how somebody is connected to who has a certificate. risk completes "whoever answers at ..."; resolve makes
// paths complete.
func clientTLS(o *certs.ClientOptions, name field, risk string, resolve func(*parser, ...*string)) object {
	o.MinVersion = tls.VersionTLS12
	verify := true
	return object{
		fields: []field{
			{"ca", "whom the system trusts", pemFile("the path of a PEM file with CA certificates", &o.CA)},
			{"cert", "", pemFile("the path of a PEM file with a certificate", &o.Cert)},
			{"key", "", pemFile("the path of a PEM file with the certificate's key", &o.Key)},
			name,
			{"verify", "true", truth(&verify)},
			{"min-version", "1.2", tlsVersion(&o.MinVersion)},
		},
		done: func(p *parser, at place) {
			o.NoVerify = !verify
			if p.given(at, "cert") != p.given(at, "key") {
				p.fault(at, "has only one of cert and key; give both, or neither to show no certificate")
				o.Cert, o.Key = "", ""
			}
			if o.NoVerify {
				p.warnAt(at.key("verify"), "is false: whoever answers at %s; give ca instead", risk)
				if p.given(at, "ca") {
					p.faultAt(at.key("ca"), "has no effect while verify is false; leave one of the two out")
				}
			}
			resolve(p, &o.CA, &o.Cert, &o.Key)
			if p.files {
				_, found := certs.LoadClient(*o)
				p.certificates(at, found)
			}
		},
	}
}

// pemFile is the path of a file; what is in it is looked at later, together with the others.
func pemFile(want string, dst *string) scalar {
	return scalar{kind: "path", want: want, set: func(v string) error {
		if v == "" {
			return fmt.Errorf("is empty; give %s", want)
		}
		*dst = v
		return nil
	}}
}

// serverName is a name that servers are asked for.
func serverName(dst *string) scalar {
	const want = "a host name, as it is in the nodes' certificates"
	return text(want, func(v string) error {
		if v == "" {
			return fmt.Errorf("is empty; give %s", want)
		}
		*dst = v
		return CheckServerName(v)
	})
}

// tlsVersion is a version of TLS, which YAML takes for a number.
func tlsVersion(dst *uint16) scalar {
	s := oneOf(func(v string) {
		*dst = tls.VersionTLS12
		if v == "1.3" {
			*dst = tls.VersionTLS13
		}
	}, "1.2", "1.3")
	s.decimal = true
	return s
}

// resolvePaths has relative paths begin at the folder of the configuration file.
func (p *parser) resolvePaths(paths ...*string) {
	for _, path := range paths {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(p.file), *path)
		}
	}
}

// certificates reports what is wrong with certificates' files.
func (p *parser) certificates(at place, found certs.Problems) {
	for _, f := range found {
		if f.Warning {
			p.warnAt(at.key(f.Key), "%s", f.Text)
		} else {
			p.faultAt(at.key(f.Key), "%s", f.Text)
		}
	}
}

// nodeAddress takes the address of a node apart: host:port, or amqps://host:port and amqp://host:port, whose port may be left out. scheme
// is empty for the first form.
func nodeAddress(text string) (address, scheme string, err error) {
	const form = "give only amqps://host:port, or amqp://host:port"
	scheme, rest, is := strings.Cut(text, "://")
	port := map[string]string{"amqps": "5671", "amqp": "5672"}[scheme]
	if !is || port == "" {
		return text, "", CheckNode(text)
	}
	rest = strings.TrimSuffix(rest, "/")
	if strings.ContainsAny(rest, "/@?#") {
		return text, scheme, fmt.Errorf("is a URL with more in it than a host and a port; %s", form)
	}
	if i := strings.LastIndexByte(rest, ':'); i < 0 || strings.HasSuffix(rest, "]") {
		rest += ":" + port
	}
	return rest, scheme, CheckNode(rest)
}
