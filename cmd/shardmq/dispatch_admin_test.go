package main

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/dispatch"
)

func TestServeJobs(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	d := dispatch.New(t.Context(), dispatch.Options{Log: zap.NewNop()})
	stop, err := serveJobs(t.Context(), &config.Config{}, d, zap.New(core))
	require.NoError(t, err)
	stop()
	require.Zero(t, logs.Len(), "not wanted")

	const unchangeable = "nobody can change jobs while this runs, for there is no admin.token"
	for token, warned := range map[config.Secret]int{"": 1, adminToken: 0} {
		stop, err = serveJobs(t.Context(), &config.Config{Admin: config.Admin{Address: "127.0.0.1:0", Token: token}}, d, zap.New(core))
		require.NoError(t, err)
		seen := logs.TakeAll()
		require.Len(t, seen, 1+warned)
		require.Equal(t, warned == 1, seen[0].Message == unchangeable)
		address := seen[warned].ContextMap()["address"].(string)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + address + "/api/v1/jobs")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.JSONEq(t, `{"jobs": []}`, string(body))
		stop()
		_, err = client.Get("http://" + address + "/api/v1/jobs")
		require.Error(t, err)
	}
}

// An address that is taken is found out before a job is begun.
func TestDispatchAdminAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	r := shardmq(nil, "dispatch", "run", "--config", write(t, "admin: {address: \""+l.Addr().String()+"\"}\n"+
		"dispatch: {servers: {a: {url: \"amqp://127.0.0.1:1\"}}, jobs: [{name: x, target: {url: \"http://127.0.0.1:1\"}}]}\n"))
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "shardmq: cannot listen on "+l.Addr().String()+": address already in use; stop whatever listens there, or choose another address")
	require.NotContains(t, r.stderr, "no jobs are fetched")
}
