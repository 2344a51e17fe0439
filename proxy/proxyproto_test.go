package proxy

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardmq/shardmq/frames"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// believing is a rig whose listener takes headers as said.
func believing(t *testing.T, rule *ProxyProtocol) *rig {
	t.Helper()
	return startRig(t, func(o *Options) { o.Listeners[0].ProxyProtocol = rule })
}

const v1Header = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 5672\r\n"

// known logs in behind a header that has been sent and returns what log and broker call the client, and the line of the connection's end.
func (r *rig) known(client *peer) (inLog, atBroker string, line observer.LoggedEntry) {
	r.t.Helper()
	broker := r.broker.accept()
	broker.send(0, startMethod)
	expect(client, &frames.ConnectionStart{})
	client.send(0, startOk())
	got := expect(broker, &frames.ConnectionStartOk{})
	address, _ := got.ClientProperties.LookupString("client_address")
	broker.send(0, &frames.ConnectionClose{ReplyCode: 530, ReplyText: "NOT_ALLOWED - done"})
	closeOk(client)
	expect(broker, &frames.ConnectionCloseOk{})
	require.NoError(r.t, broker.Close())
	client.eof()
	line = r.ended(1)[0]
	return line.ContextMap()["client"].(string), string(address), line
}

func TestBelievedAddress(t *testing.T) {
	amqp := string(frames.ProtocolHeader[:])
	for name, packets := range map[string][]string{
		"one packet":             {v1Header + amqp},
		"two packets":            {v1Header, amqp},
		"split in the signature": {v1Header[:3], v1Header[3:] + amqp},
		"split before the end":   {v1Header[:len(v1Header)-1], "\n" + amqp},
		"version 2":              {string(v2(0x21, 0x11, v2IPv4, tlv(5, "id"))) + amqp},
		"version 2, split":       {string(v2(0x21, 0x11, v2IPv4, tlv(5, "id"))[:20]), string(v2(0x21, 0x11, v2IPv4, tlv(5, "id"))[20:]), amqp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it takes the proxy's patience
			r := believing(t, &ProxyProtocol{Trusted: loopback})
			client := r.dial()
			require.NoError(t, client.Conn.(*net.TCPConn).SetNoDelay(true))
			for _, p := range packets {
				client.write([]byte(p))
			}
			inLog, atBroker, line := r.known(client)
			require.Equal(t, "192.0.2.7:1234", inLog)
			require.Equal(t, "192.0.2.7:1234", atBroker)
			require.Equal(t, client.LocalAddr().String(), line.ContextMap()["via"])
		})
	}
}

// Headers without an address, peers that need not send one and peers that are not trusted: it is the peer's address that counts.
func TestPeersOwnAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		rule *ProxyProtocol
		sent string
	}{
		"UNKNOWN":                   {&ProxyProtocol{Trusted: loopback}, "PROXY UNKNOWN\r\n"},
		"LOCAL":                     {&ProxyProtocol{Trusted: loopback}, string(v2(0x20, 0x11, v2IPv4))},
		"nothing, which is allowed": {&ProxyProtocol{Trusted: loopback, Optional: true}, ""},
		"nothing, not trusted":      {&ProxyProtocol{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it takes the proxy's patience
			r := believing(t, tc.rule)
			client := r.dial()
			client.write(append([]byte(tc.sent), frames.ProtocolHeader[:]...))
			inLog, atBroker, line := r.known(client)
			require.Equal(t, client.LocalAddr().String(), inLog)
			require.Equal(t, client.LocalAddr().String(), atBroker)
			require.NotContains(t, line.ContextMap(), "via")
		})
	}
}

