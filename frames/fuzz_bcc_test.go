package frames_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// FuzzAppendHeaderBCC: see checkBCCEdit.
func FuzzAppendHeaderBCC(f *testing.F) {
	for _, fr := range recorded(f) {
		if fr.Type() == frames.TypeHeader {
			f.Add(fr.Payload(), "shardmq:0123456789abcdef", "")
		}
	}
	two := frames.AppendField(frames.AppendField(nil, "BCC", 'A', array(text("a"))), "BCC", 'A', array("V"))
	f.Add(withHeaders(two).Payload(), "", "k")
	f.Add(withHeaders(frames.AppendString(two, "CC", "x")).Payload(), "", "k")
	f.Add(props{more: []uint16{2, 0}}.payload(), "a", "b")
	f.Fuzz(func(t *testing.T, payload []byte, first, second string) {
		fr := frames.Frame(frames.AppendFrame(nil, frames.TypeHeader, 3, payload))
		checkBCCEdit(t, fr, first, second)
		checkBCCDelivered(t, fr, first, second)
		out, changed := frames.AppendHeaderBCC(nil, fr, first)
		if !changed {
			return
		}
		// Adding one after the other is adding both.
		both, changed := frames.AppendHeaderBCC(nil, fr, first, second)
		require.True(t, changed)
		out, changed = frames.AppendHeaderBCC(nil, out, second)
		require.True(t, changed)
		bare := func(b []byte) []byte {
			if r, changed := frames.AppendHeaderRestored(nil, b, false); changed {
				return r
			}
			return b
		}
		require.Equal(t, bare(both), bare(out))
	})
}

// checkBCCDelivered: once the broker has taken BCC out, and the header is restored, a consumer gets what it would have got without the keys.
func checkBCCDelivered(t *testing.T, f frames.Frame, keys ...string) {
	sent, changed := frames.AppendHeaderBCC(nil, f, keys...)
	if !changed || bytes.Contains(f, []byte(frames.EmptyMarker)) {
		return // a client's own entry of that name is lost
	}
	want := stripped(t, f)
	got := stripped(t, sent)
	if out, changed := frames.AppendHeaderRestored(nil, got, true); changed {
		got = out
	}
	require.Equal(t, want, got)
}

// stripped is a header frame as the broker delivers it: the first BCC is gone.
func stripped(t *testing.T, f frames.Frame) frames.Frame {
	h, ok := frames.ParseContentHeader(f.Payload())
	require.True(t, ok)
	if !h.HasHeaders {
		return f
	}
	var table frames.Table
	gone := false
	require.NoError(t, h.Headers.Each(func(n []byte, kind byte, value []byte) bool {
		if gone || string(n) != "BCC" {
			table = frames.AppendField(table, string(n), kind, value)
		} else {
			gone = true
		}
		return true
	}))
	end := tableEndOf(f.Payload(), h)
	payload := bytes.Clone(f.Payload()[:end-len(h.Headers)-4])
	payload = append(append(payload, array(string(table))...), f.Payload()[end:]...)
	return frames.AppendFrame(nil, frames.TypeHeader, f.Channel(), payload)
}
