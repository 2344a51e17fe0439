package proxy

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pires/go-proxyproto"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// v2 is a header of version 2, written by hand.
func v2(command, family byte, block ...[]byte) []byte {
	rest := slices.Concat(block...)
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(rest))), rest...)
}

func tlv(kind byte, value string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(value))), value...)
}

// Addresses as they stand in version 2: 192.0.2.7:1234 to 192.0.2.8:5672, and the same for IPv6 with 2001:db8::.
var (
	v2IPv4 = []byte("\xc0\x00\x02\x07\xc0\x00\x02\x08\x04\xd2\x16\x28")
	v2IPv6 = append(append(net.ParseIP("2001:db8::7"), net.ParseIP("2001:db8::8")...), "\x04\xd2\x16\x28"...)
)

// withChecksum puts the right CRC32c in front of the fields of a header for IPv4.
func withChecksum(fields ...[]byte) []byte {
	b := v2(0x21, 0x11, v2IPv4, tlv(3, "\x00\x00\x00\x00"), slices.Concat(fields...))
	binary.BigEndian.PutUint32(b[proxyV2Head+len(v2IPv4)+3:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

var proxyHeaders = map[string]struct {
	sent   string
	client string // "" = the peer's own address stays
}{
	"v1, IPv4":                       {"PROXY TCP4 192.0.2.7 192.0.2.8 1234 5672\r\n", "192.0.2.7:1234"},
	"v1, IPv6":                       {"PROXY TCP6 2001:db8::7 2001:db8::8 1234 5672\r\n", "[2001:db8::7]:1234"},
	"v1, IPv4 in IPv6":               {"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:192.0.2.8 1234 5672\r\n", "192.0.2.7:1234"},
	"v1, as long as can be":          {"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", ""},
	"v1, as short as can be":         {"PROXY UNKNOWN\r\n", ""},
	"v2, IPv4":                       {string(v2(0x21, 0x11, v2IPv4)), "192.0.2.7:1234"},
	"v2, IPv6":                       {string(v2(0x21, 0x21, v2IPv6)), "[2001:db8::7]:1234"},
	"v2, fields":                     {string(v2(0x21, 0x11, v2IPv4, tlv(1, "amqp"), tlv(4, "nothing"), tlv(0xea, "custom"))), "192.0.2.7:1234"},
	"v2, a padding field before CRC": {string(v2(0x21, 0x11, v2IPv4, tlv(4, ""), tlv(4, "\x03\x00\x04"))), "192.0.2.7:1234"},
	"v2, checksum":                   {string(withChecksum(tlv(5, "id"))), "192.0.2.7:1234"},
	"v2, as long as is taken":        {string(v2(0x21, 0x11, v2IPv4, tlv(0xea, strings.Repeat("x", 4096-12-3)))), "192.0.2.7:1234"},
	"v2, LOCAL":                      {string(v2(0x20, 0)), ""},
	"v2, LOCAL with addresses":       {string(v2(0x20, 0x11, v2IPv4)), ""},
	"v2, LOCAL with what is none":    {string(v2(0x20, 0x11, []byte("123"))), ""},
	"v2, no family":                  {string(v2(0x21, 0)), ""},
	"v2, no family, with fields":     {string(v2(0x21, 0, tlv(5, "id"))), ""},
	"v2, Unix":                       {string(v2(0x21, 0x31, make([]byte, 216))), ""},
}

func TestProxyHeader(t *testing.T) {
	peer := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9}
	for name, tc := range proxyHeaders {
		t.Run(name, func(t *testing.T) {
			for _, split := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader} {
				in := strings.NewReader(tc.sent + "AMQP\x00\x00\x09\x01")
				h, err := readProxyHeader(split(in))
				require.NoError(t, err)
				rest, _ := io.ReadAll(in)
				require.Equal(t, "AMQP\x00\x00\x09\x01", string(rest), "not an octet more is read")
				o := origin{client: peer}
				require.NoError(t, o.take(h))
				if tc.client == "" {
					require.Equal(t, origin{client: peer}, o)
					continue
				}
				require.Equal(t, tc.client, o.client.String())
				require.Equal(t, peer, o.via)
			}
		})
	}
}

func TestProxyHeaderFields(t *testing.T) {
	ssl := "\x07\x00\x00\x00\x00" + string(tlv(0x21, "TLSv1.3")) + string(tlv(0x22, "app1"))
	h, err := readProxyHeader(bytes.NewReader(v2(0x21, 0x11, v2IPv4, tlv(1, "amqp"), tlv(2, "rabbit.example"), tlv(5, "\x01id"), tlv(0x20, ssl))))
	require.NoError(t, err)
	var o origin
	require.NoError(t, o.take(h))
	require.Equal(t, "192.0.2.8:5672", o.server.String())
	require.Equal(t, "\x01id", string(o.uniqueID))
	require.Equal(t, "amqp", string(o.alpn))
	require.Equal(t, "rabbit.example", string(o.authority))
	cn, _ := o.ssl.ClientCN()
	require.Equal(t, "app1", cn)
}

func TestMalformedProxyHeader(t *testing.T) {
	wrongSum := withChecksum(tlv(5, "id"))
	wrongSum[len(wrongSum)-1] ^= 1
	for name, tc := range map[string]struct{ sent, cause string }{
		"AMQP":                           {"AMQP\x00\x00\x09\x01", errNoProxyHeader.Error()},
		"HTTP":                           {"POST / HTTP/1.1\r\n\r\n", "(HTTP)"},
		"TLS":                            {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS on a plain listener"},
		"v1, another word":               {"PROXYTCP4 192.0.2.7 192.0.2.8 1234 5672\r\n", errNoProxyHeader.Error()},
		"v1, without an end":             {"PROXY TCP4 " + strings.Repeat("1", 200), errProxyTooLong.Error()},
		"v1, one octet too long":         {"PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n", errProxyTooLong.Error()},
		"v1, LF alone":                   {"PROXY TCP4 192.0.2.7 192.0.2.8 1234 5672\nAMQP", "malformed"},
		"v1, LF in the middle":           {"PROXY TCP4 192.0.2.7\n192.0.2.8 1234 5672\r\n", "malformed"},
		"v1, CR in the middle":           {"PROXY TCP4 192.0.2.7\r192.0.2.8 1234 5672\r\n", "malformed"},
		"v1, another family's addresses": {"PROXY TCP4 2001:db8::7 2001:db8::8 1234 5672\r\n", "malformed"},
		"v1, a zone":                     {"PROXY TCP6 fe80::1%lo fe80::2 1234 5672\r\n", "malformed"},
		"v1, a host name":                {"PROXY TCP4 localhost localhost 1234 5672\r\n", "malformed"},
		"v1, a port too high":            {"PROXY TCP4 192.0.2.7 192.0.2.8 65536 5672\r\n", "malformed"},
		"v1, a port with a sign":         {"PROXY TCP4 192.0.2.7 192.0.2.8 +123 5672\r\n", "malformed"},
		"v1, too few fields":             {"PROXY TCP4 192.0.2.7 192.0.2.8 1234\r\n", "malformed"},
		"v1, two spaces":                 {"PROXY  TCP4 192.0.2.7 192.0.2.8 1234 5672\r\n", "malformed"},
		"v1, UDP":                        {"PROXY UDP4 192.0.2.7 192.0.2.8 1234 5672\r\n", "malformed"},
		"v2, version 1":                  {string(v2(0x11, 0x11, v2IPv4)), "malformed"},
		"v2, unknown command":            {string(v2(0x22, 0x11, v2IPv4)), "malformed"},
		"v2, unknown family":             {string(v2(0x21, 0x41, v2IPv4)), "malformed"},
		"v2, unknown transport":          {string(v2(0x21, 0x13, v2IPv4)), "malformed"},
		"v2, addresses cut short":        {string(v2(0x21, 0x11, v2IPv4[:11])), "malformed"},
		"v2, IPv6 with IPv4's length":    {string(v2(0x21, 0x21, v2IPv4)), "malformed"},
		"v2, too long":                   {string(v2(0x21, 0x11, v2IPv4, make([]byte, 4096-11))), errProxyTooLong.Error()},
		"v2, UDP":                        {string(v2(0x21, 0x12, v2IPv4)), errProxyDatagrams.Error()},
		"v2, signature broken later":     {"\r\n\r\n\x00\r\nQUIX\n\x21\x11\x00\x0c" + string(v2IPv4), "malformed"},
		"v2, a field beyond the end":     {string(v2(0x21, 0x11, v2IPv4, []byte("\x05\x00\x09id"))), "TLV"},
		"v2, a field cut short":          {string(v2(0x21, 0x11, v2IPv4, []byte("\x05\x00"))), "TLV"},
		"v2, TLS without a version":      {string(v2(0x21, 0x11, v2IPv4, tlv(0x20, "\x01\x00\x00\x00\x00"))), "TLV"},
		"v2, TLS cut short":              {string(v2(0x21, 0x11, v2IPv4, tlv(0x20, "\x01\x00"))), "TLV"},
		"v2, wrong checksum":             {string(wrongSum), errProxyChecksum.Error()},
		"v2, checksum of another size":   {string(v2(0x21, 0x11, v2IPv4, tlv(3, "\x00"))), errProxyChecksum.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := readProxyHeader(strings.NewReader(tc.sent))
			if err == nil {
				err = new(origin).take(h)
			}
			require.ErrorContains(t, err, tc.cause)
			require.NotContains(t, err.Error(), "not complete", "it is all there")
		})
	}
}

func TestProxyHeaderCutShort(t *testing.T) {
	for name, tc := range proxyHeaders {
		for n := range len(tc.sent) {
			_, err := readProxyHeader(strings.NewReader(tc.sent[:n]))
			require.ErrorContains(t, err, "not complete", "%s, %d octets", name, n)
		}
	}
}

// What is formatted is read back, and what follows is left.
func TestProxyHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := func(name string) *net.TCPAddr {
			ip := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, name)
			if rapid.Bool().Draw(t, name+" is IPv6") {
				ip = append(net.ParseIP("2001:db8::")[:12:12], ip...)
			}
			return &net.TCPAddr{IP: ip, Port: rapid.IntRange(0, 65535).Draw(t, name+" port")}
		}
		sent := origin{client: address("client"), server: address("server"), uniqueID: rapid.SliceOfN(rapid.Byte(), 0, 128).Draw(t, "id")}
		version := rapid.SampledFrom([]ProxyVersion{ProxyV1, ProxyV2}).Draw(t, "version")
		b, err := version.header(&sent, nil)
		require.NoError(t, err)
		in := bytes.NewReader(append(b, "rest"...))
		h, err := readProxyHeader(in)
		require.NoError(t, err)
		require.Equal(t, 4, in.Len())
		var got origin
		require.NoError(t, got.take(h))
		require.Equal(t, sent.client.String(), got.client.String())
		require.Equal(t, sent.server.String(), got.server.String())
		if version == ProxyV2 {
			require.Equal(t, string(sent.uniqueID), string(got.uniqueID))
		}
	})
}

