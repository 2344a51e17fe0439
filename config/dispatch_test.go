package config

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

func TestDispatchFile(t *testing.T) {
	c, err := parseFile(t, "testdata/good/dispatch.yaml")
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	d := c.Dispatch
	require.Equal(t, 5*time.Second, d.Drain)
	require.Len(t, d.Jobs, 5)
	mail := dispatch.Server{Name: "mail", URL: "amqp://guest:guest@[::1]:5672/%2F"}
	password := "p$$w${HOST}: {x}"
	u, err := url.Parse(string(d.Jobs[0].Server.URL))
	require.NoError(t, err)
	require.Equal(t, url.UserPassword("a:b", password), u.User)
	require.Equal(t, "/v/w", u.Path)
	require.Equal(t, "/v%2Fw", u.EscapedPath())
	other := dispatch.Server{Name: "other", URL: Secret("amqps://a%3Ab:" + url.PathEscape(password) + "@h:5671/v%2Fw")}
	other.URL = d.Jobs[0].Server.URL // as it has been taken apart above
	require.Equal(t, &dispatch.Job{
		Name: "all", Server: other, Queue: "all_q", Quorum: true, Paused: true, Executors: 7, Prefetch: 70, Order: dispatch.Order{Header: "customer"},
		Declare: &dispatch.Declare{Exchange: "all_x", Type: "topic", Key: "#", Arguments: map[string]any{"x-queue-type": "quorum"}},
		Target: target.Options{
			URL: "https://app.example/all?x=8", Host: "other.example", Method: "PUT", Headers: map[string]string{"X-Tenant": "feed", "Accept": "text/plain"},
			Auth: target.Auth{Username: "app", Password: Secret(password)}, TLS: certs.ClientOptions{ServerName: "app", MinVersion: tls.VersionTLS13},
			Timeout: time.Minute, Mode: target.CloudEvent, Encoding: "iso-8859-1", Properties: []string{"tenant", "*"}, Marks: target.Never,
			Event: target.Event{Source: "/all", Type: "all.done"}, SigningSecrets: []Secret{"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"},
		},
		Answers: target.Rules{
			AckWhen:        target.Match{Statuses: []target.StatusRange{{From: 200, To: 200}, {From: 202, To: 204}}},
			DropWhen:       target.Match{Statuses: []target.StatusRange{{From: 410, To: 410}}, Body: "gone"},
			DeadLetterWhen: target.Match{Contains: "never"},
		},
		Retry:   dispatch.Retry{Attempts: 3, First: 100 * time.Millisecond, Most: 30 * time.Minute, RetryAfterMost: time.Hour, Then: dispatch.Drop},
		Breaker: dispatch.Breaker{Failures: 0, Open: time.Minute},
	}, d.Jobs[0])

	plain := &dispatch.Job{
		Name: "plain", Server: mail, Queue: "plain", Executors: 1, Auto: &dispatch.Auto{Min: 1, Max: 9}, Prefetch: 9, Order: dispatch.Order{RoutingKey: true},
		Target: target.Options{
			URL: "http://app/", Host: "app", Method: "POST", Headers: map[string]string{"X-A": "a"}, Auth: target.Auth{Username: "u", Password: "p"},
			Timeout: 10 * time.Second, Mode: target.Form, Encoding: "iso-8859-1",
		},
		Answers: target.Rules{AckWhen: target.SaysOK()},
		Retry: dispatch.Retry{Attempts: 5, First: 2 * time.Second, Most: 3 * time.Second, RetryAfterMost: dispatch.DefaultRetryAfterMost,
			Then: dispatch.DeadLetter},
		Breaker: dispatch.Breaker{Failures: dispatch.DefaultBreakerFailures, Open: 2 * time.Second},
	}
	require.Equal(t, plain, d.Jobs[1])

	mixed := *plain
	mixed.Server, mixed.Order, mixed.Executors, mixed.Auto = other, dispatch.Order{}, 3, nil
	mixed.Retry.Attempts = 0
	mixed.Target.URL, mixed.Target.Auth, mixed.Target.Mode = "http://b", target.Auth{Bearer: "t"}, target.Raw
	mixed.Answers.AckWhen = target.Match{Statuses: []target.StatusRange{{From: 200, To: 299}}}
	require.Equal(t, &mixed, d.Jobs[2])

	require.Equal(t, &dispatch.Auto{Min: 3, Max: 30}, d.Jobs[3].Auto)
	require.Equal(t, 3, d.Jobs[3].Executors)
	require.Equal(t, target.Batch{Size: 20, Wait: time.Second}, d.Jobs[3].Target.Batch)
	require.Equal(t, target.Batch{Size: target.DefaultBatchSize, Wait: target.DefaultBatchWait}, d.Jobs[4].Target.Batch)
	require.Equal(t, &dispatch.Declare{Type: "direct"}, d.Jobs[4].Declare)
	require.Equal(t, [2]int{6, 6}, [2]int{d.Jobs[4].Total, d.Jobs[4].Executors})

	shown, err := json.Marshal(c)
	require.NoError(t, err)
	for _, secret := range []string{password, url.PathEscape(password), "whsec_MDEy", u.User.String()} {
		require.NotContains(t, string(shown), secret)
		require.NotContains(t, fmt.Sprintf("%+v %#v", *d.Jobs[0], *d.Jobs[0]), secret)
	}
}

