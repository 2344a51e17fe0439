package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/config/certs/certtest"
)

const identityFile = `
listeners:
  - address: ":5671"
    tls: {cert: server.pem, key: server.key, client-ca: ca.pem}
    proxy-protocol: {trusted: [10.0.0.0/8, "2001:db8::1"], required: false}
  - {address: ":5672", identity: app2}
upstream:
  nodes: [{address: "a:5671"}]
  tls:
    ca: ca.pem
    server-name: rabbit.example
    identities:
      - {name: app1, common-name: app1, cert: app1.pem, key: app1.key}
      - {name: app2, cert: server.pem, key: server.key}
  proxy-protocol: v2
`

// parseIn parses text as a file in a folder.
func parseIn(t *testing.T, dir, text string) *Config {
	t.Helper()
	c, err := Parse(filepath.Join(dir, "shardmq.yaml"), []byte(text), os.LookupEnv)
	require.NoError(t, err)
	return c
}

// identityDir is a folder with the files that identityFile names.
func identityDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ca := certtest.NewCA(t, "ca")
	certtest.WriteFile(t, dir, "ca.pem", ca.PEM)
	ca.Issue(t, certtest.Asked{Name: "server", Hosts: []string{"localhost"}}).Write(t, dir, "server")
	ca.Issue(t, certtest.Asked{Name: "app1"}).Write(t, dir, "app1")
	return dir
}

func TestProxyProtocolAndIdentities(t *testing.T) {
	dir := identityDir(t)
	c := parseIn(t, dir, identityFile)
	require.Empty(t, c.Warnings)
	require.Equal(t, &ProxyProtocol{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}, Optional: true},
		c.Listeners[0].ProxyProtocol)
	require.Nil(t, c.Listeners[1].ProxyProtocol)
	require.Equal(t, "app2", c.Listeners[1].Identity)
	require.Equal(t, 2, c.Upstream.ProxyProtocol)
	require.Len(t, c.Upstream.Identities, 2)
	app1 := c.Upstream.Identities[0]
	require.Equal(t, "app1", app1.CommonName)
	require.Equal(t, "rabbit.example", app1.TLS.ServerName, "as for the proxy's own connections")
	require.Equal(t, filepath.Join(dir, "ca.pem"), app1.TLS.CA)
	require.Equal(t, filepath.Join(dir, "app1.key"), app1.TLS.Key)
	require.Contains(t, c.Files(), filepath.Join(dir, "app1.pem"), "watched")

	c = parseIn(t, dir, strings.ReplaceAll(identityFile, ", required: false", ""))
	require.False(t, c.Listeners[0].ProxyProtocol.Optional)
	c = parseIn(t, dir, strings.ReplaceAll(identityFile, "v2", "off"))
	require.Zero(t, c.Upstream.ProxyProtocol)
}

func TestSuspiciousProxyProtocolAndIdentities(t *testing.T) {
	dir := identityDir(t)
	for text, warning := range map[string]string{
		strings.Replace(identityFile, "10.0.0.0/8", "0.0.0.0/0", 1): "listeners[0].proxy-protocol.trusted[0]: trusts everybody",
		strings.Replace(identityFile, `2001:db8::1`, "::/0", 1):     "listeners[0].proxy-protocol.trusted[1]: trusts everybody",
		strings.Replace(identityFile, ", client-ca: ca.pem", "", 1): "upstream.tls.identities[0]: is used by nobody",
		strings.Replace(identityFile, ", identity: app2", "", 1):    "upstream.tls.identities[1]: is used by nobody",
		strings.Replace(identityFile, "common-name: app1, ", "", 1): "upstream.tls.identities[0]: is used by nobody",
	} {
		c := parseIn(t, dir, text)
		require.Len(t, c.Warnings, 1, text)
		require.Contains(t, c.Warnings[0].String(), warning)
	}
}

// Networks that are everybody only together are told apart from such that leave somebody out.
func TestTrustedByEverybody(t *testing.T) {
	dir := identityDir(t)
	for text, warning := range map[string]string{
		`[0.0.0.0/1, 128.0.0.0/1]`:                          "listeners[0].proxy-protocol.trusted: trusts everybody, for together the networks are 0.0.0.0/0: any client may say",
		`["::/1", "8000::/1"]`:                              "listeners[0].proxy-protocol.trusted: trusts everybody, for together the networks are ::/0: any client may say",
		`[192.0.0.0/2, 10.0.0.0/8, 0.0.0.0/1, 128.0.0.0/2]`: "trusts everybody",
		`[0.0.0.0/0, 128.0.0.0/1, 0.0.0.0/1]`:               "listeners[0].proxy-protocol.trusted[0]: trusts everybody: any client",
		`[0.0.0.0/1, "8000::/1"]`:                           "",
		`[0.0.0.0/1, 128.0.0.0/2, 192.0.0.0/3]`:             "",
		`[255.255.255.255, 0.0.0.0, "::", "::1"]`:           "",
	} {
		c := parseIn(t, dir, strings.Replace(identityFile, `[10.0.0.0/8, "2001:db8::1"]`, text, 1))
		if warning == "" {
			require.Empty(t, c.Warnings, text)
			continue
		}
		require.Len(t, c.Warnings, 1, text)
		require.Contains(t, c.Warnings[0].String(), warning)
	}
}

