package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
)

// texts are the problems as "key: text", with "(warning)" behind those that are.
func texts(ps Problems) (out []string) {
	for _, p := range ps {
		text := p.Key + ": " + p.Text
		if p.Warning {
			text += " (warning)"
		}
		out = append(out, text)
	}
	return out
}

func TestProblemsOfFiles(t *testing.T) {
	dir := t.TempDir()
	ca := certtest.NewCA(t, "test CA")
	good := ca.Issue(t, certtest.Asked{Name: "good", Hosts: []string{"localhost"}})
	file := func(name string, data []byte) string { return certtest.WriteFile(t, dir, name, data) }
	cert, key := good.Write(t, dir, "good")
	_, otherKey := ca.Issue(t, certtest.Asked{Name: "other"}).Write(t, dir, "other")
	oldCert, oldKey := ca.Issue(t, certtest.Asked{Name: "old", Hosts: []string{"localhost"}, Expired: true}).Write(t, dir, "old")
	block, _ := pem.Decode(good.Cert)
	openKey := file("open.key", good.Key)
	require.NoError(t, os.Chmod(openKey, 0o644))
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	oldEncrypted := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: []byte("x")})
	bom := func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }
	keyBlock, _ := pem.Decode(good.Key)
	both := file("both.pem", append(append([]byte{}, good.Cert...), good.Key...))

	for name, c := range map[string]struct {
		cert, key string
		want      []string // ends of what is said, each with its beginning
	}{
		"good":               {cert, key, nil},
		"one file":           {both, both, nil},
		"missing":            {dir + "/none.pem", dir + "/none.key", []string{"cert: " + dir + "/none.pem: no such file; check the path", "key: " + dir + "/none.key: no such file; check the path"}},
		"directory":          {dir, key, []string{"cert: " + dir + ": is a directory; name the PEM file in it"}},
		"not a regular file": {fifo, key, []string{"cert: " + fifo + ": is no regular file; give the path of a PEM file"}},
		"too large":          {file("large", make([]byte, maxFileSize+1)), key, []string{"cert: " + dir + "/large: is larger than 1048576 bytes; is it the right file?"}},
		"another key":        {cert, otherKey, []string{"key: " + otherKey + ": does not belong to the certificate in " + cert + "; give the key that it was made for"}},
		"swapped": {key, cert, []string{"cert: " + key + ": holds no certificate but private key; give the file with the certificate",
			"key: " + cert + ": holds no private key but certificate; are cert and key the right way round?"}},
		"encrypted":          {cert, file("enc.key", encrypted), []string{"key: " + dir + "/enc.key: is encrypted; store it without a pass phrase: openssl pkey -in " + dir + "/enc.key -out NEW"}},
		"encrypted, old way": {cert, file("enc2.key", oldEncrypted), []string{"key: " + dir + "/enc2.key: is encrypted; store it without a pass phrase: openssl pkey -in " + dir + "/enc2.key -out NEW"}},
		"DER":                {file("der", block.Bytes), key, []string{"cert: " + dir + "/der: is DER, not PEM; convert it: openssl x509 -inform der -in " + dir + "/der -out NEW"}},
		"no PEM":             {file("text", []byte("hello")), file("text.key", []byte("hello")), []string{"cert: " + dir + "/text: holds no PEM; give certificates in PEM form", "key: " + dir + "/text.key: holds no PEM; give the certificate's private key in PEM form"}},
		"DER key":            {cert, file("der.key", keyBlock.Bytes), []string{"key: " + dir + "/der.key: is DER, not PEM; convert it: openssl pkey -inform der -in " + dir + "/der.key -out NEW"}},
		"byte order mark": {file("bom", bom(good.Cert)), file("bom.key", bom(good.Key)), []string{
			"cert: " + dir + "/bom: begins with a byte order mark, which is no PEM; take it away: tail -c +4 " + dir + "/bom > NEW",
			"key: " + dir + "/bom.key: begins with a byte order mark, which is no PEM; take it away: tail -c +4 " + dir + "/bom.key > NEW"}},
		"a mark and a chain": {file("bom2", bom(append(good.Cert, ca.PEM...))), key, []string{"cert: " + dir + "/bom2: begins with a byte order mark, which is no PEM; "}},
		"UTF-16":             {file("utf16", []byte("\xff\xfe-\x00-\x00")), key, []string{"cert: " + dir + "/utf16: is UTF-16, not PEM; convert it: iconv -f utf-16 -t utf-8 " + dir + "/utf16 > NEW"}},
		"UTF-16, the other":  {file("utf16be", []byte("\xfe\xff\x00-\x00-")), key, []string{"cert: " + dir + "/utf16be: is UTF-16, not PEM; convert it: "}},
		"expired":            {oldCert, oldKey, []string{"cert: " + oldCert + ": old expired on "}},
		"open key":           {cert, openKey, []string{"key: " + openKey + ": can be read by everybody; take that away: chmod o-r " + openKey + " (warning)"}},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, found := LoadServer(ServerOptions{Cert: c.cert, Key: c.key})
			require.Equal(t, !found.Fatal(), loaded != nil)
			got := texts(found)
			require.Len(t, got, len(c.want), "%q", got)
			for i, want := range c.want {
				require.Contains(t, got[i], want)
				require.Contains(t, got[i], ";", "or ?"+want)
			}
			client, found := LoadClient(ClientOptions{Cert: c.cert, Key: c.key})
			require.Equal(t, got, texts(found), "the client's side")
			require.Equal(t, loaded == nil, client == nil)
		})
	}
	broken := file("broken.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
	_, found := LoadClient(ClientOptions{CA: broken})
	require.Contains(t, texts(found)[0], "ca: "+broken+": holds a certificate that cannot be read (")
	_, found = LoadServer(ServerOptions{Cert: cert, Key: key, ClientCA: key})
	require.Equal(t, []string{"client-ca: " + key + ": holds no certificate but private key; give the file with the certificate"}, texts(found))
	require.EqualError(t, found, texts(found)[0])
}

