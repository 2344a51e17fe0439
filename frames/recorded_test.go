package frames_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

//go:embed testdata/pika.txt
var pikaText string

// recorded returns frames of a real client by name.
func recorded(t testing.TB) map[string]frames.Frame {
	t.Helper()
	out := make(map[string]frames.Frame)
	for line := range strings.Lines(pikaText) {
		if name, octets, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			f, err := frames.Next(unhex(t, octets), frames.MinFrameMax)
			require.NoError(t, err, name)
			out[name] = f
		}
	}
	require.NotEmpty(t, out)
	return out
}

func TestRecordedMethodsRoundTrip(t *testing.T) {
	n := 0
	for name, f := range recorded(t) {
		if f.Type() != frames.TypeMethod {
			continue
		}
		n++
		m := frames.NewMethod(f.Method())
		require.NoError(t, m.Decode(f.Args()), name)
		require.Equal(t, []byte(f), frames.AppendMethod(nil, f.Channel(), m), name)
	}
	require.Equal(t, 17, n)
}

func TestRecordedMethodFields(t *testing.T) {
	rec := recorded(t)
	var start frames.ConnectionStartOk
	require.NoError(t, start.Decode(rec["start-ok"].Args()))
	require.Equal(t, "PLAIN", start.Mechanism)
	require.Equal(t, "\x00guest\x00guest", string(start.Response))
	require.NoError(t, start.ClientProperties.Valid())
	capabilities, ok := start.ClientProperties.LookupTable("capabilities")
	require.True(t, ok)
	nack, ok := capabilities.LookupBool("basic.nack")
	require.True(t, ok && nack)

	var declare frames.ExchangeDeclare
	require.NoError(t, declare.Decode(rec["exchange-declare"].Args()))
	alternate, ok := declare.Arguments.LookupString("alternate-exchange")
	require.True(t, ok)
	require.Equal(t, "other", string(alternate))
	declare.Arguments = nil
	require.Equal(t, frames.ExchangeDeclare{Exchange: "images", Type: "x-modulus-hash", Durable: true}, declare)

	p, ok := frames.ParsePublish(rec["publish"].Args())
	require.True(t, ok)
	require.Equal(t, frames.Publish{Exchange: []byte("images"), RoutingKey: []byte("key.1"), Mandatory: true}, p)
}

func TestRecordedHeaders(t *testing.T) {
	rec := recorded(t)
	h, ok := frames.ParseContentHeader(rec["header-all"].Payload())
	require.True(t, ok)
	require.NoError(t, h.Headers.Valid())
	require.Equal(t, uint16(0xFFFC), h.Flags)
	id, ok := h.MessageID()
	require.True(t, ok)
	require.Equal(t, "m", string(id))

	for name, f := range rec {
		if f.Type() != frames.TypeHeader {
			continue
		}
		_, changed := frames.AppendHeaderBCC(nil, f, "key")
		require.Equal(t, name != "header-bcc-text", changed, name)
		checkBCCEdit(t, f, "key")
	}
	out, _ := frames.AppendHeaderBCC(nil, rec["header-cc"], "key")
	require.Equal(t, []string{"k3", "key"}, keysOf(t, out, "BCC"))
	require.Equal(t, []string{"k1", "k2"}, keysOf(t, out, "CC"))
}
