package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// maxFileSize bounds a PEM file, in octets: the CAs that a whole system trusts take a quarter of it.
const maxFileSize = 1 << 20

// Errors of ReadFile; the texts go behind the file's name.
var (
	errMissing   = errors.New("no such file; check the path")
	errDirectory = errors.New("is a directory; name the PEM file in it")
	errSpecial   = errors.New("is no regular file; give the path of a PEM file")
	errTooLarge  = fmt.Errorf("is larger than %d bytes; is it the right file?", maxFileSize)
)

// ReadFile returns a PEM file's content. What is no regular file is not read: it might never end. The error says what to do.
func ReadFile(path string) ([]byte, error) {
	data, _, err := readFile(path)
	return data, err
}

func readFile(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, errMissing
	case err != nil:
		return nil, 0, unreadable(err)
	case info.IsDir():
		return nil, 0, errDirectory
	case !info.Mode().IsRegular():
		return nil, 0, errSpecial
	case info.Size() > maxFileSize:
		return nil, 0, errTooLarge
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, unreadable(err)
	}
	return data, info.Mode(), nil
}

func unreadable(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the path is named already
	}
	return fmt.Errorf("cannot be read (%w); check its path and permissions", err)
}

// loader reads the files of one configuration.
type loader struct {
	problems Problems
	material []byte // see Loaded.sum
}

func (f *loader) read(key, path string) (data []byte, mode fs.FileMode, ok bool) {
	data, mode, err := readFile(path)
	if err != nil {
		f.problems.addf(key, "%s: %s", path, err)
		return nil, 0, false
	}
	f.mix(key, string(data))
	return data, mode, f.text(key, path, data)
}

// text reports a byte order mark. The PEM block behind one would be overlooked, here as by others that read the file, and a second block not.
func (f *loader) text(key, path string, data []byte) bool {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		f.problems.addf(key, "%s: begins with a byte order mark, which is no PEM; take it away: tail -c +4 %[1]s > NEW", path)
		return false
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		f.problems.addf(key, "%s: is UTF-16, not PEM; convert it: iconv -f utf-16 -t utf-8 %[1]s > NEW", path)
		return false
	}
	return true
}

// isDER reports whether data begins with what certificates and keys are in DER.
func isDER(data []byte) bool {
	var whole asn1.RawValue
	_, err := asn1.Unmarshal(data, &whole)
	return err == nil && whole.Class == asn1.ClassUniversal && whole.Tag == asn1.TagSequence
}

// keyPair puts a certificate and its key into c and returns the certificate.
func (f *loader) keyPair(c *tls.Config, certPath, keyPath string) *x509.Certificate {
	certs, chain := f.chain("cert", certPath)
	keys, mode, ok := f.read("key", keyPath)
	if ok {
		ok = f.key(keys, keyPath)
	}
	if !ok || chain == nil {
		return nil
	}
	if mode.Perm()&0o004 != 0 {
		f.problems.warnf("key", "%s: can be read by everybody; take that away: chmod o-r %[1]s", keyPath)
	}
	pair, err := tls.X509KeyPair(certs, keys)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "does not match"):
		f.problems.addf("key", "%s: does not belong to the certificate in %s; give the key that it was made for", keyPath, certPath)
		return nil
	default:
		f.problems.addf("key", "%s: cannot be used (%s); give the unencrypted key of the certificate in %s", keyPath, plain(err), certPath)
		return nil
	}
	c.Certificates = []tls.Certificate{pair}
	f.validity("cert", certPath, chain[0])
	return chain[0]
}

// key reports what keeps a file from being an unencrypted private key.
func (f *loader) key(data []byte, path string) bool {
	var others []string
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY", strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			f.problems.addf("key", "%s: is encrypted; store it without a pass phrase: openssl pkey -in %[1]s -out NEW", path)
			return false
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return true
		}
		others = append(others, block.Type)
	}
	switch {
	case others != nil:
		f.problems.addf("key", "%s: holds no private key but %s; are cert and key the right way round?", path, strings.ToLower(others[0]))
	case isDER(data):
		f.problems.addf("key", "%s: is DER, not PEM; convert it: openssl pkey -inform der -in %[1]s -out NEW", path)
	default:
		f.problems.addf("key", "%s: holds no PEM; give the certificate's private key in PEM form", path)
	}
	return false
}

// pool reads a file of CA certificates.
func (f *loader) pool(key, path string) (pool *x509.CertPool, all []*x509.Certificate) {
	_, all = f.chain(key, path)
	pool = x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
		f.validity(key, path, c)
	}
	return pool, all
}

// signers warns of certificates that nobody's can be signed by. As nodes' CAs they make sense, for a server may have signed its own; among
// clients' they are a mistake, and let in whoever has that certificate.
func (f *loader) signers(key, path string, all []*x509.Certificate) {
	for _, c := range all {
		if !signs(c) {
			f.problems.warnf(key, "%s: %s is no CA: no certificate is good that it has signed, only itself is; give the certificate of the clients' CA",
				path, Name(c))
		}
	}
}

// signs reports whether crypto/x509 takes a certificate for that of a CA (RFC 5280, 4.2.1.3 and 4.2.1.9; version 1 does not say).
func signs(c *x509.Certificate) bool {
	if c.Version == 3 && !c.BasicConstraintsValid || c.BasicConstraintsValid && !c.IsCA {
		return false
	}
	return c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0
}

// chain reads the certificates in a file; none without a problem.
func (f *loader) chain(key, path string) (data []byte, certs []*x509.Certificate) {
	data, _, ok := f.read(key, path)
	if !ok {
		return nil, nil
	}
	var others []string
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			others = append(others, block.Type)
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			f.problems.addf(key, "%s: holds a certificate that cannot be read (%s); replace it", path, plain(err))
			return nil, nil
		}
		certs = append(certs, c)
	}
	switch {
	case certs != nil:
		return data, certs
	case others != nil:
		f.problems.addf(key, "%s: holds no certificate but %s; give the file with the certificate", path, strings.ToLower(others[0]))
	case isDER(data):
		f.problems.addf(key, "%s: is DER, not PEM; convert it: openssl x509 -inform der -in %[1]s -out NEW", path)
	default:
		f.problems.addf(key, "%s: holds no PEM; give certificates in PEM form", path)
	}
	return nil, nil
}

// validity warns of a certificate whose time is over or has not come.
func (f *loader) validity(key, path string, c *x509.Certificate) {
	now := time.Now()
	switch {
	case now.After(c.NotAfter):
		f.problems.warnf(key, "%s: %s expired on %s; peers refuse it, so replace it", path, Name(c), date(c.NotAfter))
	case now.Before(c.NotBefore):
		f.problems.warnf(key, "%s: %s is valid from %s only; peers refuse it until then", path, Name(c), date(c.NotBefore))
	}
}

// Name is how a certificate is called in messages: its common name, else the first other name in it.
func Name(c *x509.Certificate) string {
	switch {
	case c.Subject.CommonName != "":
		return c.Subject.CommonName
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.IPAddresses) > 0:
		return c.IPAddresses[0].String()
	}
	return "certificate " + c.SerialNumber.Text(16)
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// plain leaves out the package that an error comes from.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "tls: ")
	return strings.TrimPrefix(text, "x509: ")
}
