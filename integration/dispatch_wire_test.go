package integration

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
)

// captured is a request of Consumer Dispatcher 0.1.2, as it was seen on the wire, with LF for CR LF.
//
//go:embed testdata/consumer-dispatcher-request.txt
var captured string

// readRequest reads a request as it comes, with LF for CR LF in its head.
func readRequest(t *testing.T, r *bufio.Reader) string {
	var text strings.Builder
	length := 0
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(line, "\r\n"), "%q", line)
		line = strings.TrimSuffix(line, "\r\n")
		if n, is := strings.CutPrefix(line, "Content-Length: "); is {
			length, err = strconv.Atoi(n)
			require.NoError(t, err)
		}
		text.WriteString(line + "\n")
		if line == "" {
			break
		}
	}
	_, err := io.CopyN(&text, r, int64(length))
	require.NoError(t, err)
	return text.String()
}

// withoutLines leaves out the lines that begin so.
func withoutLines(text string, prefixes ...string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		keep := true
		for _, p := range prefixes {
			keep = keep && !strings.HasPrefix(line, p)
		}
		if keep {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestDispatchCapture: the request is octet by octet that of Consumer Dispatcher, save for its User-Agent and that the
// connection stays; and octets that are no text are passed on as they are.
func TestDispatchCapture(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	url := "http://" + listener.Addr().String() + "/consumerDispatch/"
	job := `
    - name: %s
      executors: 1
      declare: {}
      target: {url: %q, host: mail.example.test}
      request: {mode: form, encoding: %s}`
	runDispatch(t, fmt.Sprintf("dispatch:\n  servers: {test: {url: %q}}\n  jobs:"+job+job+"\n", e.url,
		"text_mail", url, "utf-8", "latin", url, "iso-8859-1"))
	awaitConsumers(t, e, "text_mail", 1)
	awaitConsumers(t, e, "latin", 1)
	ch := confirming(t, e.url)
	job1 := text("B:ok plain a+b&c=d %41 é€\nline2")
	job1.Headers = amqp.Table{"tenant": "a"} // which are not passed on
	job1.ContentType, job1.MessageId = "text/plain", "one"
	publish(t, ch, "", "text_mail", job1)
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	r := bufio.NewReader(conn)
	request := readRequest(t, r)
	require.Equal(t, withoutLines(captured, "Connection:", "User-Agent:"), withoutLines(request, "User-Agent:"))
	require.Contains(t, request, "\nUser-Agent: shardmq")

	answer := func(conn net.Conn) {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n  OK \r\n ")
		require.NoError(t, err)
	}
	answer(conn)
	publish(t, ch, "", "text_mail", text("\x00\xff\xfe\x80"))
	require.True(t, strings.HasSuffix(readRequest(t, r), "\nqueueName=text_mail&bodyData=%00%FF%FE%80"), "on the same connection")
	answer(conn)
	publish(t, ch, "", "latin", text("\xe9\xa4"))
	other, err := listener.Accept()
	require.NoError(t, err)
	defer other.Close()
	require.True(t, strings.HasSuffix(readRequest(t, bufio.NewReader(other)), "\nqueueName=latin&bodyData=%C3%A9%C2%A4"))
	answer(other)
	e.emptied()
}

// TestDispatchSizes: messages as large as they get, also by way of a retry; answers that are large, without end, or lead
// elsewhere.
func TestDispatchSizes(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	large := octets(8 << 20)
	var wrote atomic.Int64
	const end = 256 << 20 // more than connections hold
	app := newApplication(t, func(w http.ResponseWriter, r *http.Request, body string, call int) {
		chunk := octets(1 << 20)
		switch {
		case body == "10 MiB":
			w.Header().Set("Content-Length", fmt.Sprint(10<<20))
			for range 10 {
				_, _ = w.Write(chunk)
			}
		case body == "endless":
			for wrote.Load() < end {
				n, err := w.Write(chunk)
				if wrote.Add(int64(n)); err != nil {
					return
				}
			}
		case body == "elsewhere" && r.URL.Path == "/":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case len(body) == len(large) && call == 1:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 4", "retry: {max: 2, backoff: [100ms, 100ms]}")))
	awaitConsumers(t, e, name, 4)
	ch := confirming(t, e.url)
	publishDurably(t, ch, name+"_router", []string{"10 MiB", "endless", "elsewhere", string(large), string(octets(256)), ""})
	st := d.reach(name, "all are settled", func(st admin.Job) bool { return st.Done == 5 && st.Dead == 1 })
	require.Contains(t, deadLetters(t, e, name, 1)["elsewhere"]["x-dispatch-reason"], "307")
	require.EqualValues(t, 2, st.Retried, "the large one and that which leads elsewhere")
	require.Less(t, wrote.Load(), int64(end), "an answer without end was read")
	app.mu.Lock()
	var calls []string
	for body, times := range app.calls {
		calls = append(calls, fmt.Sprintf("%x %d", sha256.Sum256([]byte(body)), len(times)))
	}
	app.mu.Unlock()
	want := []string{}
	for body, n := range map[string]int{"10 MiB": 1, "endless": 1, "elsewhere": 2, string(large): 2, string(octets(256)): 1, "": 1} {
		want = append(want, fmt.Sprintf("%x %d", sha256.Sum256([]byte(body)), n))
	}
	require.ElementsMatch(t, want, calls)
	e.emptied()
}