func FuzzProxyHeader(f *testing.F) {
	for _, tc := range proxyHeaders {
		f.Add([]byte(tc.sent), uint8(3))
	}
	f.Add(v2(0x21, 0x11, v2IPv4, tlv(3, "")), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, chunk uint8) {
		in := bytes.NewReader(b)
		h, err := readProxyHeader(in)
		read := len(b) - in.Len()
		require.LessOrEqual(t, read, proxyV2Head+proxyV2Max)
		again, errAgain := readProxyHeader(&chunks{b: bytes.Clone(b), most: int(chunk%16) + 1})
		require.Equal(t, err == nil, errAgain == nil, "however it is split: %v, %v", err, errAgain)
		if err != nil {
			return
		}
		require.True(t, h.EqualsTo(again))
		require.Equal(t, read, proxyHeaderLength(b), "exactly the header is read")
		o := origin{client: &net.TCPAddr{}}
		if o.take(h) == nil {
			require.NotNil(t, o.client)
			require.NotEmpty(t, o.client.String())
		}
	})
}

// proxyHeaderLength is how long the header is that b begins with, found in another way.
func proxyHeaderLength(b []byte) int {
	if bytes.HasPrefix(b, proxyproto.SIGV2) {
		return proxyV2Head + int(b[14])<<8 + int(b[15])
	}
	return bytes.IndexByte(b, '\n') + 1
}

// chunks gives a few octets at a time.
type chunks struct {
	b    []byte
	most int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.most)], c.b)
	c.b = c.b[n:]
	return n, nil
}
