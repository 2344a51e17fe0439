package integration

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/integration/rig"
)

// TestDispatchAlarm: a broker short of memory takes no publishes, and then nothing at all from a connection that has tried.
// A stop does not wait for it longer than the drain time; afterwards all that was not acknowledged is done.
func TestDispatchAlarm(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, call int) {
		if body == "fails" && call == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	d := runDispatch(t, withAdmin(jobConfig(e, "mail", app.URL, "retry: {backoff: [100ms, 100ms]}")+"  drain-timeout: 1s\n"))
	awaitConsumers(t, e, "mail", 2)
	publishDurably(t, confirming(t, e.url), "mail_router", []string{"good"})
	d.reach("mail", "it is done", func(st admin.Job) bool { return st.Done == 1 })
	ch := confirming(t, e.url)
	require.NoError(t, ch.PublishWithContext(t.Context(), "mail_router", "", true, false, text("first")))
	app.await(t, "first", 1)
	d.call(http.MethodPost, "/mail/pause", "", new(admin.Job))
	d.reach("mail", "no executors", func(st admin.Job) bool { return st.Executors == 0 })
	publishDurably(t, ch, "mail_router", []string{"fails"})
	e.ctl("set_vm_memory_high_watermark", "0.0000001")
	d.call(http.MethodPost, "/mail/resume", "", new(admin.Job))
	app.await(t, "fails", 1)
	d.stop()
	e.ctl("set_vm_memory_high_watermark", "0.4")
	d.start()
	app.await(t, "fails", 2)
	e.emptied()
	d.stop()
}
