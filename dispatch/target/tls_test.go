package target

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
)

// recordTLS is a server with TLS, at https://127.0.0.1, which tells by whom it was asked.
func recordTLS(t *testing.T, cert *certtest.Pair, change func(*tls.Config)) *recorder {
	s := &recorder{}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert.TLS(t)}, MinVersion: tls.VersionTLS12}
	if change != nil {
		change(s.TLS)
	}
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, other, clients := certtest.NewCA(t, "ca"), certtest.NewCA(t, "other"), certtest.NewCA(t, "clients")
	caFile, otherFile := certtest.WriteFile(t, dir, "ca.pem", ca.PEM), certtest.WriteFile(t, dir, "other.pem", other.PEM)
	good := ca.Issue(t, certtest.Asked{Name: "good", Hosts: []string{"127.0.0.1", "jobs.test"}})
	elsewhere := ca.Issue(t, certtest.Asked{Name: "elsewhere", Hosts: []string{"elsewhere.test"}})
	expired := ca.Issue(t, certtest.Asked{Name: "expired", Hosts: []string{"127.0.0.1"}, Expired: true})
	mine, mineKey := clients.Issue(t, certtest.Asked{Name: "me"}).Write(t, dir, "me")
	foreign, foreignKey := other.Issue(t, certtest.Asked{Name: "foreign"}).Write(t, dir, "foreign")
	mutual := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool() }
	mutual12 := func(c *tls.Config) { mutual(c); c.MaxVersion = tls.VersionTLS12 }

	for _, tc := range []struct {
		name   string
		cert   *certtest.Pair
		change func(*tls.Config)
		tls    TLS
		reason string // "" = done
	}{
		{"good", good, nil, TLS{CA: caFile}, ""},
		{"server-name", elsewhere, nil, TLS{CA: caFile, ServerName: "elsewhere.test"}, ""},
		{"not verified", elsewhere, nil, TLS{NoVerify: true}, ""},
		{"unknown CA", good, nil, TLS{CA: otherFile}, "its certificate is signed by nobody who is trusted; give tls.ca"},
		{"the system's CAs", good, nil, TLS{}, "its certificate is signed by nobody who is trusted; give tls.ca"},
		{"another host", elsewhere, nil, TLS{CA: caFile}, "its certificate is for another host"},
		{"expired", expired, nil, TLS{CA: caFile}, "its certificate has expired, or is not valid yet"},
		{"old", good, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, TLS{CA: caFile}, "it answers protocol version not supported"},
		{"mutual", good, mutual, TLS{CA: caFile, Cert: mine, Key: mineKey}, ""},
		{"mutual, foreign", good, mutual12, TLS{CA: caFile, Cert: foreign, Key: foreignKey}, "it answers handshake failure"},
		{"mutual, TLS 1.2", good, mutual12, TLS{CA: caFile, Cert: mine, Key: mineKey}, ""},
		{"mutual, TLS 1.2, none", good, mutual12, TLS{CA: caFile}, "it answers handshake failure"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := recordTLS(t, tc.cert, tc.change)
			c := newClient(t, Options{URL: s.URL, TLS: tc.tls}, Rules{})
			for range 2 {
				o := c.Do(t.Context(), job())
				if tc.reason != "" {
					require.Equal(t, Outcome{Verdict: Again, Class: Unreachable, Reason: "no TLS with " + s.Listener.Addr().String() + ": " + tc.reason, Took: o.Took}, o)
					continue
				}
				require.Equal(t, Done, o.Verdict, "%+v", o)
				r, _ := s.one(t)
				require.Equal(t, 2, r.ProtoMajor)
			}
		})
	}
	t.Run("TLS 1.3, no certificate", func(t *testing.T) {
		// The server says so after the handshake, when the request may be on its way: its word may not arrive.
		s := recordTLS(t, good, mutual)
		o := newClient(t, Options{URL: s.URL, TLS: TLS{CA: caFile}}, Rules{}).Do(t.Context(), job())
		require.Equal(t, Again, o.Verdict)
		require.Contains(t, []Class{Unreachable, Broken}, o.Class)
	})
	t.Run("no TLS", func(t *testing.T) {
		s := record(t)
		o := newClient(t, Options{URL: "https://" + s.Listener.Addr().String()}, Rules{}).Do(t.Context(), job())
		require.Equal(t, Outcome{Verdict: Again, Class: Unreachable, Reason: "no TLS with " + s.Listener.Addr().String() + ": what answers does not speak it", Took: o.Took}, o)
	})
}

// TestHTTP2: many jobs at once are on few connections.
func TestHTTP2(t *testing.T) {
	const jobs = 64
	dir := t.TempDir()
	ca := certtest.NewCA(t, "ca")
	s := recordTLS(t, ca.Issue(t, certtest.Asked{Name: "s", Hosts: []string{"127.0.0.1"}}), nil)
	var all sync.WaitGroup
	all.Add(jobs)
	s.answer = func(http.ResponseWriter, *http.Request) {
		all.Done()
		all.Wait() // all are here at the same time
	}
	c := newClient(t, Options{URL: s.URL, TLS: TLS{CA: certtest.WriteFile(t, dir, "ca.pem", ca.PEM)}, Connections: 4}, Rules{})
	dial := c.wire.dial
	var mu sync.Mutex
	dials := 0
	c.wire.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dials++
		return dial(ctx, network, address)
	}
	outcomes := make(chan Outcome, jobs)
	for range jobs {
		go func() { outcomes <- c.Do(t.Context(), job()) }()
	}
	for range jobs {
		o := <-outcomes
		require.Equal(t, Done, o.Verdict, "%+v", o)
	}
	mu.Lock()
	defer mu.Unlock()
	require.LessOrEqual(t, dials, 4)
}

// TestFilesReplaced: new connections go by the files as they are; while they are unusable, by what they were.
func TestFilesReplaced(t *testing.T) {
	dir := t.TempDir()
	ca, clients := certtest.NewCA(t, "ca"), certtest.NewCA(t, "clients")
	s := recordTLS(t, ca.Issue(t, certtest.Asked{Name: "s", Hosts: []string{"127.0.0.1"}}),
		func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool() })
	cert, key := clients.Issue(t, certtest.Asked{Name: "first"}).Write(t, dir, "me")
	c := newClient(t, Options{URL: s.URL, TLS: TLS{CA: certtest.WriteFile(t, dir, "ca.pem", ca.PEM), Cert: cert, Key: key}}, Rules{})
	asked := func(name string) {
		t.Helper()
		o := c.Do(t.Context(), job())
		require.Equal(t, Done, o.Verdict, "%+v", o)
		r, _ := s.one(t)
		require.Equal(t, name, r.TLS.PeerCertificates[0].Subject.CommonName)
	}
	asked("first")
	clients.Issue(t, certtest.Asked{Name: "second"}).Write(t, dir, "me")
	asked("first") // it was not yet time to look
	c.wire.every = 0
	asked("second")
	require.NoError(t, os.WriteFile(cert, []byte("no PEM"), 0o600))
	asked("second")
	s.Close()
	c.wire.now.Store(c.wire.transport(c.wire.loaded)) // it has none of the connections that end
	o := c.Do(t.Context(), job())
	require.Equal(t, Unreachable, o.Class)
	require.Contains(t, o.Reason, "connection refused (cert: "+cert+": holds no PEM; give certificates in PEM form")
}
