package target

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/transform"
)

const formType = "application/x-www-form-urlencoded; charset=UTF-8"

// form is the body of mode Form. Its octets are those that Consumer Dispatcher sends, as long as the message's are text.
func (c *Client) form(m *Message) []byte {
	const name, data = "queueName=", "&bodyData="
	n := len(name) + 3*len(m.Job) + len(data)
	if c.charset == nil {
		n += formLen(m.Body)
	} else {
		n += 2 * len(m.Body) // as a beginning
	}
	out := append(make([]byte, 0, n), name...)
	out = appendForm(out, m.Job)
	out = append(out, data...)
	if c.charset == nil {
		return appendForm(out, m.Body)
	}
	decode(c.charset, m.Body, func(part []byte) { out = appendForm(out, part) })
	return out
}

// formOctet says what becomes of an octet: 0 = it is escaped. They are as java.net.URLEncoder has them: unlike in URLs,
// * stays and ~ is escaped.
var formOctet = func() (t [256]byte) {
	for c := range 256 {
		switch b := byte(c); {
		case b == ' ':
			t[c] = '+'
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', strings.IndexByte(".-*_", b) >= 0:
			t[c] = b
		}
	}
	return t
}()

func formLen(s []byte) int {
	n := len(s)
	for _, b := range s {
		if formOctet[b] == 0 {
			n += 2
		}
	}
	return n
}

func appendForm[T string | []byte](out []byte, s T) []byte {
	for i := range len(s) {
		if b := formOctet[s[i]]; b != 0 {
			out = append(out, b)
		} else {
			out = append(out, '%', hexDigits[s[i]>>4], hexDigits[s[i]&15])
		}
	}
	return out
}

var errCharset = errors.New("is no character set that is known here; give the name that IANA has for it, such as utf-8, iso-8859-1, windows-1252, gbk or shift_jis")

// newCharset returns nil for UTF-8: there, nothing has to be decoded to be sent as UTF-8. Names that IANA does not have,
// but browsers or Java, are known too.
func newCharset(name string) (encoding.Encoding, error) {
	switch strings.ToLower(name) {
	case "", "utf-8", "utf8":
		return nil, nil
	}
	enc, err := ianaindex.IANA.Encoding(name)
	if err != nil || enc == nil {
		enc, err = htmlindex.Get(name)
	}
	if rest, ok := strings.CutPrefix(strings.ToLower(name), "iso8859_"); ok { // Java's
		enc, err = ianaindex.IANA.Encoding("iso-8859-" + rest)
	}
	if err != nil || enc == nil || enc == encoding.Replacement {
		return nil, errCharset
	}
	return enc, nil
}

// decode yields text in UTF-8, and octets that are no text as they are, so that nothing is lost.
func decode(charset encoding.Encoding, body []byte, yield func([]byte)) {
	decoder := charset.NewDecoder()
	if whole, err := decoder.Bytes(body); err == nil && !bytes.ContainsRune(whole, utf8.RuneError) {
		yield(whole)
		return
	}
	decoder.Reset()
	var out [16]byte
	for room := 1; len(body) > 0; {
		// One character at a time, to see which octets it is of.
		n, taken, err := decoder.Transform(out[:room], body, true)
		switch {
		case n > 0 && !bytes.ContainsRune(out[:n], utf8.RuneError):
			yield(out[:n])
		case n > 0:
			yield(body[:taken])
		case taken > 0: // such as a shift to other characters
		case errors.Is(err, transform.ErrShortDst) && room < len(out):
			room++
			continue
		default:
			taken = 1
			yield(body[:1])
		}
		body, room = body[taken:], 1
	}
}