// A certificate among the clients' CAs that is none lets nobody in whom it has signed.
func TestClientCAThatIsNone(t *testing.T) {
	dir := t.TempDir()
	ca := certtest.NewCA(t, "test CA")
	server := ca.Issue(t, certtest.Asked{Name: "server", Hosts: []string{"localhost"}})
	cert, key := server.Write(t, dir, "server")
	mixed := certtest.WriteFile(t, dir, "mixed.pem", append(append([]byte{}, ca.PEM...), server.Cert...))
	for file, name := range map[string]string{cert: "server", mixed: "server", certtest.WriteFile(t, dir, "ca.pem", ca.PEM): ""} {
		loaded, found := LoadServer(ServerOptions{Cert: cert, Key: key, ClientCA: file})
		require.NotNil(t, loaded)
		var want []string
		if name != "" {
			want = []string{"client-ca: " + file + ": " + name + " is no CA: no certificate is good that it has signed, only itself is; " +
				"give the certificate of the clients' CA (warning)"}
		}
		require.Equal(t, want, texts(found))
		_, found = LoadClient(ClientOptions{CA: file})
		require.Empty(t, found, "a server's certificate may stand for itself")
	}
	usage := func(u x509.KeyUsage) *x509.Certificate {
		return &x509.Certificate{Version: 3, BasicConstraintsValid: true, IsCA: true, KeyUsage: u}
	}
	require.True(t, signs(usage(0)))
	require.True(t, signs(usage(x509.KeyUsageCertSign|x509.KeyUsageCRLSign)))
	require.False(t, signs(usage(x509.KeyUsageDigitalSignature)))
	require.False(t, signs(&x509.Certificate{Version: 3}))
	require.True(t, signs(&x509.Certificate{Version: 1}), "there were no extensions yet")
}

// talk has a client with that configuration say a word to a server with live's, and returns what the handshakes have said.
func talk(t *testing.T, live *Live, client *tls.Config) (peer *tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer conn.Close()
		c := tls.Server(conn, live.Server())
		if serverErr = c.Handshake(); serverErr == nil {
			_, _ = c.Write([]byte("x"))
		}
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1)) // with TLS 1.3 the server may refuse only now
		state := conn.ConnectionState()
		peer = &state
		_ = conn.Close()
	}
	<-done
	return peer, serverErr, err
}

