package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs"
)

// What is tried again and again must not read differently each time.
func TestFaultOfExpired(t *testing.T) {
	leaf := &x509.Certificate{NotBefore: time.Unix(0, 0).UTC(), NotAfter: time.Unix(86400, 0).UTC()}
	leaf.Subject.CommonName = "node"
	said := func(now string) error {
		return &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired, Detail: "current time " + now}}
	}
	got := (&certs.Remedies{}).Fault(said("12:00"))
	require.EqualError(t, got, `its certificate has expired or is not valid yet: replace it at the broker (x509: "CN=node" is valid from 1970-01-01T00:00:00Z to 1970-01-02T00:00:00Z)`)
	require.EqualError(t, (&certs.Remedies{}).Fault(said("12:01")), got.Error())
	require.ErrorAs(t, got, new(x509.CertificateInvalidError))
}

// What is none of TLS is none of its business.
func TestFaultOfOthers(t *testing.T) {
	other := errors.New("other")
	require.Equal(t, other, (&certs.Remedies{}).Fault(other))
}
