package router_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

const (
	announcing = "0 connection.start-ok client-properties={capabilities={authentication_failure_close=true}} mechanism=EXTERNAL locale=en_US"
	silent     = "0 connection.start-ok mechanism=EXTERNAL locale=en_US"
)

// started is a connection that has had the broker's start, with EXTERNAL in it.
func started(t *testing.T, shown router.Certificate) *wire {
	w := newWire(t)
	w.conn.Present(shown)
	w.brokerText(`0 connection.start version-minor=9 mechanisms="PLAIN EXTERNAL AMQPLAIN" locales=en_US`)
	return w
}

func TestExternalIsOfferedWithTheClientsCertificateOnly(t *testing.T) {
	for shown, want := range map[router.Certificate]string{
		router.ProxyCertificate: "PLAIN AMQPLAIN", router.NoCertificate: "PLAIN AMQPLAIN", router.ClientCertificate: "PLAIN EXTERNAL AMQPLAIN",
	} {
		w := started(t, shown)
		require.Len(t, w.downs, 1)
		var m frames.ConnectionStart
		require.NoError(t, m.Decode(w.downs[0].Args()))
		require.Equal(t, want, string(m.Mechanisms))
	}
}

func TestExternalReachesTheBrokerUnlessItWouldLogInTheProxy(t *testing.T) {
	bare := newWire(t)
	bare.conn.Present(router.NoCertificate)
	bare.brokerText(`0 connection.start version-minor=9 mechanisms="PLAIN AMQPLAIN" locales=en_US`)
	for _, w := range []*wire{bare, started(t, router.ClientCertificate)} {
		w.clientText(announcing)
		require.Nil(t, w.conn.Raised())
		require.Len(t, w.ups, 1)
		require.Contains(t, frameText(w.ups[0]), "mechanism=EXTERNAL")
	}
}

// A tunnel between proxy and broker has a certificate of its own: the broker offers EXTERNAL though the proxy has shown none.
func TestTunnelsCertificateIsNotLent(t *testing.T) {
	early := newWire(t) // the client has not waited for what the broker offers
	early.conn.Present(router.NoCertificate)
	for _, w := range []*wire{started(t, router.NoCertificate), early} {
		w.clientText(announcing)
		require.EqualValues(t, 403, w.conn.Raised().Code)
		require.Len(t, w.ups, 1)
		require.Equal(t, frames.ConnectionCloseID, w.ups[0].Method())
	}
}

func TestProxysCertificateIsNotLent(t *testing.T) {
	malformed := parseFrame(words(silent))
	malformed = append(malformed[:len(malformed)-1:len(malformed)-1], 0, frames.End) // an octet behind the last field
	malformed[6]++
	cases := map[string]struct {
		frame frames.Frame
		told  bool
	}{
		"announcing":                   {parseFrame(words(announcing)), true},
		"silent":                       {parseFrame(words(silent)), false},
		"capabilities of another type": {parseFrame(words("0 connection.start-ok client-properties={capabilities=5} mechanism=EXTERNAL locale=en_US")), false},
		"too long for an addition":     {parseFrame(words("0 connection.start-ok client-properties={f=" + strings.Repeat("f", 5000) + "} mechanism=EXTERNAL locale=en_US")), false},
		"not to be read":               {malformed, false},
		"not to be read, another":      {append(append(frames.Frame{}, parseFrame(words(silent))[:14]...), frames.End), false},
	}
	for name, tc := range cases {
		for _, early := range []bool{false, true} { // a client need not wait for the start
			t.Run(name, func(t *testing.T) {
				if name == "not to be read, another" {
					tc.frame[6] = byte(len(tc.frame) - frames.HeadSize - 1)
				}
				w := newWire(t)
				if !early {
					w = started(t, router.ProxyCertificate)
				}
				w.downs = nil
				w.client(tc.frame)
				require.EqualValues(t, 403, w.conn.Raised().Code)
				require.True(t, w.conn.Closing())
				if tc.told {
					var m frames.ConnectionClose
					require.Len(t, w.downs, 1)
					require.NoError(t, m.Decode(w.downs[0].Args()))
					require.EqualValues(t, 403, m.ReplyCode)
					require.Contains(t, m.ReplyText, "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL")
				} else {
					require.Empty(t, w.downs)
					require.False(t, w.conn.OwesCloseOk())
				}
				w.clientText(silent) // it does not give up
				w.clientText(announcing)
				w.clientText("0 connection.secure-ok response=again")
				w.clientText("0 connection.tune-ok")
				w.clientText("0 connection.open virtual-host=/")
				w.clientText("1 channel.open")
				require.Len(t, w.ups, 1)
				require.Equal(t, frames.ConnectionCloseID, w.ups[0].Method())
			})
		}
	}
}

func TestMechanismsThatOnlyLookLikeExternalPass(t *testing.T) {
	for _, mechanism := range []string{"external", "EXTERNAL2", "PLAIN", "AMQPLAIN", "RABBIT-CR-DEMO", "ANONYMOUS"} {
		w := started(t, router.ProxyCertificate)
		w.clientText("0 connection.start-ok mechanism=" + mechanism + " response=r locale=en_US")
		require.Nil(t, w.conn.Raised())
		require.Len(t, w.ups, 1)
		require.Contains(t, frameText(w.ups[0]), "mechanism="+mechanism+" response=r")
	}
}

// What the proxy says of a client counts, not what the client says.
func TestClientCannotSayItIsAnother(t *testing.T) {
	w := newWire(t)
	w.conn.Introduce("198.51.100.7:1234")
	w.clientText(`0 connection.start-ok client-properties={connection_name=mine client_address="127.0.0.1:1" proxy=none} mechanism=PLAIN response=r locale=en_US`)
	text := frameText(w.ups[0])
	require.Contains(t, text, "connection_name=mine")
	require.Contains(t, text, `client_address="198.51.100.7:1234" proxy="shardmq test"`)
	require.Equal(t, 1, strings.Count(text, "client_address"))
	require.NotContains(t, text, "127.0.0.1")
}