// What is connected next goes by what has replaced the rest.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	ca, clients, others := certtest.NewCA(t, "servers"), certtest.NewCA(t, "clients"), certtest.NewCA(t, "others")
	options := func(name string, clientCA *certtest.CA) ServerOptions {
		cert, key := ca.Issue(t, certtest.Asked{Name: name, Hosts: []string{"broker.test"}}).Write(t, dir, name)
		o := ServerOptions{Cert: cert, Key: key}
		if clientCA != nil {
			o.ClientCA = certtest.WriteFile(t, dir, name+"-clients.pem", clientCA.PEM)
		}
		return o
	}
	load := func(o ServerOptions) *Loaded {
		l, found := LoadServer(o)
		require.Empty(t, found)
		return l
	}
	client := &tls.Config{RootCAs: ca.Pool(), ServerName: "broker.test", ClientSessionCache: tls.NewLRUClientSessionCache(8), MinVersion: tls.VersionTLS12}
	first := options("first", nil)
	live := NewLive(load(first))
	require.False(t, live.Replace(load(first)), "nothing is new")
	peer, _, err := talk(t, live, client)
	require.NoError(t, err)
	require.Equal(t, "first", Name(peer.PeerCertificates[0]))
	require.Equal(t, uint16(tls.VersionTLS13), peer.Version)

	second := options("second", clients)
	require.True(t, live.Replace(load(second)))
	_, serverErr, err := talk(t, live, client)
	require.Error(t, serverErr)
	require.ErrorContains(t, err, "certificate required")

	mine := clients.Issue(t, certtest.Asked{Name: "me"}).TLS(t)
	client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &mine, nil } // whomever the server trusts
	peer, _, err = talk(t, live, client)
	require.NoError(t, err)
	require.Equal(t, "second", Name(peer.PeerCertificates[0]))

	require.True(t, live.Replace(load(options("third", others))), "another client CA")
	_, serverErr, err = talk(t, live, client)
	require.ErrorContains(t, serverErr, "unknown authority", "nor does a session from before help")
	require.Error(t, err)

	fourth := options("fourth", others)
	fourth.ClientAuth, fourth.MinVersion = Optional, tls.VersionTLS13
	require.True(t, live.Replace(load(fourth)))
	client.GetClientCertificate = nil
	_, _, err = talk(t, live, client)
	require.NoError(t, err, "no certificate is good enough")
	client.MaxVersion = tls.VersionTLS12
	_, _, err = talk(t, live, client)
	require.ErrorContains(t, err, "protocol version")
}

func TestClientSide(t *testing.T) {
	dir := t.TempDir()
	ca := certtest.NewCA(t, "servers")
	caFile := certtest.WriteFile(t, dir, "ca.pem", ca.PEM)
	cert, key := ca.Issue(t, certtest.Asked{Name: "broker", Hosts: []string{"broker.test"}}).Write(t, dir, "broker")
	server, found := LoadServer(ServerOptions{Cert: cert, Key: key, ClientCA: caFile})
	require.Empty(t, found)
	live := NewLive(server)
	dial := func(o ClientOptions, host string) error {
		l, found := LoadClient(o)
		require.Empty(t, found)
		_, _, err := talk(t, live, l.Client(host))
		return err
	}
	full := ClientOptions{CA: caFile, Cert: cert, Key: key}
	require.NoError(t, dial(full, "broker.test"))
	require.ErrorContains(t, dial(full, "127.0.0.1"), "127.0.0.1")
	named := full
	named.ServerName = "broker.test"
	require.NoError(t, dial(named, "127.0.0.1"))
	system := full
	system.CA = ""
	require.ErrorContains(t, dial(system, "broker.test"), "unknown authority")
	blind := system
	blind.NoVerify = true
	require.NoError(t, dial(blind, "127.0.0.1"))
	require.ErrorContains(t, dial(ClientOptions{CA: caFile}, "broker.test"), "certificate required")

	l, _ := LoadClient(full)
	c, err := NewLive(l).Certificate(nil)
	require.NoError(t, err)
	require.Equal(t, "broker", Name(c.Leaf))
	l, _ = LoadClient(ClientOptions{})
	require.Nil(t, l.Leaf())
	c, err = NewLive(l).Certificate(nil)
	require.NoError(t, err)
	require.Empty(t, c.Certificate, "none is shown")
}

// The name in the URL is what counts over HTTP, and redirects are not followed.
func TestHTTP(t *testing.T) {
	ca := certtest.NewCA(t, "servers")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.test/", http.StatusFound)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "m", Hosts: []string{"127.0.0.1"}}).TLS(t)}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	o := ClientOptions{CA: certtest.WriteFile(t, t.TempDir(), "ca.pem", ca.PEM), ServerName: "broker.test"}
	l, found := LoadClient(o)
	require.Empty(t, found)
	live := NewLive(l)
	answer, err := live.HTTP().Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusFound, answer.StatusCode)

	system, _ := LoadClient(ClientOptions{})
	live.Replace(system)
	_, err = live.HTTP().Get(s.URL)
	require.ErrorContains(t, err, "unknown authority")
}
