// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA signs certificates. Its methods may be called from any goroutine.
type CA struct {
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate and its key.
type Pair struct {
	Cert, Key []byte // PEM
}

// Asked says what a certificate is to be like.
type Asked struct {
	Name    string   // common name
	Hosts   []string // host names and IP addresses; none: a client's
	Expired bool
}

// NewCA makes a CA of that name.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	template := basic(t, name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key := newKey(t)
	der := sign(t, template, template, key, key)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return &CA{PEM: block("CERTIFICATE", der), cert: cert, key: key}
}

// Issue makes a certificate.
func (ca *CA) Issue(t testing.TB, a Asked) *Pair {
	t.Helper()
	template := basic(t, a.Name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if a.Hosts != nil {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if a.Expired {
		template.NotAfter = time.Now().Add(-time.Hour)
	}
	for _, h := range a.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	key := newKey(t)
	der := sign(t, template, ca.cert, key, ca.key)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	return &Pair{Cert: block("CERTIFICATE", der), Key: block("PRIVATE KEY", pkcs8)}
}

// Pool is a pool with this CA alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// TLS is the pair as crypto/tls takes it.
func (p *Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	check(t, err)
	return c
}

// Write puts the pair into the files NAME.pem and NAME.key of a folder and returns their paths. Files that are there are replaced, each at once.
func (p *Pair) Write(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	return WriteFile(t, dir, name+".pem", p.Cert), WriteFile(t, dir, name+".key", p.Key)
}

// WriteFile puts data into a file of a folder, at once, and returns its path.
func WriteFile(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	check(t, os.WriteFile(path+".new", data, 0o600))
	check(t, os.Rename(path+".new", path))
	return path
}

func basic(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	check(t, err)
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	check(t, err)
	return der
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