const oneJob = "dispatch: {servers: {a: {url: \"amqp://a\"}}, jobs: [{name: x, target: {url: \"http://app\"}}]}\n"

// A file without upstream is none of a proxy, and says so as soon as there is anything of a proxy in it.
func TestDispatchAlone(t *testing.T) {
	c := parse(t, oneJob+"admin: {address: \":1\"}\nlog: {level: warn}\n")
	require.Empty(t, c.Upstream.Nodes)
	require.Equal(t, "a", c.Dispatch.Jobs[0].Server.Name, "the only one")
	require.EqualError(t, c.CheckProxy("f.yaml"), "f.yaml: upstream: is missing; say where RabbitMQ is, e.g. upstream: {nodes: [{address: \"localhost:5672\"}]}")
	for _, more := range []string{"listeners: [{address: \":1\"}]", "policies: []", "proxy: {}"} {
		_, err := Parse("f.yaml", []byte(oneJob+more+"\n"), environment)
		require.ErrorContains(t, err, "upstream: is missing", more)
	}
	both := parse(t, oneJob+"upstream: {nodes: [{address: \"a:1\"}]}\nlisteners: [{address: \":1\"}]\n")
	require.NoError(t, both.CheckProxy("f.yaml"))
	require.NotNil(t, both.Dispatch)
}

// Secrets can be in files, which are read as often as the configuration is.
func TestDispatchSecretFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "shardmq.yaml")
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const key = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	files := []string{file("mq", "a/b c\r\n"), file("app", "p\n"), file("token", "t"), file("key", key+"\n")}
	text := `
dispatch:
  servers: {a: {url: "amqp://a/v", username: u, password-file: mq}}
  jobs:
    - {name: x, target: {url: "http://app", auth: {username: u, password-file: app}}, sign: {secrets: ["` + key + `"], secret-files: [key]}}
    - {name: y, target: {url: "http://app", auth: {bearer-file: ` + files[2] + `}}}
`
	c, err := Parse(name, []byte(text), environment)
	require.NoError(t, err)
	x, y := c.Dispatch.Jobs[0], c.Dispatch.Jobs[1]
	require.Equal(t, "amqp://u:a%2Fb%20c@a:5672/v", string(x.Server.URL))
	require.Equal(t, target.Auth{Username: "u", Password: "p"}, x.Target.Auth)
	require.Equal(t, target.Auth{Bearer: "t"}, y.Target.Auth)
	require.Equal(t, []Secret{key, key}, x.Target.SigningSecrets)
	require.ElementsMatch(t, files, c.Files())

	file("token", "other")
	again, err := Parse(name, []byte(text), environment)
	require.NoError(t, err)
	require.Equal(t, []Change{{Kind: Changed, Server: "a", Name: "y", Keys: []string{"target.auth: changed"}}}, Diff(c, again).Jobs)

	for _, bad := range []struct{ text, want string }{
		{"", "is empty; put"},
		{"\n", "is empty; put"},
		{"a\nb", "has more than one line or a control character in it; put"},
		{strings.Repeat("x", maxSecretFile+1), "is larger than 65536 bytes; is"},
		{"t t", "has spaces or characters that no header may have"},
	} {
		file("token", bad.text)
		_, err := Parse(name, []byte(text), environment)
		require.ErrorContains(t, err, bad.want)
	}
	require.NoError(t, os.Remove(files[3]))
	require.NoError(t, os.Mkdir(files[3], 0o700))
	_, err = Parse(name, []byte(text), environment)
	require.ErrorContains(t, err, name+":5: dispatch.jobs[0].sign.secret-files[0]: "+files[3]+": is no file; name the file")
}