// Networks cover a network if, and only if, no address is left out.
func TestCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// All are in 10.0.0.0/28, which has 16 addresses.
		networks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 15).Draw(t, "address"))})
			return netip.PrefixFrom(ip, rapid.IntRange(29, 32).Draw(t, "bits")).Masked()
		}), 0, 20).Draw(t, "networks")
		all := true
		for i := range byte(16) {
			all = all && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(netip.AddrFrom4([4]byte{10, 0, 0, i})) })
		}
		require.Equal(t, all, covered(netip.MustParsePrefix("10.0.0.0/28"), networks))
	})
}

// A certificate must not have the choice of two identities.
func TestIdentitiesThatOneCertificateFits(t *testing.T) {
	dir := identityDir(t)
	parse := func(first, second string) error {
		text := strings.Replace(identityFile, "common-name: app1", first, 1)
		text = strings.Replace(text, "name: app2, cert", "name: app2, "+second+", cert", 1)
		_, err := Parse(filepath.Join(dir, "shardmq.yaml"), []byte(text), os.LookupEnv)
		return err
	}
	const remedy = "; one certificate would fit both: go by common-name, or by subject, in both"
	file := filepath.Join(dir, "shardmq.yaml")
	require.EqualError(t, parse("common-name: app1", `subject: "CN=app1,O=Example"`),
		file+`:14: upstream.tls.identities[1].subject: has the common name "app1", as on line 13 (upstream.tls.identities[0].common-name)`+remedy)
	require.EqualError(t, parse(`subject: "CN=app1,O=Example"`, "common-name: app1"),
		file+`:14: upstream.tls.identities[1].common-name: is "app1", as in the subject on line 13 (upstream.tls.identities[0].subject)`+remedy)
	require.NoError(t, parse(`subject: "CN=app1,O=Example"`, `subject: "CN=app1"`))
	require.NoError(t, parse(`subject: "CN=app1,CN=x"`, "common-name: app1"), "of two common names none counts")
	require.NoError(t, parse(`subject: "O=Example"`, "common-name: app1"))
}

func TestReloadOfIdentities(t *testing.T) {
	dir := identityDir(t)
	before := parseIn(t, dir, identityFile)
	require.True(t, Same(before, parseIn(t, dir, identityFile)))
	for change, keys := range map[[2]string][]string{
		{"{name: app1, common-name: app1, cert: app1.pem, key: app1.key}", "{name: app1, common-name: app1, cert: server.pem, key: server.key}"}: nil,
		{"common-name: app1", "common-name: app3"}: {"upstream.tls.identities"},
		{"identity: app2", "identity: app1"}:       {"listeners"},
		{"required: false", "required: true"}:      {"listeners"},
		{"v2", "v1"}:                               {"upstream.proxy-protocol"},
	} {
		after := parseIn(t, dir, strings.Replace(identityFile, change[0], change[1], 1))
		require.False(t, Same(before, after), change)
		require.Equal(t, keys, NeedRestart(before, after), change)
	}
}

// A subject is compared as a whole, so what cannot be one is a mistake.
func TestSubjectsOfIdentities(t *testing.T) {
	dir := identityDir(t)
	by := func(subject string) string {
		return strings.Replace(identityFile, "common-name: app1", `subject: "`+subject+`"`, 1)
	}
	c := parseIn(t, dir, by("cn=app1, O=Example"))
	require.Equal(t, "CN=app1,O=Example", c.Upstream.Identities[0].Subject.String())
	for _, bad := range []string{"app1", "/O=Example/CN=app1", "CN=app1,Example", "XY=app1"} {
		_, err := Parse(filepath.Join(dir, "shardmq.yaml"), []byte(by(bad)), os.LookupEnv)
		require.ErrorContains(t, err, `upstream.tls.identities[0].subject: is "`+bad+`" (`)
		require.ErrorContains(t, err, "; give the whole subject as openssl x509 -noout -subject -nameopt RFC2253 prints it, e.g. CN=app1,O=Example")
	}
}
