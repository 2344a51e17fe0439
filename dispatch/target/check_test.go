package target

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/config/secret"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	cert, key := certtest.NewCA(t, "ca").Issue(t, certtest.Asked{Name: "me"}).Write(t, dir, "me")
	ranges := func(from, to int) Match { return Match{Statuses: []StatusRange{{from, to}}} }
	for _, tc := range []struct {
		change func(*Options, *Rules)
		want   string // the beginning of what is said; "" = it is good
	}{
		{func(*Options, *Rules) {}, ""},
		{func(o *Options, _ *Rules) { o.URL = "" }, "url: is missing;"},
		{func(o *Options, _ *Rules) { o.URL = "http://h/%zz" }, "url: cannot be read;"},
		{func(o *Options, _ *Rules) { o.URL = "h:80/x" }, "url: h:80/x begins with neither http:// nor https://;"},
		{func(o *Options, _ *Rules) { o.URL = "http:///x" }, "url: http:///x names no host;"},
		{func(o *Options, _ *Rules) { o.URL = "http://h/#x" }, "url: http://h/#x has a #fragment"},
		{func(o *Options, _ *Rules) { o.URL = "https://[::1]:8443/a?b=c" }, ""},
		{func(o *Options, _ *Rules) { o.URL = "http://u:p@h/" }, ""},
		{func(o *Options, _ *Rules) { o.URL, o.Auth.Bearer = "http://u:p@h/", "t" }, "auth: is given, and a user in the url as well;"},
		{func(o *Options, _ *Rules) { o.Auth = Auth{Username: "u", Bearer: "t"} }, "auth: has a user and a token;"},
		{func(o *Options, _ *Rules) { o.Auth = Auth{Username: "u:p"} }, "auth.username: has a colon"},
		{func(o *Options, _ *Rules) { o.Auth = Auth{Bearer: "Bearer t"} }, "auth.bearer: has spaces"},
		{func(o *Options, _ *Rules) { o.Auth = Auth{Bearer: "t\n"} }, "auth.bearer: has spaces"},
		{func(o *Options, _ *Rules) { o.Host = "jobs.test:8080" }, ""},
		{func(o *Options, _ *Rules) { o.Host = "http://h" }, `host: "http://h" is no host;`},
		{func(o *Options, _ *Rules) { o.Method = "PATCH" }, ""},
		{func(o *Options, _ *Rules) { o.Method = "GET" }, `method: "GET" is not possible;`},
		{func(o *Options, _ *Rules) { o.Timeout = 0 }, "timeout: is 0s;"},
		{func(o *Options, _ *Rules) { o.Connections = -1 }, "connections: is -1;"},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"a b": "x"} }, "headers.a b: is no name of a header;"},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"": "x"} }, "headers.: is no name of a header;"},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"x": "a\r\nb"} }, "headers.x: has a line end"},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"x": "é\ttab"} }, ""},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"HOST": "h"} }, "headers.HOST: is set by shardmq; give host instead"},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"Content-Length": "1"} }, "headers.Content-Length: is set by shardmq;"},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"Idempotency-Key": "1"} }, "headers.Idempotency-Key: is set by shardmq;"},
		{func(o *Options, _ *Rules) { o.Headers = map[string]string{"x-amqp-type": "1"} }, "headers.x-amqp-type: is set by shardmq;"},
		{func(o *Options, _ *Rules) {
			o.Headers, o.Auth = map[string]string{"authorization": "1"}, Auth{Bearer: "t"}
		}, "headers.authorization: is given, and auth as well;"},
		{func(o *Options, _ *Rules) { o.Properties = []string{"*", "X-A", "b_c"} }, ""},
		{func(o *Options, _ *Rules) { o.Properties = []string{"X-A", "dispatch-x"} }, `properties[1]: "dispatch-x" cannot be passed on:`},
		{func(o *Options, _ *Rules) { o.Properties = []string{"a b"} }, `properties[0]: "a b" is no name of an HTTP header;`},
		{func(o *Options, _ *Rules) {
			o.Properties, o.Mode, o.Batch.Size = []string{"a b", "id"}, BatchMode, 1
		}, ""},
		{func(o *Options, _ *Rules) { o.Properties, o.Headers = []string{"X-a"}, map[string]string{"x-A": "1"} }, `properties[0]: "X-a" is in headers as well;`},
		{func(o *Options, _ *Rules) { o.Mode = "json" }, `mode: "json" is unknown;`},
		{func(o *Options, _ *Rules) { o.Mode = BatchMode }, "batch.size: is 0;"},
		{func(o *Options, _ *Rules) { o.Mode, o.Batch = BatchMode, Batch{MaxBatch + 1, -1} }, "batch.size: is 1001; give 1 to 1000 jobs\nbatch.wait: is -1ns;"},
		{func(o *Options, _ *Rules) { o.Encoding = "utf-7" }, `encoding: "utf-7" is no character set that is known here;`},
		{func(o *Options, _ *Rules) { o.Encoding = "replacement" }, `encoding: "replacement" is no character set`},
		{func(o *Options, _ *Rules) { o.Encoding = "windows-31j" }, ""},
		{func(o *Options, _ *Rules) { o.Marks = "some" }, `marks: "some" is unknown;`},
		{func(o *Options, _ *Rules) { o.Event.Source = "http://%zz" }, "event.source: "},
		{func(o *Options, _ *Rules) { o.Event.Type = " t" }, "event.type: "},
		{func(o *Options, _ *Rules) { o.SigningSecrets = []secret.String{testSecret} }, ""},
		{func(o *Options, _ *Rules) {
			o.SigningSecrets = []secret.String{testSecret, secret.String(testSecret[6:])}
		}, "signing-secrets[1]: does not begin with whsec_;"},
		{func(o *Options, _ *Rules) { o.SigningSecrets = []secret.String{"whsec_x"} }, "signing-secrets[0]: is not whsec_ and base64;"},
		{func(o *Options, _ *Rules) { o.SigningSecrets = []secret.String{"whsec_AAAA"} }, "signing-secrets[0]: is of 3 octets;"},
		{func(o *Options, _ *Rules) { o.URL, o.TLS = "https://h/", TLS{Cert: cert, Key: key} }, ""},
		{func(o *Options, _ *Rules) { o.URL, o.TLS = "https://h/", TLS{Cert: cert} }, "tls: has only one of cert and key;"},
		{func(o *Options, _ *Rules) { o.URL, o.TLS = "https://h/", TLS{CA: key} }, "tls.ca: " + key + ": holds no certificate"},
		{func(o *Options, _ *Rules) { o.TLS = TLS{CA: "/none"} }, ""},
		{func(_ *Options, r *Rules) { r.AckWhen = ranges(200, 199) }, "ack-when.statuses[0]: 200 to 199 is no range"},
		{func(_ *Options, r *Rules) { r.DropWhen = ranges(99, 200) }, "drop-when.statuses[0]: "},
		{func(_ *Options, r *Rules) { r.DeadLetterWhen = ranges(500, 600) }, "dead-letter-when.statuses[0]: "},
		{func(_ *Options, r *Rules) { r.AckWhen.Body = " \n" }, "ack-when.body: is space"},
		{func(_ *Options, r *Rules) { r.AckWhen.Contains = strings.Repeat("x", maxLooked+1) }, "ack-when.contains: is of 65537 octets"},
		{func(_ *Options, r *Rules) { r.AckWhen.Body = strings.Repeat("x", maxLooked+1) }, "ack-when.body: is of 65537 octets"},
	} {
		o, r := Options{URL: "http://h/", Timeout: time.Second}, Rules{}
		tc.change(&o, &r)
		c, err := New(o, r)
		if tc.want == "" {
			require.NoError(t, err)
			c.Close()
			continue
		}
		require.ErrorContains(t, err, tc.want)
		require.Equal(t, tc.want, err.Error()[:len(tc.want)])
		require.IsType(t, Problems{}, err)
		require.Len(t, err, strings.Count(tc.want, "\n")+1)
		for _, p := range err.(Problems) {
			require.Contains(t, p.Text, ";", "what to do, %s", p)
		}
	}
}
