package target

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Headers that shardmq sets, as they are spelled on HTTP/1 connections. See the package's comment.
//
// The first is in small letters on purpose: under its usual spelling net/http would send a request again by itself if a
// connection breaks, which the endpoint may have had already. That is an attempt, and the caller counts those.
const (
	idempotencyKey   = "idempotency-key"
	dispatchJob      = "Dispatch-Job"
	dispatchAttempt  = "Dispatch-Attempt"
	traceparent      = "Traceparent"
	tracestate       = "Tracestate"
	webhookID        = "Webhook-Id"
	webhookTimestamp = "Webhook-Timestamp"
	webhookSignature = "Webhook-Signature"
	propertyPrefix   = "X-AMQP-"
	tablePrefix      = propertyPrefix + "Header-"
	eventPrefix      = "Ce-"
)

// reservedNames are names of headers that cannot be chosen, in small letters, and what to do instead.
var reservedNames = map[string]string{
	"host": "give host instead", "content-length": "leave it out", "transfer-encoding": "leave it out", "connection": "leave it out",
	"keep-alive": "leave it out", "proxy-connection": "leave it out", "te": "leave it out", "trailer": "leave it out",
	"upgrade": "leave it out", "expect": "leave it out", "content-encoding": "it is that of the message",
	idempotencyKey: "it is the job's ID", "traceparent": "it is the message's, or new", "tracestate": "it is the message's",
	"webhook-id": "give signing-secrets instead", "webhook-timestamp": "give signing-secrets instead", "webhook-signature": "give signing-secrets instead",
}

// reservedPrefixes are what further such names begin with.
var reservedPrefixes = []string{"dispatch-", "x-amqp-", "ce-"}

// reserved reports whether shardmq, or HTTP itself, sets a header of this name, and what to do instead.
func reserved(name string) (instead string, taken bool) {
	name = strings.ToLower(name)
	if instead, taken = reservedNames[name]; taken {
		return instead, true
	}
	for _, p := range reservedPrefixes {
		if strings.HasPrefix(name, p) {
			return "give it another name", true
		}
	}
	return "", false
}

func given(headers map[string]string, name string) bool {
	for n := range headers {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// spelling is how a header is written whose name was chosen, and its key in an http.Header.
func spelling(name string) string {
	if strings.EqualFold(name, "X-Idempotency-Key") {
		return strings.ToLower(name) // see idempotencyKey
	}
	return http.CanonicalHeaderKey(name)
}

// headers are those of one request.
type headers struct {
	http.Header
	values []string // of those that are set here: one allocation for all
	static http.Header
}

// newHeaders begins with the static ones.
func newHeaders(static http.Header, others int) *headers {
	h := &headers{Header: make(http.Header, len(static)+others), values: make([]string, 0, others), static: static}
	for k, v := range static {
		h.Header[k] = v
	}
	return h
}

// set sets a header, unless there is a static one, or no value.
func (h *headers) set(name, value string) {
	if value == "" || h.static[name] != nil {
		return
	}
	h.values = append(h.values, value)
	n := len(h.values)
	h.Header[name] = h.values[n-1 : n : n]
}

// setText sets a header to text that may be anything, see escape.
func (h *headers) setText(name, text string) { h.set(name, escape(text, plain)) }

// table passes on headers of a message.
func (h *headers) table(all bool, names []string, table map[string]any) {
	if all {
		for name, v := range table {
			if text, ok := valueText(v); ok && len(text) <= maxValue {
				h.setText(tablePrefix+escape(name, tokenOctet), text)
			}
		}
	}
	for _, name := range names {
		if text, ok := valueText(table[name]); ok && len(text) <= maxValue {
			h.setText(spelling(name), text)
		}
	}
}

// maxValue bounds, in octets, the value of a message's header that is passed on: servers refuse requests whose headers
// are some 8 KiB together.
const maxValue = 4096

const hexDigits = "0123456789ABCDEF"

// escape is text in which each octet that is not ok is % and two hexadecimal digits, as are % itself and a space at an
// end; so it can be undone, and goes into a header.
func escape(text string, ok func(byte) bool) string {
	n := 0
	for i := range len(text) {
		if !ok(text[i]) || edge(text, i) {
			n++
		}
	}
	if n == 0 {
		return text
	}
	out := make([]byte, 0, len(text)+2*n)
	for i := range len(text) {
		if c := text[i]; ok(c) && !edge(text, i) {
			out = append(out, c)
		} else {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(out)
}

func edge(text string, i int) bool { return text[i] == ' ' && (i == 0 || i == len(text)-1) }

// plain are the octets that stay as they are in the headers of shardmq.
func plain(c byte) bool { return ' ' <= c && c <= '~' && c != '%' }

// eventOctet are those that stay in headers of CloudEvents (HTTP binding 1.0.2, section 3.1.3.2).
func eventOctet(c byte) bool { return '!' <= c && c <= '~' && c != '"' && c != '%' }

// tokenOctet are those of names (RFC 9110, section 5.6.2), without %.
func tokenOctet(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0
}

// token reports whether it is a name of a header.
func token(s string) bool {
	for i := range len(s) {
		if !tokenOctet(s[i]) && s[i] != '%' {
			return false
		}
	}
	return s != ""
}

// fieldText reports whether a header can have this value.
func fieldText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// statusText is a status as people know it.
func statusText(status int) string {
	text := "HTTP " + strconv.Itoa(status)
	if s := http.StatusText(status); s != "" {
		text += " " + s
	}
	return text
}