// A token may be longer than a name.
func TestDispatchToken(t *testing.T) {
	token := strings.Repeat("t", 4000)
	c := parse(t, strings.Replace(oneJob, "\"http://app\"", "\"http://app\", auth: {bearer: "+token+"}", 1))
	require.Equal(t, token, string(c.Dispatch.Jobs[0].Target.Auth.Bearer))
	_, err := Parse("f.yaml", []byte(strings.Replace(oneJob, "\"http://app\"", "\"http://app\", auth: {bearer: ''}", 1)), environment)
	require.ErrorContains(t, err, "auth.bearer: is empty; give a token")
}

// A job's lists and headers replace those of the defaults, also by nothing.
func TestDispatchTakesBack(t *testing.T) {
	c := parse(t, `
dispatch:
  servers: {a: {url: "amqp://a"}}
  defaults: {target: {url: "http://app", headers: {X-A: a}}, request: {properties: [tenant]}}
  jobs:
    - {name: x, target: {headers: {}}, request: {properties: []}}
    - {name: y, target: {headers: {X-B: b}}, request: {properties: [b]}}
    - {name: z}
`)
	x, y, z := c.Dispatch.Jobs[0].Target, c.Dispatch.Jobs[1].Target, c.Dispatch.Jobs[2].Target
	require.Empty(t, x.Headers)
	require.Empty(t, x.Properties)
	require.Equal(t, map[string]string{"X-B": "b"}, y.Headers)
	require.Equal(t, []string{"b"}, y.Properties)
	require.Equal(t, map[string]string{"X-A": "a"}, z.Headers)
	require.Equal(t, []string{"tenant"}, z.Properties)
}

// A total for all processes, and what one process takes of it at most.
func TestDispatchTotal(t *testing.T) {
	const begin = "dispatch: {servers: {a: {url: \"amqp://a\"}}, defaults: {target: {url: \"http://app\"}, %s}, jobs: [{name: x, %s}]}"
	for _, c := range []struct {
		defaults, job    string
		total, executors int
	}{
		{"timeout: 1s", "executors-total: 9", 9, 9},
		{"timeout: 1s", "executors-total: 9, executors: 4", 9, 4},
		{"executors: 4", "executors-total: 9", 9, 4},
		{"executors: 40", "executors-total: 9", 9, 9},
		{"executors-total: 9", "timeout: 1s", 9, 9},
		{"executors-total: 9", "executors-total: 12", 12, 12},
		{"executors-total: 9", "executors: 0", 9, 0},
		{"auto: {max: 5}", "executors-total: 9", 9, 9},
		{"executors-total: 9", "auto: {min: 3, max: 5}", 0, 3},
		{"executors-total: 1", "order: routing-key", 1, 1},
	} {
		job := parse(t, fmt.Sprintf(begin, c.defaults, c.job)).Dispatch.Jobs[0]
		require.Equal(t, [2]int{c.total, c.executors}, [2]int{job.Total, job.Executors}, "%+v", c)
		require.Equal(t, c.total == 0, job.Auto != nil, "%+v", c)
	}
	for job, want := range map[string]string{
		"executors-total: 0":                     "executors-total: is 0; give a whole number from 1 to 1000",
		"executors-total: 9, auto: {max: 2}":     "auto: is given beside executors-total, of which each process takes an even share; keep one of the two",
		"executors-total: 9, executors: 10":      "executors: is 10, the most that one process takes of executors-total, which is 9; give at most as much, or leave it out",
		"executors-total: 2, order: {header: x}": "order: cannot be kept by several processes that share executors-total; leave one of the two out, or give executors-total: 1",
	} {
		_, err := Parse("f.yaml", fmt.Appendf(nil, begin, "timeout: 1s", job), environment)
		require.EqualError(t, err, "f.yaml:1: dispatch.jobs[0]."+want)
	}
}

