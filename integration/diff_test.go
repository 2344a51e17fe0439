package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// The differential suite: every scenario is played directly against RabbitMQ and through shardmq, and what the client saw
// is compared line by line, on each release of RabbitMQ. A release has one broker with one vhost for each way to reach it;
// names of scenarios do not meet.

// way is how a scenario reaches the broker.
type way string

const (
	direct  way = "direct"   // no proxy
	bare    way = "no shard" // a proxy without policies
	sharded way = "sharded"  // a proxy with policies for names that begin with "pseudo"; an exchange of them is there
	placed  way = "placed"   // likewise, and the proxy places the messages even where the broker can (4.3)
)

// diff is one playing of a scenario.
type diff struct {
	*env
	way     way
	at      string // URL of what is under test; env.url is always the broker itself
	version string // of RabbitMQ, "" for the system's own
	tr      *transcript
	talks   []*talk
}

// diffBroker is a broker of one release with both proxies.
type diffBroker struct {
	node    *rig.Node
	version string
	at      map[way]string // URLs
}

func (w way) vhost() string { // of one length: it shows in transcripts
	return map[way]string{direct: "diff-0", bare: "diff-1", sharded: "diff-2", placed: "diff-3"}[w]
}

// limited is a user who may do everything with queues called "free...", and nothing else.
const limited = "limited"

// startDiff starts the broker and its proxies.
func startDiff(t *testing.T, version string) *diffBroker {
	t.Helper()
	node, err := rig.StartNode(t.Context(), rig.NodeOptions{Version: version, Config: "max_message_size = 134217728"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Stop()) })
	_, err = node.Ctl(t.Context(), "eval", fmt.Sprintf(`begin
		Add = fun(User, V, P) -> ok = rabbit_auth_backend_internal:set_permissions(User, V, P, P, P, <<"rig">>) end,
		rabbit_auth_backend_internal:add_user(<<"%[1]s">>, <<"secret">>, <<"rig">>),
		[begin ok = rabbit_vhost:add(V, <<"rig">>), Add(<<"guest">>, V, <<".*">>), Add(<<"%[1]s">>, V, <<"^free">>) end
		|| V <- [<<"diff-0">>, <<"diff-1">>, <<"diff-2">>, <<"diff-3">>]] end.`, limited))
	require.NoError(t, err)
	b := &diffBroker{node: node, version: version, at: map[way]string{direct: node.URL + "/" + direct.vhost()}}
	policies := map[way]string{
		bare: "  []\n",
		sharded: `  - {name: pseudo, vhost: diff-2, pattern: "^pseudo", definition: {shards-per-node: 4}}
  - {name: fed, vhost: diff-2, pattern: "^pseudo-fed", priority: 1, definition: {shards-per-node: 4, fed-by: [feeder-fed]}}
  - {name: quorum, vhost: diff-2, pattern: "^pseudo-quorum", priority: 1, definition: {shards: 2, queue-arguments: {x-queue-type: quorum}}}
  - {name: dead, vhost: diff-2, pattern: "^pseudo-dead", priority: 1, definition: {shards-per-node: 2, queue-arguments: {x-dead-letter-exchange: "", x-dead-letter-routing-key: dead-letters}}}
`}
	if b.native() {
		policies[placed] = `  - {name: pseudo, vhost: diff-3, pattern: "^pseudo", definition: {shards-per-node: 4, fed-by: [feeder-fed]}}
  - {name: quorum, vhost: diff-3, pattern: "^pseudo-quorum", priority: 1, definition: {shards: 2, fed-by: [feeder-fed], queue-arguments: {x-queue-type: quorum}}}
  - {name: dead, vhost: diff-3, pattern: "^pseudo-dead", priority: 1, definition: {shards: 2, fed-by: [feeder-fed], queue-arguments: {x-dead-letter-exchange: "", x-dead-letter-routing-key: dead-letters}}}
`
	}
	for way, policies := range policies {
		e := &env{t: t, broker: node, vhost: way.vhost(), url: node.URL + "/" + way.vhost()}
		// A broker that is busy with all of this may take its time to accept, and to say what it is called.
		config := strings.NewReplacer("dial-timeout: 2s", "dial-timeout: 30s", "{address:", fmt.Sprintf("{name: %q, address:", node.Name)).Replace(e.config(node.Addr, policies))
		b.at[way] = withVhost(t, e.start(rig.ProxyOptions{Upstream: e.url, Config: config}).URL, way.vhost())
	}
	ch := open(t, b.at[sharded])
	declareSharded(t, ch, "pseudo")
	return b
}

