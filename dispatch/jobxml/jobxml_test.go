package jobxml_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/jobxml"
	"github.com/shardmq/shardmq/dispatch/target"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata anew")

// password is what every variable holds.
const password = "p/w@:%$${x}"

// written returns what is written, and what is read of that.
func written(t *testing.T, i *jobxml.Import, o jobxml.Options) (string, *dispatch.Settings) {
	t.Helper()
	text, err := i.YAML(o)
	require.NoError(t, err)
	c, err := config.Parse("shardmq.yaml", text, func(name string) (string, bool) { return password, strings.HasSuffix(name, "_PASSWORD") })
	require.NoError(t, err, "%s", text)
	return string(text), c.Dispatch
}

func notes(i *jobxml.Import) string {
	var out strings.Builder
	for _, n := range i.Notes {
		fmt.Fprintf(&out, "%d: %s: %s\n", n.Line, n.Path, n.Text)
	}
	return out.String()
}

// TestExample imports a file with every element.
func TestExample(t *testing.T) {
	data, err := os.ReadFile("testdata/job-example.xml")
	require.NoError(t, err)
	i, err := jobxml.Read(data)
	require.NoError(t, err)
	require.Equal(t, 8, i.Jobs())
	require.Equal(t, 12, i.Executors())
	text, settings := written(t, i, jobxml.Options{From: "job-example.xml"})
	for name, got := range map[string]string{"testdata/job-example.yaml": text, "testdata/job-example.notes.txt": notes(i)} {
		if *rewrite {
			require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
		}
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	}

	type topology struct{ server, queue, exchange, kind string }
	type request struct {
		url, host, encoding string
		timeout             time.Duration
		executors, prefetch int
		drop                bool
	}
	const standard, standardHost = "http://127.0.0.1:8895/consumerDispatch/", "default.example.test"
	executors := 0
	for n, want := range []struct {
		topology
		request
	}{
		{topology{"mail_mq", "text_mail_q", "text_mail_x", "direct"},
			request{"http://127.0.0.1:8895/mail/send?source=cd", "mail.example.test", "utf-8", 20 * time.Second, 3, 150, true}},
		{topology{"mail_mq", "bounce_mail", "bounce_mail_router", "direct"}, request{standard, standardHost, "utf-8", 30 * time.Second, 2, 0, false}},
		{topology{"media_mq", "thumb", "uploads", "fanout"}, request{standard, standardHost, "iso-8859-1", 30 * time.Second, 1, 0, false}},
		{topology{"media_mq", "audit", "audit_topic", "topic"}, request{standard, standardHost, "utf-8", 30 * time.Second, 1, 0, false}},
		{topology{"mail_mq", "child_q", "child_style_router", "direct"},
			request{"http://127.0.0.1:8895/child", standardHost, "utf-8", 5 * time.Second, 1, 1, false}},
		{topology{"mail_mq", "uses_conf_retry", "uses_conf_retry_router", "direct"}, request{standard, standardHost, "utf-8", 30 * time.Second, 1, 0, false}},
		{topology{"mail_mq", "count_zero", "count_zero_router", "direct"}, request{standard, standardHost, "utf-8", 30 * time.Second, 2, 0, false}},
		{topology{"media_mq", "bounce_mail", "bounce_mail_router", "direct"}, request{standard, standardHost, "utf-8", 30 * time.Second, 1, 0, false}},
	} {
		j := settings.Jobs[n]
		require.Equal(t, want.topology, topology{j.Server.Name, j.Queue, j.Declare.Exchange, j.Declare.Type})
		require.Empty(t, j.Declare.Key)
		require.Equal(t, want.request, request{j.Target.URL, j.Target.Host, j.Target.Encoding, j.Target.Timeout, j.Executors, j.Prefetch, j.Retry.Attempts == 1 && j.Retry.Then == dispatch.Drop})
		require.True(t, want.drop || j.Retry.Attempts == 0, "without end")
		require.Equal(t, target.Form, j.Target.Mode)
		require.Equal(t, target.SaysOK(), j.Answers.AckWhen)
		vhost := map[string]string{"mail_mq": "%2F", "media_mq": "%2Fmedia"}[want.server]
		require.Equal(t, "amqp://"+url.UserPassword("guest", password).String()+"@127.0.0.1:5672/"+vhost, string(j.Server.URL))
		executors += j.Executors
	}
	require.Equal(t, 12, executors)
}