func TestHeaderFromNobodyTrusted(t *testing.T) {
	elsewhere := &ProxyProtocol{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	for name, rule := range map[string]*ProxyProtocol{"a rule for others": elsewhere, "no rule": nil} {
		for _, header := range []string{v1Header, string(v2(0x21, 0x11, v2IPv4)), "PROXY UNKNOWN\r\n"} {
			t.Run(name, func(t *testing.T) {
				r := believing(t, rule)
				client := r.dial()
				client.write(append([]byte(header), frames.ProtocolHeader[:]...))
				require.Equal(t, frames.ProtocolHeader[:], client.read(8))
				client.eof()
				require.NoError(t, client.Close())
				require.Contains(t, r.cause(), "a PROXY protocol header, which this listener does not take from this peer")
				require.Equal(t, client.LocalAddr().String(), r.ended(1)[0].ContextMap()["client"])
				require.Empty(t, r.broker.conns, "the broker hears nothing of it")
			})
		}
	}
}

func TestHeaderThatIsMissingOrMalformed(t *testing.T) {
	for name, tc := range map[string]struct {
		optional    bool
		sent, cause string
	}{
		"AMQP":                           {false, string(frames.ProtocolHeader[:]), errNoProxyHeader.Error() + `: the connection begins with "AMQP\x00\x00\t\x01"`},
		"HTTP":                           {false, "GET / HTTP/1.1\r\n\r\n", "(HTTP)"},
		"TLS":                            {false, "\x16\x03\x01\x02\x00\x01\x00\x01", "TLS on a plain listener"},
		"malformed":                      {false, "PROXY TCP4 nobody 192.0.2.8 1234 5672\r\n", "malformed"},
		"malformed, though not required": {true, "PROXY TCP4 nobody 192.0.2.8 1234 5672\r\n", "malformed"},
		"HTTP that begins alike":         {true, "POST / HTTP/1.1\r\n\r\n", "(HTTP)"},
		"too long":                       {false, string(v2(0x21, 0x11, v2IPv4, make([]byte, 5000))), errProxyTooLong.Error()},
		"twice":                          {false, v1Header + v1Header, "a PROXY protocol header, which this listener does not take"},
	} {
		t.Run(name, func(t *testing.T) {
			r := believing(t, &ProxyProtocol{Trusted: loopback, Optional: tc.optional})
			client := r.dial()
			client.write([]byte(tc.sent))
			require.Contains(t, r.cause(), tc.cause)
			require.Empty(t, r.broker.conns)
		})
	}
}

func TestHeaderCutOff(t *testing.T) {
	r := believing(t, &ProxyProtocol{Trusted: loopback})
	client := r.dial()
	client.write([]byte(v1Header[:20]))
	client.closeWrite()
	require.Contains(t, r.cause(), "the header is not complete: unexpected EOF")
}

func TestSlowHeaderIsCut(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "the signature": "PROX", "a part": v1Header[:20], "a part of version 2": string(v2(0x21, 0x11, v2IPv4)[:20]), "the header alone": v1Header} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, func(o *Options) {
				o.Listeners[0].ProxyProtocol = &ProxyProtocol{Trusted: loopback}
				o.HandshakeTimeout = time.Second // long enough for a few octets to arrive
			})
			client := r.dial()
			client.write([]byte(sent))
			client.eof()
			if sent != v1Header && sent != "" {
				require.Contains(t, r.cause(), "PROXY protocol")
				return
			}
			client.closeWrite()
			r.cancel()
			require.NoError(t, <-r.done)
			r.done <- nil
			require.Empty(t, r.logs.FilterMessage("connection ended").All(), "a port probe")
		})
	}
}

// A balancer looks whether the port is open all day, with and without a header.
func TestProbesBehindABalancerAreSilent(t *testing.T) {
	t.Parallel() // it takes the proxy's patience
	r := believing(t, &ProxyProtocol{Trusted: loopback})
	for _, sent := range []string{"", "PROXY UNKNOWN\r\n", v1Header, string(v2(0x20, 0))} {
		client := r.dial()
		client.write([]byte(sent))
		client.closeWrite()
		client.eof()
	}
	require.NoError(t, r.dial().Close())
	r.dial().reset()
	health := r.dial()
	health.write(healthHeader[:])
	require.Equal(t, frames.ProtocolHeader[:], health.read(8), "shardmq healthcheck knows of no header")
	health.eof()

	client := r.dial()
	client.write([]byte(v1Header + string(frames.ProtocolHeader[:])))
	r.known(client) // the only line there is
}

func TestHeaderForTheBroker(t *testing.T) {
	for name, tc := range map[string]struct {
		version ProxyVersion
		inbound string
	}{"v1": {ProxyV1, ""}, "v2": {ProxyV2, ""}, "v1, believed": {ProxyV1, v1Header}, "v2, believed": {ProxyV2, string(v2(0x21, 0x11, v2IPv4, tlv(5, "id")))}} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, func(o *Options) {
				o.ProxyProtocol = tc.version
				o.Listeners[0].ProxyProtocol = &ProxyProtocol{Trusted: loopback, Optional: true}
			})
			client := r.dial()
			client.write(append([]byte(tc.inbound), frames.ProtocolHeader[:]...))
			broker := newPeer(t, <-r.broker.conns)
			h, err := readProxyHeader(broker.r)
			require.NoError(t, err)
			require.EqualValues(t, tc.version, h.Version)
			require.Equal(t, frames.ProtocolHeader[:], broker.read(8))
			if tc.inbound == "" {
				require.Equal(t, client.LocalAddr().String(), h.SourceAddr.String())
				require.Equal(t, r.addr, h.DestinationAddr.String())
			} else {
				require.Equal(t, "192.0.2.7:1234", h.SourceAddr.String())
				require.Equal(t, "192.0.2.8:5672", h.DestinationAddr.String())
			}
			var o origin
			require.NoError(t, o.take(h))
			require.Equal(t, tc.version == ProxyV2 && tc.inbound != "", string(o.uniqueID) == "id")
		})
	}
}

// The proxy's own connections tell their own addresses: RabbitMQ takes neither UNKNOWN nor, in 3.10, LOCAL.
func TestHeaderOfTheProxysOwn(t *testing.T) {
	for _, version := range []ProxyVersion{ProxyOff, ProxyV1, ProxyV2} {
		b := listenBroker(t)
		conn, err := Dial(t.Context(), &Options{ProxyProtocol: version}, Node{Address: b.addr()})
		require.NoError(t, err)
		_, err = conn.Write(frames.ProtocolHeader[:])
		require.NoError(t, err)
		broker := newPeer(t, <-b.conns)
		if version != ProxyOff {
			h, err := readProxyHeader(broker.r)
			require.NoError(t, err)
			require.EqualValues(t, version, h.Version)
			require.True(t, h.Command.IsProxy())
			require.Equal(t, conn.LocalAddr().String(), h.SourceAddr.String())
			require.Equal(t, b.addr(), h.DestinationAddr.String())
		}
		require.Equal(t, frames.ProtocolHeader[:], broker.read(8))
		require.NoError(t, conn.Close())
	}
}