// What works, but not as one may think.
func TestDispatchWarnings(t *testing.T) {
	c := parse(t, `
dispatch:
  servers: {a: {url: "amqp://u:p@h/v"}, b: {url: "amqp://other:user@h:5672/v"}, c: {url: "amqp://h/w"}}
  defaults: {target: {url: "https://app"}}
  jobs:
    - {name: x, server: a, executors: 5, prefetch: 4}
    - {name: y, server: b, queue: x}
    - {name: x, server: c}
    - {name: z, server: c, target: {tls: {verify: false}}}
    - {name: s, server: c, timeout: 31m}
    - {name: o, server: c, order: routing-key, retry: {backoff: [1s, 45m]}}
`)
	require.Len(t, c.Warnings, 5)
	require.Contains(t, c.Warnings[3].String(), "f.yaml:10: dispatch.jobs[4].timeout: is 31m0s, and RabbitMQ waits 30m for an acknowledgement")
	require.Contains(t, c.Warnings[4].String(), "f.yaml:11: dispatch.jobs[5].retry: is 45m0s, and RabbitMQ waits 30m")
	require.Equal(t, "f.yaml:6: dispatch.jobs[0].prefetch: is 4, less than the 5 executors: each gets one job at a time all the same; give at least as many", c.Warnings[0].String())
	require.Contains(t, c.Warnings[1].String(), `f.yaml:7: dispatch.jobs[1].name: takes from queue "x", as the job on line 6 does`)
	require.Contains(t, c.Warnings[2].String(), "f.yaml:9: dispatch.jobs[3].target.tls.verify: is false")
}

func TestDiffOfJobs(t *testing.T) {
	one := func(jobs string) *Config {
		return parse(t, "dispatch: {servers: {a: {url: \"amqp://u:${PORT}@a\"}, b: {url: \"amqp://b\"}}, defaults: {server: a, target: {url: \"http://app\"}}, jobs: ["+jobs+"]}")
	}
	before := one("{name: gone}, {name: same}, {name: x}, {name: moved}")
	after := one("{name: x, executors: 5, timeout: 5s, target: {headers: {X-Key: hunter2}}, retry: {max: unlimited}, drop-when: {status: [400-499, 501], contains: no}}, " +
		"{name: same}, {name: moved, server: b}, {name: new}")
	require.Equal(t, []Change{
		{Kind: Removed, Server: "a", Name: "gone"},
		{Kind: Removed, Server: "a", Name: "moved"},
		{Kind: Added, Server: "a", Name: "new"},
		{Kind: Changed, Server: "a", Name: "x", Keys: []string{
			"executors: 2 -> 5", "timeout: 30s -> 5s", "target.headers: changed", `drop-when: none -> 400-499 501 contains "no"`, "retry.max: 10 -> unlimited",
		}},
		{Kind: Added, Server: "b", Name: "moved"},
	}, Diff(before, after).Jobs)
	require.False(t, Diff(before, after).Empty())
	require.True(t, Same(before, one("{name: same}, {name: gone}, {name: moved}, {name: x}")))
	require.Empty(t, NeedRestart(before, after))
	after.Dispatch.Drain = time.Second
	require.Equal(t, []string{"dispatch.drain-timeout"}, NeedRestart(before, after))
	nothing := parse(t, "upstream: {nodes: [{address: \"a:1\"}]}")
	require.Len(t, Diff(before, nothing).Jobs, 4)
}

// TestEveryDifferenceOfJobs: whatever is changed of a job is a change.
func TestEveryDifferenceOfJobs(t *testing.T) {
	c, err := parseFile(t, "testdata/good/dispatch.yaml")
	require.NoError(t, err)
	count := 0
	var each func(path string, v reflect.Value)
	each = func(path string, v reflect.Value) {
		switch {
		case path == ".Name" || path == ".Server.Name": // these tell jobs apart
			return
		case path == ".Target.Connections" || v.Type() == reflect.TypeFor[*tls.Config](): // not of the configuration
			return
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				each(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		count++
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Uint16:
			v.SetUint(v.Uint() + 1)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		default:
			v.SetZero()
			if reflect.DeepEqual(was.Interface(), v.Interface()) {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
		}
		other, err := parseFile(t, "testdata/good/dispatch.yaml")
		require.NoError(t, err)
		require.Len(t, jobChanges(other, c), 1, path)
		v.Set(was)
	}
	each("", reflect.ValueOf(c.Dispatch.Jobs[0]).Elem())
	require.Greater(t, count, 30)
}

// TestDispatchServerName: the name that an endpoint has to prove is a host alone.
func TestDispatchServerName(t *testing.T) {
	for name, good := range map[string]bool{"app.example": true, "::1": true, "app.example:443": false, "app.example/jobs": false, "": false} {
		_, err := Parse("f.yaml", []byte(`dispatch: {servers: {a: {url: "amqp://h"}}, jobs: [{name: mail, target: {url: "https://app", tls: {server-name: "`+name+`"}}}]}`), os.LookupEnv)
		if good {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, `target.tls.server-name: is "`+name+`"; give a host name alone`)
	}
}
