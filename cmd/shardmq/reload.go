package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/proxy"
	"github.com/shardmq/shardmq/shards"
)

// lookEvery is the time between two looks at the configuration file.
const lookEvery = time.Second

// reloader reads a running proxy's configuration file again.
type reloader struct {
	path    string
	log     *zap.Logger
	updates chan<- proxy.Update

	started *config.Config // what keys that need a restart still are
	now     *config.Config // what the proxy goes by
	taken   [sha256.Size]byte
	seen    [sha256.Size]byte // at the last look; differs from taken while the file is being changed
}

// newReloader is for a proxy that goes by cfg, read from path just now.
func newReloader(path string, cfg *config.Config, log *zap.Logger, updates chan<- proxy.Update) *reloader {
	r := &reloader{path: path, log: log, updates: updates, started: cfg, now: cfg}
	data, err := config.ReadFile(path)
	if err != nil {
		return r
	}
	r.seen = sha256.Sum256(data)
	// It may have been replaced since cfg was read: then it is a change like any other.
	if again, err := config.Parse(path, data, os.LookupEnv); err == nil && config.Same(cfg, again) {
		r.taken = r.seen
	}
	return r
}

// run reloads on every hangup, and when the file's content has changed, until
// ctx ends. It reads the file each second: whatever a file system reports of
// changes, symbolic links on the way (as Kubernetes swaps them) escape it.
func (r *reloader) run(ctx context.Context, hangup <-chan os.Signal) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-hangup:
			r.reload(ctx, true)
		case <-ticker.C:
			r.reload(ctx, false)
		case <-ctx.Done():
			return
		}
	}
}

// reload takes the file over if it is valid, else says why not and changes nothing.
func (r *reloader) reload(ctx context.Context, asked bool) {
	data, err := config.ReadFile(r.path)
	if err != nil {
		if asked { // else it may be about to be replaced
			r.refuse(err)
		}
		return
	}
	sum := sha256.Sum256(data)
	settled := sum == r.seen
	r.seen = sum
	if !asked && (sum == r.taken || !settled) {
		return // a file that is still being written is not complete
	}
	r.taken = sum
	cfg, err := config.Parse(r.path, data, os.LookupEnv)
	if err != nil {
		r.refuse(err)
		return
	}
	r.take(ctx, cfg)
}

func (r *reloader) refuse(err error) {
	problems := []string{err.Error()}
	if ps, ok := errors.AsType[config.Problems](err); ok {
		problems = strings.Split(ps.Error(), "\n")
	}
	r.log.Error("configuration not reloaded", zap.Strings("problems", problems))
}

// take has the proxy go by cfg as far as it can without a restart.
func (r *reloader) take(ctx context.Context, cfg *config.Config) {
	if keys := config.NeedRestart(r.started, cfg); keys != nil {
		r.log.Warn("needs a restart", zap.Strings("keys", keys))
	}
	changes := config.Diff(r.now, cfg)
	if changes.Empty() {
		r.log.Info("configuration read again: nothing to change")
		return
	}
	for _, c := range changes.Policies {
		r.log.Info("policy "+string(c.Kind), changeFields("policy", c, zap.String("vhost", c.Vhost))...)
	}
	for _, c := range changes.Nodes {
		r.log.Info("node "+string(c.Kind), changeFields("node", c)...)
	}
	update := proxy.Update{Nodes: nodes(cfg), Policies: shards.NewPolicies(cfg.Policies), Applied: func() {
		r.log.Info("configuration reloaded", zap.Int("nodes", len(cfg.Upstream.Nodes)), zap.Int("policies", len(cfg.Policies)))
	}}
	select {
	case r.updates <- update:
		r.now = cfg
	case <-ctx.Done():
	}
}

func changeFields(what string, c config.Change, more ...zap.Field) []zap.Field {
	fields := append([]zap.Field{zap.String(what, c.Name)}, more...)
	if c.Keys != nil {
		fields = append(fields, zap.Strings("keys", c.Keys))
	}
	return fields
}
