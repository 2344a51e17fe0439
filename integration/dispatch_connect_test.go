package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/integration/rig"
)

// TestDispatchCannotConnect: for each way in which a server's section may be wrong, the log says once what, where and what to do.
func TestDispatchCannotConnect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, other := certtest.NewCA(t, "CA"), certtest.NewCA(t, "other")
	trusted, wrong := certtest.WriteFile(t, dir, "ca.pem", ca.PEM), certtest.WriteFile(t, dir, "other.pem", other.PEM)
	cert, key := ca.Issue(t, certtest.Asked{Name: "broker", Hosts: []string{"127.0.0.1"}}).Write(t, dir, "broker")
	e := newNodeEnv(t, rig.NodeOptions{TLS: &rig.NodeTLS{CA: trusted, Cert: cert, Key: key}})
	app := newApplication(t, func(http.ResponseWriter, *http.Request, string, int) {})
	secure, plain := e.broker.TLSAddr, e.broker.Addr
	elsewhere := "localhost" + strings.TrimPrefix(secure, "127.0.0.1")

	servers, jobs, want := "", "", map[string][2]string{}
	add := func(name, scheme, address, vhost, more, says string) {
		servers += fmt.Sprintf("    %s: {url: \"%s://guest:%s@%s/%s\"%s}\n", name, scheme, map[bool]string{true: "hunter2", false: "guest"}[name == "password"], address, vhost, more)
		jobs += fmt.Sprintf("    - {name: %s, server: %s, target: {url: %q}}\n", name, name, app.URL)
		want[name] = [2]string{address, says}
	}
	trusting := fmt.Sprintf(", ca: %q", trusted)
	add("secure", "amqp", secure, "%2F", "", "it speaks TLS on this port: begin the url with amqps://")
	add("plain", "amqps", plain, "%2F", trusting, "it does not speak TLS on this port: give its port for TLS")
	add("authority", "amqps", secure, "%2F", fmt.Sprintf(", ca: %q", wrong), "name the CA's file in the server's ca")
	add("host", "amqps", elsewhere, "%2F", trusting, "its certificate is for another name: give in the url the host name that is in it")
	add("password", "amqp", plain, "%2F", "", `it refuses the login of user \"guest\": correct username and password`)
	add("vhost", "amqps", secure, "nowhere", trusting, `it lets user \"guest\" not into vhost \"nowhere\": create the vhost`)
	add("refused", "amqp", "127.0.0.1:1", "%2F", "", "nothing listens there: start the broker")
	silent, tries := hangsUp(t)
	add("silent", "amqp", silent, "%2F", "", "it hung up without a word: see whether this is its port for AMQP")
	d := runDispatch(t, "dispatch:\n  servers:\n"+servers+"  jobs:\n"+jobs)
	for name, each := range want {
		d.says("no jobs are fetched", fmt.Sprintf(`connect to server \"%s\" (%s)`, name, each[0]), each[1])
	}
	eventually(t, "they have been tried again and again", func() string { // all at the same pace
		if n := tries.Load(); n < 6 {
			return fmt.Sprint(n)
		}
		return ""
	})
	d.stop()
	require.Equal(t, len(want), strings.Count(d.log.String(), "no jobs are fetched"), d.log.String())
	require.NotContains(t, d.log.String(), "hunter2")
}

// hangsUp is a server that reads what a broker would be sent first and hangs up, and how often it has done so.
func hangsUp(t *testing.T) (address string, times *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	times = &atomic.Int32{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 8))
			_ = conn.Close()
			times.Add(1)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), times
}
