package frames

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// strippedBCC is what RabbitMQ makes of a header frame: the first entry BCC is gone, the table stays.
func strippedBCC(t *testing.T, f Frame) Frame {
	t.Helper()
	h, ok := ParseContentHeader(f.Payload())
	require.True(t, ok)
	if !h.HasHeaders {
		return f
	}
	table := h.Headers.Without("BCC")
	payload := append([]byte(nil), f.Payload()[:h.after-len(h.Headers)-4]...)
	payload = appendLong(payload, uint32(len(table)))
	payload = append(payload, table...)
	payload = append(payload, f.Payload()[h.after:]...)
	return AppendFrame(nil, TypeHeader, f.Channel(), payload)
}

func TestHeaderIsRestored(t *testing.T) {
	header := func(flags uint16, properties string) Frame {
		payload := append(make([]byte, 0, 64), 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, byte(flags>>8), byte(flags))
		return AppendFrame(nil, TypeHeader, 1, append(payload, properties...))
	}
	empty := "\x00\x00\x00\x00"
	entry := "\x00\x00\x00\x08\x01aS\x00\x00\x00\x01b"
	for name, f := range map[string]Frame{
		"no properties":            header(0, ""),
		"no table":                 header(FlagDeliveryMode, "\x02"),
		"empty table":              header(FlagHeaders, empty),
		"empty table among others": header(FlagContentType|FlagHeaders|FlagDeliveryMode, "\x01t"+empty+"\x02"),
		"entries":                  header(FlagHeaders|FlagPriority, entry+"\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			sent, changed := AppendHeaderBCC(nil, f, "key")
			require.True(t, changed)
			got := strippedBCC(t, sent)
			if out, changed := AppendHeaderRestored([]byte("x"), got, true); changed {
				got = out[1:]
			}
			require.Equal(t, f, got)
		})
	}
	// The client's own BCC as only entry leaves an empty table with a direct connection too.
	own := header(FlagHeaders, "\x00\x00\x00\x0f\x03BCCA\x00\x00\x00\x06S\x00\x00\x00\x01q")
	sent, changed := AppendHeaderBCC(nil, own, "key")
	require.True(t, changed)
	got, changed := AppendHeaderRestored(nil, strippedBCC(t, sent), true)
	require.True(t, changed)
	require.Equal(t, header(FlagHeaders, empty), Frame(got))
	// Messages that no shard key was added to stay as they are.
	out, changed := AppendHeaderRestored(nil, header(FlagHeaders, empty), false)
	require.False(t, changed)
	require.Empty(t, out)
}

func TestRestoreDoesNotAllocate(t *testing.T) {
	f := AppendFrame(nil, TypeHeader, 1, []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0, 0})
	dst := make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() { AppendHeaderRestored(dst, f, true) }))
}
