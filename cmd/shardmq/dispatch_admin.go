package main

import (
	"context"
	"net"
	"sync"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/proxy"
)

// serveJobs serves the jobs' page, API and metrics, if that is wanted, until stop is called: while jobs are finished, too.
func serveJobs(ctx context.Context, cfg *config.Config, d *dispatch.Dispatcher, log *zap.Logger) (stop func(), err error) {
	if cfg.Admin.Address == "" {
		return func() {}, nil
	}
	handler, err := admin.Handler(admin.Options{Jobs: admin.Of(d), Token: cfg.Admin.Token, Version: version()})
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Admin.Address)
	if err != nil {
		return nil, &proxy.ListenError{Address: cfg.Admin.Address, Err: err}
	}
	if cfg.Admin.Token == "" {
		log.Warn("nobody can change jobs while this runs, for there is no admin.token")
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := admin.Serve(ctx, l, handler); err != nil {
			log.Error("admin listener failed", zap.Error(err))
		}
	})
	log.Info("serving jobs, health checks and metrics", zap.Stringer("address", l.Addr()))
	return func() { cancel(); serving.Wait() }, nil
}
