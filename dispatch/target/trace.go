package target

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// trace is what the endpoint's traces go on from (W3C Trace Context): the message's, or a new one. All attempts of a
// job are of the same trace.
func trace(m *Message) (parent, state string) {
	if parent, _ = valueText(m.Headers["traceparent"]); validParent(parent) {
		if state, _ = valueText(m.Headers["tracestate"]); len(state) > maxState || !fieldText(state) {
			state = ""
		}
		return parent, state
	}
	sum := sha256.Sum256([]byte(m.Job + "\x00" + m.ID))
	var span [8]byte
	_, _ = rand.Read(span[:]) // never fails
	span[0] |= 1              // not all zero
	out := append(make([]byte, 0, 55), "00-"...)
	out = hex.AppendEncode(out, sum[:16])
	out = append(out, '-')
	out = hex.AppendEncode(out, span[:])
	// Sampled: otherwise endpoints that go by the caller would never record a job.
	return string(append(out, "-01"...)), ""
}

// maxState bounds a tracestate: what everyone has to pass on is 512 octets.
const maxState = 512

// validParent reports whether it is a traceparent: of version 00, or of a later one, which may go on.
func validParent(s string) bool {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || !fieldText(s) || len(s) > maxState {
		return false
	}
	for _, part := range []string{s[:2], s[3:35], s[36:52], s[53:55]} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return s[:2] != "ff" && (s[:2] != "00" && (len(s) == 55 || s[55] == '-') || len(s) == 55) &&
		strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}
