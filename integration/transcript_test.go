package integration

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// transcript is what one client saw of one session, line by line, without what differs from run to run anyway.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func (tr *transcript) add(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, fmt.Sprintf(format, args...))
}

// names the broker makes up are as long every time.
var generated = regexp.MustCompile(`amq\.(gen|ctag)-[-_A-Za-z0-9]{22}`)

// replyQueue is the address of a client that waits for direct replies; it says where its channel is.
var replyQueue = regexp.MustCompile(`amq\.rabbitmq\.reply-to\.[-_A-Za-z0-9+/=]{20,}(\.[-_A-Za-z0-9+/=]{10,})?`)

// text is the transcript with the names of this run's env replaced.
func (tr *transcript) text(e *env) string {
	text := generated.ReplaceAllString(strings.Join(tr.lines, "\n"), "amq.$1-*")
	text = replyQueue.ReplaceAllString(text, "amq.rabbitmq.reply-to.*")
	if e.suffix != "" {
		text = strings.ReplaceAll(text, e.suffix, "")
	}
	return strings.ReplaceAll(text, "vhost '"+e.vhost+"'", "vhost 'V'")
}

// scenario is a session with a broker, or with a proxy in front of it, at url. Names of queues and exchanges come from
// e.name, and what is seen goes to tr.
type scenario func(t *testing.T, e *env, url string, tr *transcript)

// requireTransparent runs a scenario directly and through the proxy, with no shard configured and with one, each time
// in a fresh place, and compares what the client saw.
func requireTransparent(t *testing.T, run scenario) {
	t.Helper()
	record := func(t *testing.T, through func(*env) string) string {
		t.Helper()
		e := newEnv(t)
		var tr transcript
		run(t, e, through(e), &tr)
		return tr.text(e)
	}
	direct := record(t, func(e *env) string { return e.url })
	require.NotEmpty(t, direct)
	for name, shards := range map[string]map[string]int{"no shard": nil, "one shard": {"images": 4}} {
		t.Run(name, func(t *testing.T) {
			proxied := record(t, func(e *env) string { return e.proxy(shards).URL })
			requireSame(t, direct, proxied)
		})
	}
}

func requireSame(t *testing.T, direct, proxied string) {
	t.Helper()
	if direct != proxied {
		require.Fail(t, "the transcript through the proxy differs (- directly, + through the proxy)",
			cmp.Diff(strings.Split(direct, "\n"), strings.Split(proxied, "\n")))
	}
}

// requireLikeOneQueue runs a scenario directly on a fanout exchange and the queue of the same name, and through the
// proxy on a sharded exchange and its pseudo-queue, and compares what the client saw.
func requireLikeOneQueue(t *testing.T, run func(t *testing.T, url, name, kind string) string) {
	t.Helper()
	direct, proxied := newEnv(t), newEnv(t)
	name := proxied.name("images")
	p := proxied.proxy(map[string]int{name: 4})
	plain := transcript{lines: []string{run(t, direct.url, direct.name("images"), "fanout")}}
	sharded := transcript{lines: []string{run(t, p.URL, name, modulusHash)}}
	requireSame(t, plain.text(direct), sharded.text(proxied))
}
