package config

import (
	"cmp"
	"fmt"

	"github.com/shardmq/shardmq/config/certs"
)

const identitiesExample = `- {name: app1, common-name: app1, cert: app1.pem, key: app1.key}`

// identities are certificates that the proxy shows in clients' stead.
func identities(all *[]Identity) list {
	return list{example: identitiesExample, atLeast: 1, item: func() shape {
		*all = append(*all, Identity{})
		i := &(*all)[len(*all)-1] // until the next one
		return object{
			fields: []field{
				{"name", required, filled("a name for this identity", &i.Name)},
				{"common-name", "", filled("the common name of clients' certificates, e.g. app1", &i.CommonName)},
				{"subject", "", text("the subject of clients' certificates, e.g. CN=app1,O=Example", i.setSubject)},
				{"cert", required, pemFile("the path of a PEM file with a certificate", &i.TLS.Cert)},
				{"key", required, pemFile("the path of a PEM file with the certificate's key", &i.TLS.Key)},
			},
			missing: map[string]string{
				"name": "give the identity a name, e.g. name: app1",
				"cert": "give the path of a PEM file with the certificate that RabbitMQ is to see, e.g. cert: app1.pem",
				"key":  "give the path of a PEM file with the certificate's key, e.g. key: app1.key",
			},
			done: func(p *parser, at place) {
				if p.given(at, "common-name") && p.given(at, "subject") {
					p.faultAt(at.key("subject"), "is given beside common-name; keep one of the two")
				}
				p.resolvePaths(&i.TLS.Cert, &i.TLS.Key)
				if i.TLS.Cert != "" && i.TLS.Key != "" && p.files {
					_, found := certs.LoadClient(i.TLS)
					p.certificates(at, found)
				}
			},
		}
	}}
}

// complete gives an identity what it has in common with the proxy's own connections.
func (i *Identity) complete(o certs.ClientOptions) {
	o.Cert, o.Key = i.TLS.Cert, i.TLS.Key
	i.TLS = o
}

func (i *Identity) setSubject(v string) (err error) {
	if i.Subject, err = certs.ParseSubject(v); err != nil {
		return fmt.Errorf("is %q (%w); give the whole subject as openssl x509 -noout -subject -nameopt RFC2253 prints it, e.g. CN=app1,O=Example, or use common-name",
			clip(v), err)
	}
	return nil
}

// checkIdentities looks whether identities and listeners go together.
func (p *parser) checkIdentities(c *Config) {
	var names, commonNames, subjects unique
	fits := map[string]kinds{} // by common name
	asked, verified := map[string]bool{}, false
	for i, l := range c.Listeners {
		verified = verified || l.TLS != nil && l.TLS.ClientCA != ""
		asked[l.Identity] = true
		if l.Identity != "" && !c.Upstream.hasIdentity(l.Identity) {
			p.faultAt(fmt.Sprintf("listeners[%d].identity", i), "is %q, which upstream.tls.identities does not have; add it there, e.g. %s",
				clip(l.Identity), identitiesExample)
		}
	}
	for i, each := range c.Upstream.Identities {
		path := fmt.Sprintf("upstream.tls.identities[%d]", i)
		names.add(p, path+".name", each.Name, "give each identity a name of its own")
		commonNames.add(p, path+".common-name", each.CommonName, "a client can have one identity only")
		subjects.add(p, path+".subject", each.Subject.String(), "a client can have one identity only")
		p.checkKinds(fits, path, each)
		if !asked[each.Name] && (!verified || each.CommonName == "" && each.Subject == certs.Subject{}) {
			p.warnAt(path, "is used by nobody: no listener names it, and no client can show a certificate for it; "+
				"set listeners[].identity, or listeners[].tls.client-ca and the identity's common-name")
		}
	}
}

// kinds are where a common name stands first: as one, and in a subject.
type kinds struct{ name, subject string }

// checkKinds reports an identity by common name and one by subject that one certificate would fit.
func (p *parser) checkKinds(all map[string]kinds, path string, each Identity) {
	const remedy = "one certificate would fit both: go by common-name, or by subject, in both"
	if each.CommonName != "" && each.Subject != (certs.Subject{}) {
		return // reported already
	}
	if name := each.CommonName; name != "" {
		k := all[name]
		k.name = cmp.Or(k.name, path+".common-name")
		if k.subject != "" {
			p.faultAt(path+".common-name", "is %q, as in the subject on line %d (%s); %s", name, p.line(k.subject), k.subject, remedy)
		}
		all[name] = k
	}
	if name := each.Subject.CommonName(); name != "" {
		k := all[name]
		k.subject = cmp.Or(k.subject, path+".subject")
		if k.name != "" {
			p.faultAt(path+".subject", "has the common name %q, as on line %d (%s); %s", name, p.line(k.name), k.name, remedy)
		}
		all[name] = k
	}
}

func (u *Upstream) hasIdentity(name string) bool {
	for _, each := range u.Identities {
		if each.Name == name {
			return true
		}
	}
	return false
}