// native reports whether the broker has exchanges of type x-modulus-hash of its own.
func (b *diffBroker) native() bool { return b.version == "4.3" }

// play runs a scenario one way and returns what was seen.
func (b *diffBroker) play(t *testing.T, w way, tag string, run func(*diff)) string {
	t.Helper()
	e := &env{t: t, broker: b.node, vhost: w.vhost(), url: b.node.URL + "/" + w.vhost(), suffix: tag, goes: true}
	d := &diff{env: e, way: w, at: b.at[w], version: b.version, tr: &transcript{}}
	run(d)
	d.finish()
	text := d.tr.text(e)
	require.NotEmpty(t, text, "a scenario that saw nothing")
	if dir := os.Getenv("SHARDMQ_TRANSCRIPTS"); dir != "" { // to look at, and to compare releases
		file := filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", ".")+"."+string(w)+".txt")
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	}
	return text
}

// finish writes what each connection saw to the transcript.
func (d *diff) finish() {
	for _, k := range d.talks {
		k.report(d.tr)
		_ = k.conn.Close()
	}
}

// diffScenarios are played with ordinary names, all three ways.
func diffScenarios() map[string]func(*diff) {
	all := map[string]func(*diff){}
	for _, part := range []map[string]func(*diff){diffPublishing, diffConsuming, diffTopology, diffKinds, diffErrors, diffBadInput, diffHandshakes, diffLimits} {
		for name, run := range part {
			all[name] = run
		}
	}
	for name, run := range goScenarios {
		all["go "+name] = func(d *diff) { run(d.t, d.env, d.at, d.tr) }
	}
	for name, say := range rawScenarios {
		all["said at once "+name] = func(d *diff) {
			c := conversation{raw: rawOpen(d.t, d.at), open: map[uint16]bool{1: true}}
			c.run(d.tr, say(d.env))
		}
	}
	return all
}

func TestDifferential(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		b := startDiff(t, version)
		t.Run("all", func(t *testing.T) {
			all := diffScenarios()
			for i, name := range slices.Sorted(maps.Keys(all)) {
				b.compare(t, name, fmt.Sprintf("-s%03d", i), all[name], bare, sharded)
			}
			ways := []way{sharded}
			if b.native() {
				ways = append(ways, placed)
			}
			for i, name := range slices.Sorted(maps.Keys(diffPseudo)) {
				b.compare(t, "pseudo-queue "+name, fmt.Sprintf("-p%03d", i), diffPseudo[name], ways...)
			}
		})
		b.alarm(t) // concerns the whole broker
	})
}

// compare plays a scenario directly and these ways, as a subtest.
func (b *diffBroker) compare(t *testing.T, name, tag string, run func(*diff), ways ...way) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		want := b.play(t, direct, tag, run)
		for _, w := range ways {
			t.Run(string(w), func(t *testing.T) { requireSame(t, want, b.play(t, w, tag, run)) })
		}
	})
}

// alarm raises a memory alarm and plays all three ways at once: publishers are blocked, and told so when they want to know.
func (b *diffBroker) alarm(t *testing.T) {
	set := func(call string) {
		t.Helper()
		_, err := b.node.Ctl(t.Context(), "eval", "rabbit_alarm:"+call+".")
		require.NoError(t, err)
	}
	plays := map[way]*alarmed{}
	for _, w := range []way{direct, bare, sharded} {
		e := &env{t: t, broker: b.node, vhost: w.vhost(), url: b.node.URL + "/" + w.vhost(), suffix: "-alarm", goes: true}
		plays[w] = &alarmed{diff: &diff{env: e, way: w, at: b.at[w], version: b.version, tr: &transcript{}}}
	}
	all := func(step func(*alarmed)) {
		for _, p := range plays {
			step(p)
		}
	}
	all((*alarmed).before)
	set("set_alarm({{resource_limit, memory, node()}, []})")
	all((*alarmed).during)
	set("clear_alarm({resource_limit, memory, node()})")
	all((*alarmed).after)
	texts := map[way]string{}
	for w, p := range plays {
		p.finish()
		texts[w] = p.tr.text(p.env)
	}
	for _, w := range []way{bare, sharded} {
		requireSame(t, texts[direct], texts[w])
	}
}
