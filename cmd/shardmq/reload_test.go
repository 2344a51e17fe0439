package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/proxy"
)

// reloading is a reloader that runs in a bubble of synctest, so that a second
// passes at once.
type reloading struct {
	t       *testing.T
	path    string
	hangup  chan os.Signal
	updates chan proxy.Update
	logs    *observer.ObservedLogs
	running *certificates[*certs.Live]
}

func startReloader(t *testing.T, text string) *reloading {
	t.Helper()
	r := &reloading{t: t, path: filepath.Join(t.TempDir(), "shardmq.yaml"), hangup: make(chan os.Signal), updates: make(chan proxy.Update)}
	r.write(text)
	cfg, err := config.Load(r.path)
	require.NoError(t, err)
	core, logs := observer.New(zapcore.DebugLevel)
	r.logs = logs
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	r.running = liveOf(t, cfg)
	each := newReloader(r.path, cfg, r.running, zap.New(core))
	each.updates = r.updates
	go func() {
		defer close(stopped)
		each.run(ctx, r.hangup)
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	return r
}

func liveOf(t *testing.T, cfg *config.Config) *certificates[*certs.Live] {
	t.Helper()
	loaded, err := loadCertificates(cfg)
	require.NoError(t, err)
	return live(loaded)
}

// write replaces the file as editors and Kubernetes do.
func (r *reloading) write(text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(r.path+".new", []byte(text), 0o600))
	require.NoError(r.t, os.Rename(r.path+".new", r.path))
}

// quiet lets time pass in which nothing may be updated.
func (r *reloading) quiet() {
	r.t.Helper()
	select {
	case <-r.updates:
		require.FailNow(r.t, "an update")
	case <-time.After(5 * time.Second):
	}
}

func (r *reloading) messages() (out []string) {
	for _, e := range r.logs.TakeAll() {
		out = append(out, e.Message)
	}
	return out
}

const (
	oneNode  = "upstream: {nodes: [{name: rabbit@a, address: \"a:1\"}]}\n"
	twoNodes = "upstream: {nodes: [{name: rabbit@a, address: \"a:1\"}, {name: rabbit@b, address: \"b:1\", zone: z}]}\n"
	images   = "policies: [{name: images, pattern: \"^images$\", definition: {shards-per-node: 2}}]\n"
)

// A file that is replaced between its first reading and the first look is taken all the same.
func TestReloadChangedAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shardmq.yaml")
	require.NoError(t, os.WriteFile(path, []byte(oneNode), 0o600))
	cfg, err := config.Load(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(twoNodes), 0o600))
	updates := make(chan proxy.Update, 1)
	each := newReloader(path, cfg, liveOf(t, cfg), zap.NewNop())
	each.updates = updates
	each.reload(t.Context(), false)
	require.Len(t, updates, 1)
	require.Len(t, (<-updates).Nodes, 2)
}

func TestReloadOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReloader(t, oneNode)
		r.quiet()
		r.write(twoNodes + images)
		u := <-r.updates
		require.Equal(t, []proxy.Node{{Name: "rabbit@a", Address: "a:1"}, {Name: "rabbit@b", Address: "b:1", Zone: "z"}}, u.Nodes)
		require.NotNil(t, u.Policies.Match("/", "images"))
		synctest.Wait()
		require.Equal(t, []string{"policy added", "node added"}, r.messages())
		u.Applied()
		require.Equal(t, []string{"configuration reloaded"}, r.messages())
		r.quiet()

		r.write(oneNode) // what has been taken over is what the next change is compared with
		u = <-r.updates
		require.Empty(t, u.Policies.All())
		synctest.Wait()
		require.Equal(t, []string{"policy removed", "node removed"}, r.messages())
	})
}

func TestBadFileChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReloader(t, oneNode)
		r.write(oneNode + "policies: {}\nlog: {level: loud}\n")
		r.quiet()
		entries := r.logs.TakeAll()
		require.Len(t, entries, 1, "once, not every second")
		require.Equal(t, "configuration not reloaded", entries[0].Message)
		require.Equal(t, []any{
			r.path + ":2: policies: is a mapping; give a list, e.g. - {name: images, pattern: \"^images$\", definition: {shards-per-node: 4}}",
			r.path + ":3: log.level: is \"loud\"; give debug, info, warn or error",
		}, entries[0].ContextMap()["problems"])

		r.write("dispatch: {servers: {a: {url: \"amqp://a\"}}, jobs: [{name: x, target: {url: \"http://app\"}}]}\n")
		r.quiet()
		entries = r.logs.TakeAll()
		require.Len(t, entries, 1)
		require.Equal(t, []any{r.path + ": upstream: is missing; say where RabbitMQ is, e.g. upstream: {nodes: [{address: \"localhost:5672\"}]}"},
			entries[0].ContextMap()["problems"], "a file that is none of a proxy")

		require.NoError(t, os.Remove(r.path))
		r.quiet()
		require.Empty(t, r.messages(), "it may be about to come back")
		r.hangup <- os.Interrupt
		synctest.Wait()
		require.Equal(t, []string{"configuration not reloaded"}, r.messages())

		r.write(oneNode)
		r.quiet()
		require.Equal(t, []string{"configuration read again: nothing to change"}, r.messages())
	})
}

func TestReloadOnHangup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReloader(t, oneNode)
		r.hangup <- os.Interrupt
		synctest.Wait()
		require.Equal(t, []string{"configuration read again: nothing to change"}, r.messages())
		r.write(oneNode + images)
		began := time.Now()
		r.hangup <- os.Interrupt
		u := <-r.updates
		require.Less(t, time.Since(began), lookEvery, "at once")
		require.Len(t, u.Policies.All(), 1)
	})
}

func TestKeysThatNeedARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReloader(t, oneNode)
		r.write(oneNode + images + "admin: {address: \":1\"}\n")
		u := <-r.updates
		require.Len(t, u.Policies.All(), 1, "the rest is taken over")
		synctest.Wait()
		e := r.logs.FilterMessage("needs a restart").All()
		require.Len(t, e, 1)
		require.Equal(t, []any{"admin"}, e[0].ContextMap()["keys"])
	})
}

// A file that is read while it is being written is not complete.
func TestHalfWrittenFileWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReloader(t, oneNode)
		time.Sleep(lookEvery / 2) // between two looks
		for range 3 {
			r.write(oneNode + "# " + time.Now().String() + "\npolicies: [")
			time.Sleep(lookEvery)
		}
		r.write(oneNode + images)
		<-r.updates
		synctest.Wait()
		require.Equal(t, []string{"policy added"}, r.messages())
	})
}
