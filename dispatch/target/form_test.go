package target

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/japanese"
	"pgregory.net/rapid"
)

// TestCapturedForm: this is what Consumer Dispatcher 0.1.2 sent for such a message, but for the headers User-Agent and
// Connection and their places.
func TestCapturedForm(t *testing.T) {
	const captured = "POST /consumerDispatch/ HTTP/1.1\r\n" +
		"Host: mail.example.test\r\n" +
		"Content-Length: 85\r\n" +
		"Content-Type: application/x-www-form-urlencoded; charset=UTF-8\r\n" +
		"\r\n" +
		"queueName=text_mail&bodyData=B%3Aok+plain+a%2Bb%26c%3Dd+%2541+%C3%A9%E2%82%AC%0Aline2"
	got := make(chan string, 1)
	s := serveWire(t, func(c net.Conn, _ *http.Request, raw string) bool {
		got <- raw
		return write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true)(c, nil, "")
	})
	c := newClient(t, Options{URL: s.URL + "consumerDispatch/", Host: "mail.example.test", Mode: Form, Encoding: "utf-8"}, Rules{AckWhen: SaysOK()})
	o := c.Do(t.Context(), &Message{Job: "text_mail", Queue: "q", ID: "id", Attempt: 1, ContentType: "text/plain", MessageID: "id",
		Headers: map[string]any{"a": "b"}, Body: []byte("B:ok plain a+b&c=d %41 é€\nline2")})
	require.Equal(t, Done, o.Verdict)
	raw := <-got
	require.Contains(t, raw, "\r\nUser-Agent: shardmq\r\n")
	require.Equal(t, captured, strings.Replace(raw, "User-Agent: shardmq\r\n", "", 1))
}

func TestFormEncodings(t *testing.T) {
	shift, err := japanese.ShiftJIS.NewEncoder().String("日本")
	require.NoError(t, err)
	for _, tc := range []struct{ encoding, body, want string }{
		{"", "a b*~-._", "a+b*%7E-._"},
		{"utf-8", "\x00\xff\xfe\x80", "%00%FF%FE%80"},
		{"UTF8", "é\xff", "%C3%A9%FF"},
		{"utf-8", "\ufeffx\ufffd", "%EF%BB%BFx%EF%BF%BD"},
		{"iso-8859-1", "\xe9\xa4", "%C3%A9%C2%A4"},
		{"ISO8859_1", "\x80\x99", "%C2%80%C2%99"},
		{"windows-1252", "\x80\x81", "%E2%82%AC%81"}, // 81 is nothing there,
		{"Cp1252", "\x80", "%E2%82%AC"},
		{"us-ascii", "a\xe9b", "a%E9b"},
		{"windows-1253", "\xe1\xd2\xe1", "%CE%B1%D2%CE%B1"}, // D2 is nothing there
		{"gbk", "\xc4\xe3\xff", "%E4%BD%A0%FF"},
		{"shift_jis", shift, "%E6%97%A5%E6%9C%AC"},
		{"shift_jis", "\xa0" + shift[:3], "%A0%E6%97%A5" + "%96"}, // nothing, and half of something
		{"utf-16", "\xfe\xff\x00a", "a"},
		{"utf-16le", "a\x00\x3d\xd8\x00\xde", "a%F0%9F%98%80"},
		{"utf-16le", "a\x00\x3d\xd8b\x00", "a%3D%D8b"}, // half of a pair
		{"iso-2022-jp", "\x1b$B$\"\x1b(B\xff", "%E3%81%82%FF"},
		{"", "", ""},
	} {
		t.Run(tc.encoding+" "+tc.want, func(t *testing.T) {
			c := newClient(t, Options{URL: "http://h/", Mode: Form, Encoding: tc.encoding}, Rules{})
			require.Equal(t, "queueName=a%2Fb&bodyData="+tc.want, string(c.form(&Message{Job: "a/b", Body: []byte(tc.body)})))
		})
	}
}

// TestFormKeepsOctets: whatever the body is, PHP's or anybody's form parser gives it back.
func TestFormKeepsOctets(t *testing.T) {
	c := newClient(t, Options{URL: "http://h/", Mode: Form}, Rules{})
	rapid.Check(t, func(t *rapid.T) {
		name, body := rapid.String().Draw(t, "name"), rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		form := c.form(&Message{Job: name, Body: body})
		require.Equal(t, "queueName="+escapeForm(name)+"&bodyData="+escapeForm(string(body)), string(form))
		values, err := url.ParseQuery(string(form))
		require.NoError(t, err)
		require.Equal(t, url.Values{"queueName": {name}, "bodyData": {string(body)}}, values)
	})
}

// escapeForm is url.QueryEscape with what Java does otherwise.
func escapeForm(s string) string {
	return strings.NewReplacer("~", "%7E", "%2A", "*").Replace(url.QueryEscape(s))
}

// TestDecodeLosesNothing: what no character set makes text of is there as it is, in its place.
func TestDecodeLosesNothing(t *testing.T) {
	for _, name := range []string{"us-ascii", "iso-8859-7", "windows-1252", "koi8-r", "gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr", "utf-16le"} {
		charset, err := newCharset(name)
		require.NoError(t, err)
		rapid.Check(t, func(t *rapid.T) {
			body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
			text, n := "", 0
			decode(charset, body, func(part []byte) { text, n = text+string(part), n+1 })
			require.Equal(t, len(body) == 0, text == "")
			if whole, err := charset.NewDecoder().String(string(body)); err == nil && !strings.Contains(whole, "\ufffd") {
				require.Equal(t, whole, text)
			}
			require.LessOrEqual(t, strings.Count(text, "\ufffd"), 0, name)
		})
	}
}