// file is a job.xml with parts that can be replaced.
func file(replace ...string) []byte {
	return []byte(strings.NewReplacer(replace...).Replace(`<?xml version="1.0" encoding="UTF-8"?>
<jobs>
  <monitor rHost="127.0.0.1" rPort="9991" httpHost="127.0.0.1" httpPort="8891"/>
  <servers>
    <queueserver name="mq" host="h" port="5672" userName="u" password="hunter2" vhost="/"/>
  </servers>
  <conf>
    <request-pre>http://app/cd</request-pre>
    <request-count>2</request-count>
    <request-timeout>30000</request-timeout>
    <prefetch-count>0</prefetch-count>
    <retry>1</retry>
  </conf>
  <job name="mail" server="mq"/>
</jobs>
`))
}

func TestProblems(t *testing.T) {
	const job = `<job name="mail" server="mq"/>`
	for _, c := range []struct {
		replace []string
		want    string // of one problem; all of them, one a line, if it ends with a line end
	}{
		{[]string{job, job + job}, `line 14: job "mail": has the same URL host, queue, server and vhost as the job on line 14, with which`},
		{[]string{job, job + `<job name="mail" server="mq" queue="other"/>`}, `line 14: job "mail" name: is that of the job on line 14 in the same vhost as well; here`},
		{[]string{`server="mq"`, `server="nowhere"`}, `line 14: job "mail" server: is "nowhere", which no queueserver is called; add it`},
		{[]string{` server="mq"`, ``}, `line 14: job "mail" server: is missing; give`},
		{[]string{` name="mail"`, ``}, `line 14: job name: is missing; give`},
		{[]string{job, ``}, `line 2: job: is missing: there is none; give`},
		{[]string{`name="mail"`, `name="mail" count="-1"`}, `line 14: job "mail" count: is "-1"; give a whole number from 0 to 1000`},
		{[]string{`name="mail"`, `name="mail" count="1001"`}, `is "1001"; give a whole number from 0 to 1000`},
		{[]string{`name="mail"`, `name="mail" timeout="-5" prefetchCount="-1" retry="maybe"`}, `line 14: job "mail" timeout: is "-5"; give a whole number from 0 to 2147483647
line 14: job "mail" prefetchCount: is "-1"; give a whole number from 0 to 65535
line 14: job "mail" retry: is "maybe"; give a whole number from -2147483647 to 2147483647
`},
		{[]string{`name="mail"`, `name="mail" type="dirct"`}, `job "mail" type: is "dirct"; give direct,`},
		{[]string{`name="mail"`, `name="mail" url="ftp://h"`}, `job "mail" url: begins with neither http:// nor https://; give`},
		{[]string{`name="mail"`, `name="mail" url="http://u:hunter2@h"`}, `job "mail" url: has a user in it; take it out here, and add target.auth`},
		{[]string{`name="mail"`, `name="mail" encoding="klingon"`}, `job "mail" encoding: "klingon" is no character set that is known here; give`},
		{[]string{`name="mail"`, `name="mail" urlhost="a b"`}, `job "mail" urlhost: "a b" is no host; give`},
		{[]string{`name="mail"`, `name="` + strings.Repeat("m", 201) + `"`}, ` name: is longer than 200 bytes,`},
		{[]string{`name="mail"`, `name="mail" queue="a&#10;b"`}, ` queue: is longer than 255 bytes, empty or has a control character in it; give`},
		{[]string{job, `<job name="mail" server="mq" count="1"><count>2</count></job>`}, `line 14: job "mail" count: is given twice; keep`},
		{[]string{`<request-pre>http://app/cd</request-pre>`, ``, `<retry>1</retry>`, `<retry> </retry>`, `<prefetch-count>0</prefetch-count>`, ``,
			`<request-count>2</request-count>`, ``, `<request-timeout>30000</request-timeout>`, ``}, `line 7: conf request-pre: is missing or empty; Consumer Dispatcher needs it, so add <request-pre>http://...</request-pre>
line 7: conf request-count: is missing or empty; Consumer Dispatcher needs it, so add <request-count>2</request-count>
line 7: conf request-timeout: is missing or empty; Consumer Dispatcher needs it, so add <request-timeout>30000</request-timeout>
line 7: conf prefetch-count: is missing or empty; Consumer Dispatcher needs it, so add <prefetch-count>0</prefetch-count>
line 12: conf retry: is missing or empty; Consumer Dispatcher needs it, so add <retry>1</retry>
`},
		{[]string{`>30000<`, `>soon<`}, `line 10: conf request-timeout: is "soon"; give`},
		{[]string{`>2<`, `>-2<`}, `line 9: conf request-count: is "-2"; give a whole number from 0 to 1000`},
		{[]string{`http://app/cd`, `app/cd`}, "line 8: conf request-pre: begins with neither http:// nor https://; give the whole URL\n"},
		{[]string{`<retry>1</retry>`, `<retry>1</retry><retry>0</retry>`}, `line 12: conf retry: is given twice, first on line 12; keep`},
		{[]string{`<conf>`, `<config>`, `</conf>`, `</config>`}, `line 2: conf: is missing; add`},
		{[]string{`<monitor`, `<monitors`}, `line 2: monitor: is missing; add`},
		{[]string{`httpPort="8891"`, ``}, `line 3: monitor httpPort: is ""; give`},
		{[]string{`httpHost="127.0.0.1"`, `httpHost=""`}, `line 3: monitor httpHost: is missing or no host; give`},
		{[]string{`<servers>`, `<server>`, `</servers>`, `</server>`}, `line 2: servers: has no queueserver; give`},
		{[]string{` vhost="/"`, ``}, `line 5: queueserver "mq" vhost: is missing; all of`},
		{[]string{`port="5672"`, `port="amqp"`}, `line 5: queueserver "mq" port: is "amqp"; give`},
		{[]string{`host="h"`, `host="a b"`}, `line 5: queueserver "mq" host: is "a b"; give`},
		{[]string{`host="h"`, `host="user:hunter3@h"`}, `line 5: queueserver "mq" host: is`},
		{[]string{`<servers>`, `<servers><queueserver name="mq" host="h" port="1" userName="u" password="p" vhost="v"/>`}, `name: is given twice, first on line 4; give`},
		{[]string{`<job `, `<job`}, `line 14: : not valid XML: `},
		{[]string{`</jobs>`, ``}, `: not valid XML: unexpected EOF; correct`},
		{[]string{`http://app/cd`, `http://app/cd?a=1&b=2`}, `line 8: : not valid XML: invalid character entity &b (no semicolon); only &lt;`},
		{[]string{`jobs>`, `project>`}, `line 2: project: is the outermost element; a job.xml has <jobs>: is it`},
		{[]string{`</jobs>`, `</jobs><jobs/>`}, `line 15: jobs: is a second outermost element; put`},
		{[]string{`</jobs>`, `</jobs>text`}, `line 15: : there is text outside of all elements; remove`},
		{[]string{`UTF-8`, `ISO-8859-1`}, `line 1: : the file is declared to be in encoding "ISO-8859-1"; convert it, iconv -f ISO-8859-1 -t UTF-8, and`},
		{[]string{`name="mail"`, "name=\"m\xe9l\""}, `line 14: : there are octets that are no UTF-8; convert`},
		{[]string{`<servers>`, strings.Repeat("<x>", 20) + strings.Repeat("</x>", 20) + `<servers>`}, `line 4: x: is the element number 17 in one another; a job.xml has 3`},
		{[]string{`<jobs>`, `<!DOCTYPE jobs [<!ENTITY e SYSTEM "file:///etc/passwd">]><jobs>`, `name="mail"`, `name="&e;"`}, `line 2: : there is a <!DOCTYPE> or another declaration, which can define entities; remove`},
		{[]string{`name="mail"`, `name="&e;"`}, `line 14: : not valid XML: invalid character entity &e;; only &lt;`},
		{[]string{job, strings.Repeat(`<job name="a" server="b"/>`, 1001)}, `line 14: job: is number 1001; import at most 1000 jobs at a time: split`},
	} {
		_, err := jobxml.Read(file(c.replace...))
		var found jobxml.Problems
		require.ErrorAs(t, err, &found, "%q", c.replace)
		require.Contains(t, err.Error()+"\n", c.want)
		if strings.HasSuffix(c.want, "\n") {
			require.Equal(t, c.want, err.Error()+"\n")
		}
		require.NotContains(t, err.Error(), "hunter2")
		for _, p := range found {
			require.Positive(t, p.Line)
			require.Contains(t, p.Text, "; ", "a remedy follows the semicolon")
		}
	}
	for text, want := range map[string]string{
		"":                                    "there is no XML element in the file; give",
		"jobs: []":                            "there is text outside of all elements; remove",
		"\xff\xfe<\x00j\x00":                  "the file is in UTF-16; convert it",
		strings.Repeat(" ", jobxml.MaxSize+1): "the file is larger than 1048576 bytes; is it the right one?",
	} {
		_, err := jobxml.Read([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// An entity that would be expanded to gigabytes is not.
func TestEntityBomb(t *testing.T) {
	bomb := `<?xml version="1.0"?><!DOCTYPE jobs [<!ENTITY a "aaaaaaaaaa">`
	for c := 'b'; c < 'm'; c++ {
		bomb += fmt.Sprintf("<!ENTITY %c \"%s\">", c, strings.Repeat(fmt.Sprintf("&%c;", c-1), 10))
	}
	_, err := jobxml.Read([]byte(bomb + "]><jobs>&l;</jobs>"))
	require.ErrorContains(t, err, "line 1: : there is a <!DOCTYPE>")
}

// What is not as the file has it is said, with its line.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		replace []string
		want    string
	}{
		{[]string{`name="mail"`, `name="mail" colour="red"`}, `14: job "mail" colour: is not known to Consumer Dispatcher either and is left out`},
		{[]string{`<job name="mail" server="mq"/>`, `<job name="mail" server="mq"><colour/></job>`}, `14: job "mail" colour: is not known`},
		{[]string{`<servers>`, `<extra/><servers><extra/>`}, "4: extra: is not known to Consumer Dispatcher either and is left out\n4: servers extra: is not"},
		{[]string{`<retry>1`, `<colour/><retry>1`}, `12: conf colour: is not known`},
		{[]string{`<servers>`, `<monitor/><servers>`}, `4: monitor: is given again: the first one counts`},
		{[]string{`<retry>1`, `<retry>0`}, `14: job "mail" retry: is not given: Consumer Dispatcher tries again then, although conf has retry 0, and`},
		{[]string{`name="mail"`, `name="mail" retry="5"`}, `14: job "mail" retry: is 5, which is as good as 1`},
		{[]string{`>30000<`, `>0<`}, `10: conf request-timeout: is 0, which is no time limit; written as 30s`},
		{[]string{`name="mail"`, `name="mail" timeout="7200000"`}, `14: job "mail" timeout: is 2h0m0s, more than can be; written as 1h0m0s`},
		{[]string{`<request-count>2`, `<request-count>0`}, `9: conf request-count: is 0: jobs without a count of their own have no executor`},
		{[]string{`<prefetch-count>0`, `<prefetch-count>10`}, `14: job "mail" prefetchCount: is 10 for each executor; written as 20, for all 2 together`},
	} {
		i, err := jobxml.Read(file(c.replace...))
		require.NoError(t, err)
		require.Contains(t, notes(i), c.want)
		written(t, i, jobxml.Options{})
	}
}

func TestRetry(t *testing.T) {
	for _, c := range []struct {
		job, conf string
		drop      bool
	}{
		{``, "1", false}, {``, "0", false}, {`retry="0"`, "1", true}, {`retry="1"`, "0", false}, {`retry="-1"`, "0", true}, {`retry="-1"`, "1", false}, {`retry="2"`, "0", false},
	} {
		i, err := jobxml.Read(file(`name="mail"`, `name="mail" `+c.job, `<retry>1`, `<retry>`+c.conf))
		require.NoError(t, err)
		_, settings := written(t, i, jobxml.Options{})
		want := dispatch.Retry{Attempts: 0, Then: dispatch.DeadLetter}
		if c.drop {
			want = dispatch.Retry{Attempts: 1, Then: dispatch.Drop}
		}
		got := settings.Jobs[0].Retry
		require.Equal(t, want, dispatch.Retry{Attempts: got.Attempts, Then: got.Then}, "%+v", c)
	}
}

// Whatever is in a value arrives as it is, and is neither YAML nor a variable.
func TestOddValues(t *testing.T) {
	i, err := jobxml.Read(file(`name="mq"`, `name="1: {x}"`, `server="mq"`, `server="1: {x}" queue="${HOME}" exchange="$$ # &quot;x&quot;"`, `name="mail"`, `name="007"`,
		`"hunter2"`, `"p${A}$$: #@/%"`, `userName="u"`, `userName="true"`, `vhost="/"`, `vhost="a/b c%2F"`, `http://app/cd`, `http://app/$$/${x}?a=1&amp;b=2`))
	require.NoError(t, err)
	require.Equal(t, []string{"MQ_1___X__PASSWORD"}, i.Variables())
	text, settings := written(t, i, jobxml.Options{})
	require.NotContains(t, text, "p${A}")
	require.NotContains(t, text, "p$${A}")
	check := func(settings *dispatch.Settings, password string) {
		j := settings.Jobs[0]
		require.Equal(t, "007", j.Name)
		require.Equal(t, "1: {x}", j.Server.Name)
		require.Equal(t, "${HOME}", j.Queue)
		require.Equal(t, `$$ # "x"`, j.Declare.Exchange)
		require.Equal(t, "http://app/$$/${x}?a=1&b=2", j.Target.URL)
		u, err := url.Parse(string(j.Server.URL))
		require.NoError(t, err)
		require.Equal(t, url.UserPassword("true", password), u.User)
		require.Equal(t, "/a/b c%2F", u.Path)
	}
	check(settings, password)
	_, settings = written(t, i, jobxml.Options{Passwords: true})
	check(settings, "p${A}$$: #@/%")
}
