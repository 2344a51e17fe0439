package dispatch

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestApplyKeepsWhatWasSetLive: a job that changes goes on paused, and with the executors it was given, unless the
// configuration says something new of just these.
func TestApplyKeepsWhatWasSetLive(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := New(ctx, Options{Log: zap.NewNop(), Endpoint: func(*Job) (Endpoint, error) { return nil, nil },
		TLS: func(Server) (*tls.Config, error) { return nil, nil }})
	job := func(change func(*Job)) []*Job {
		j := &Job{Name: "mail", Server: Server{Name: "s", URL: "amqp://127.0.0.1:1/"}, Queue: "mail", Executors: 2}
		change(j)
		return []*Job{j}
	}
	require.NoError(t, d.Apply(job(func(*Job) {})))
	require.NoError(t, d.Pause("mail", true))
	require.NoError(t, d.Scale("mail", 7))
	require.NoError(t, d.Apply(job(func(j *Job) { j.Target.URL = "http://other/" })))
	st := d.Jobs()[0]
	require.Equal(t, "http://other/", st.URL)
	require.True(t, st.Paused)
	require.Equal(t, 7, st.Wanted)
	require.NoError(t, d.Apply(job(func(j *Job) { j.Executors = 3 })))
	st = d.Jobs()[0]
	require.True(t, st.Paused)
	require.Equal(t, 3, st.Wanted)
	require.NoError(t, d.Apply(job(func(j *Job) { j.Executors, j.Paused = 3, true })))
	require.NoError(t, d.Apply(job(func(j *Job) { j.Executors = 3 })))
	require.False(t, d.Jobs()[0].Paused)
	cancel()
	d.Wait()
}
