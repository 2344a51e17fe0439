package integration

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
)

// TestDispatchReload: jobs come, change and go while others stay as they are, by SIGHUP as well as when the file changes.
// A file with a mistake changes nothing.
func TestDispatchReload(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	stays, changes, goes, comes := e.name("stays"), e.name("changes"), e.name("goes"), e.name("comes")
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	var paths sync.Map // of requests, by job
	app := newApplication(t, func(_ http.ResponseWriter, r *http.Request, body string, _ int) {
		paths.Store(body, r.URL.Path)
		if body == "held" {
			<-held
		}
	})
	t.Cleanup(release) // before the application is closed
	job := func(name, path string, executors int) string {
		return fmt.Sprintf("    - {name: %s, declare: {}, executors: %d, target: {url: %q}}\n", name, executors, app.URL+path)
	}
	config := func(jobs ...string) string {
		text := fmt.Sprintf("dispatch:\n  servers: {test: {url: %q}}\n  jobs:\n", e.url)
		for _, j := range jobs {
			text += j
		}
		return withAdmin(text)
	}
	d := runDispatch(t, config(job(stays, "/", 2), job(changes, "/old", 2), job(goes, "/", 2)))
	for _, name := range []string{stays, changes, goes} {
		awaitConsumers(t, e, name, 2)
	}
	ch := confirming(t, e.url)
	publish(t, ch, "", stays, text("held"))
	publish(t, ch, "", changes, text("first"))
	app.await(t, "held", 1)
	app.await(t, "first", 1)

	d.configure(config(job(changes, "/new", 3), job(comes, "/", 1), job(stays, "/", 2)))
	d.says("job added", comes)
	d.says("job changed", changes)
	d.says("job removed", goes)
	awaitConsumers(t, e, changes, 3)
	awaitConsumers(t, e, comes, 1)
	awaitConsumers(t, e, goes, 0)
	awaitConsumers(t, e, stays, 2)
	publish(t, ch, "", changes, text("second"))
	publish(t, ch, "", comes, text("third"))
	publish(t, ch, "", stays, text("fourth"))
	for _, body := range []string{"second", "third", "fourth"} {
		app.await(t, body, 1)
	}

	d.configure(config(job(changes, "/newer", 1), job(comes, "/", -1)))
	require.NoError(t, d.Signal(syscall.SIGHUP))
	d.says("configuration not reloaded", "executors")
	publish(t, ch, "", changes, text("fifth"))
	app.await(t, "fifth", 1)

	d.configure(config(job(changes, "/new", 3), job(stays, "/", 5)))
	require.NoError(t, d.Signal(syscall.SIGHUP))
	awaitConsumers(t, e, comes, 0)
	awaitConsumers(t, e, stays, 5)
	st := d.reach(stays, "five executors", func(st admin.Job) bool { return st.Executors == 5 })
	require.Equal(t, 1, st.InFlight, "it went on all the time")
	release()
	d.reach(stays, "both are done", func(st admin.Job) bool { return st.Done == 2 })
	d.stop()
	app.requireOnce(t, 6)
	e.emptied()
	for body, want := range map[string]string{"first": "/old", "second": "/new", "fifth": "/new"} {
		path, _ := paths.Load(body)
		require.Equal(t, want, path, body)
	}
}
