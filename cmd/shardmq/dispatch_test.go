package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const exampleXML = "../../dispatch/jobxml/testdata/job-example.xml"

func TestDispatchImport(t *testing.T) {
	r := shardmq(nil, "dispatch", "import", exampleXML)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "password: ${MEDIA_MQ_PASSWORD}\n")
	require.Contains(t, r.stderr, exampleXML+":28: conf retry: jobs that are tried again are so without end")
	require.Contains(t, r.stderr, exampleXML+": imported 8 jobs with 12 executors\n"+
		"passwords are not written: set MAIL_MQ_PASSWORD, MEDIA_MQ_PASSWORD in the environment, or use --passwords\n")

	file := filepath.Join(t.TempDir(), "shardmq.yaml")
	r = shardmq(nil, "dispatch", "import", exampleXML, "--output", file, "--passwords")
	require.Zero(t, r.code, r.stderr)
	require.Empty(t, r.stdout)
	require.NotContains(t, r.stderr, "passwords are not written")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it has passwords in it")

	r = shardmq(nil, "dispatch", "validate", "--config", file)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "text_mail        mail_mq   text_mail_q      3          POST form  http://127.0.0.1:8895/mail/send\n")
	require.Contains(t, r.stdout, file+": ok: 8 jobs with 12 executors at the start\n")
	require.NotContains(t, r.stdout, "source=cd", "what is behind the path may be a secret")

	require.Contains(t, shardmq(nil, "config", "check", file).stdout, file+": ok: 8 jobs\n")
	r = shardmq(nil, "proxy", "--config", file)
	require.Equal(t, 2, r.code)
	require.Equal(t, file+": upstream: is missing; say where RabbitMQ is, e.g. upstream: {nodes: [{address: \"localhost:5672\"}]}\n", r.stderr)
	require.Nil(t, r.options)

	r = shardmq(nil, "dispatch", "import", exampleXML, "-o", file)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "--output: "+file+" is there already; choose another name, or use --force")
	require.Zero(t, shardmq(nil, "dispatch", "import", exampleXML, "-o", file, "--force").code)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "${MAIL_MQ_PASSWORD}")
}

func TestDispatchMistakes(t *testing.T) {
	dir := t.TempDir()
	at := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	example, err := os.ReadFile(exampleXML)
	require.NoError(t, err)
	bad := at("bad.xml", strings.Replace(string(example), `server="mail_mq"`, `server="lost"`, 1))
	none := at("none.yaml", "upstream: {nodes: [{address: \"a:1\"}]}\n")
	both := at("both.yaml", "upstream: {nodes: [{address: \"a:1\"}]}\ndispatch: {servers: {a: {url: \"amqp://a\"}}, jobs: [{name: x, paused: true, target: {url: \"http://app\"}}, "+
		"{name: y, queue: x, auto: {max: 5}, target: {url: \"http://app\"}}]}\n")
	for _, c := range []struct {
		args string
		code int
		want string // in standard error, unless the code is 0
	}{
		{"import", 2, `expected "<file>"`},
		{"import none.xml", 2, "none.xml: no such file; check the path\n"},
		{"import " + dir, 2, dir + ": cannot be read (is a directory); check its path and permissions\n"},
		{"import /dev/zero", 2, "/dev/zero:1: the file is larger than 1048576 bytes; is it the right one?\n"},
		{"import " + bad, 2, bad + `:35: job "text_mail" server: is "lost", which no queueserver is called; add it to servers, or correct the name` + "\n"},
		{"import " + exampleXML + " -o " + filepath.Join(dir, "none", "x"), 2, "no such file or directory; check the path and its permissions\n"},
		{"validate", 2, "missing flags: --config=FILE"},
		{"validate -c " + none, 2, none + ": dispatch: is missing; say which queues go to which endpoints"},
		{"validate -c " + both, 0, "x    a       x      2, paused  POST raw  http://app\ny    a       x      1 to 5     POST raw  http://app\n" + both + ": ok: 2 jobs with 3 executors at the start\n"},
		{"validate -c none.yaml", 2, "none.yaml: no such file; check the path\n"},
	} {
		r := shardmq(nil, append([]string{"dispatch"}, strings.Fields(c.args)...)...)
		require.Equal(t, c.code, r.code, "%s: %s", c.args, r.stderr)
		if c.code == 0 {
			require.Contains(t, r.stdout, c.want, c.args)
			require.Contains(t, r.stderr, "takes from queue \"x\", as the job on line 2 does")
		} else {
			require.Contains(t, r.stderr, c.want, c.args)
			require.Empty(t, r.stdout)
		}
	}
	require.Contains(t, shardmq(nil, "config", "check", both).stdout, both+": ok: 1 listener, 1 node, 0 policies, 2 jobs\n")
}
