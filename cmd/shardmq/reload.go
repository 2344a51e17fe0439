package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/proxy"
	"github.com/shardmq/shardmq/shards"
)

// lookEvery is the time between two looks at the configuration file.
const lookEvery = time.Second

// reloader reads a running process' configuration file again.
type reloader struct {
	path    string
	log     *zap.Logger
	check   func(*config.Config) error // whether the process can go by a valid file
	updates chan<- proxy.Update        // nil: the process is no proxy
	jobs    *dispatch.Dispatcher       // nil: it dispatches none, and cannot begin to

	running *certificates[*certs.Live]
	started *config.Config    // what keys that need a restart still are
	now     *config.Config    // what the proxy goes by
	taken   [sha256.Size]byte // of the files that it goes by, or that have been refused
	seen    [sha256.Size]byte // at the last look; differs from taken while a file is being changed
	refused string            // what is wrong with those; "" = nothing
}

// newReloader is for a process that goes by cfg, read from path just now.
func newReloader(path string, cfg *config.Config, running *certificates[*certs.Live], log *zap.Logger) *reloader {
	r := &reloader{path: path, log: log, running: running, started: cfg, now: cfg, check: func(c *config.Config) error { return c.CheckProxy(path) }}
	data, err := config.ReadFile(path)
	if err != nil {
		return r
	}
	r.seen = r.sum(data)
	// A file may have been replaced since cfg was read: then it is a change like any other.
	if again, err := config.Parse(path, data, os.LookupEnv); err == nil && config.Same(cfg, again) {
		if fresh, err := loadCertificates(again); err == nil && same(running, fresh) {
			r.taken = r.seen
		}
	}
	return r
}

// sum is of all files: the configuration, whose content is given, and the certificates that it names.
func (r *reloader) sum(data []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	add := func(b []byte) {
		each := sha256.Sum256(b)
		h.Write(each[:])
	}
	add(data)
	for _, name := range r.now.Files() {
		content, err := certs.ReadFile(name)
		if err != nil {
			content = []byte(err.Error())
		}
		add(content)
	}
	h.Sum(sum[:0])
	return sum
}

// start runs the reloader until ctx ends or stop is called.
func (r *reloader) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	var working sync.WaitGroup
	working.Go(func() { r.run(ctx, hangup) })
	return func() {
		signal.Stop(hangup)
		cancel()
		working.Wait()
	}
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
	sum := r.sum(data)
	settled := sum == r.seen
	r.seen = sum
	if !asked && (sum == r.taken && r.refused == "" || !settled) {
		return // a file that is still being written is not complete
	}
	again := !asked && sum == r.taken
	r.taken = sum
	cfg, err := config.Parse(r.path, data, os.LookupEnv)
	if err == nil {
		err = r.check(cfg)
	}
	var fresh *certificates[*certs.Loaded]
	if err == nil {
		fresh, err = loadCertificates(cfg)
	}
	if err == nil {
		r.refused = ""
		r.take(ctx, cfg, fresh)
		r.seen = r.sum(data) // it may name other files now
		r.taken = r.seen
		return
	}
	// What is refused is looked at again and again: it may name files that are not looked at otherwise.
	if !again || err.Error() != r.refused {
		r.refuse(err)
	}
	r.refused = err.Error()
}

func (r *reloader) refuse(err error) {
	problems := []string{err.Error()}
	if ps, ok := errors.AsType[config.Problems](err); ok {
		problems = strings.Split(ps.Error(), "\n")
	}
	r.log.Error("configuration not reloaded", zap.Strings("problems", problems))
}

// take has the proxy go by cfg as far as it can without a restart.
func (r *reloader) take(ctx context.Context, cfg *config.Config, fresh *certificates[*certs.Loaded]) {
	warn(r.log, cfg)
	if keys := config.NeedRestart(r.started, cfg); keys != nil {
		r.log.Warn("needs a restart", zap.Strings("keys", keys))
	}
	changes := config.Diff(r.now, cfg)
	replaced := replace(r.running, fresh, sameClients(r.started, cfg), r.log)
	if changes.Empty() {
		r.now = cfg
		if !replaced {
			r.log.Info("configuration read again: nothing to change")
		}
		return
	}
	for _, c := range changes.Policies {
		r.log.Info("policy "+string(c.Kind), changeFields("policy", c, zap.String("vhost", c.Vhost))...)
	}
	for _, c := range changes.Nodes {
		r.log.Info("node "+string(c.Kind), changeFields("node", c)...)
	}
	if !r.takeJobs(cfg, changes.Jobs) {
		return
	}
	reloaded := func() {
		r.log.Info("configuration reloaded", zap.Int("nodes", len(cfg.Upstream.Nodes)), zap.Int("policies", len(cfg.Policies)))
	}
	if r.updates == nil {
		r.now = cfg
		reloaded()
		return
	}
	select {
	case r.updates <- proxy.Update{Nodes: nodes(cfg), Policies: shards.NewPolicies(cfg.Policies), Applied: reloaded}:
		r.now = cfg
	case <-ctx.Done():
	}
}

// takeJobs has the dispatcher go by cfg. It returns false if it cannot: then nothing has changed.
func (r *reloader) takeJobs(cfg *config.Config, changes []config.Change) bool {
	if len(changes) == 0 {
		return true
	}
	if r.jobs == nil || cfg.Dispatch == nil {
		r.log.Warn("needs a restart", zap.Strings("keys", []string{"dispatch"}))
		return true
	}
	for _, c := range changes {
		r.log.Info("job "+string(c.Kind), changeFields("job", c, zap.String("server", c.Server))...)
	}
	if err := r.jobs.Apply(cfg.Dispatch.Jobs); err != nil {
		r.refuse(err)
		return false
	}
	return true
}

func changeFields(what string, c config.Change, more ...zap.Field) []zap.Field {
	fields := append([]zap.Field{zap.String(what, c.Name)}, more...)
	if c.Keys != nil {
		fields = append(fields, zap.Strings("keys", c.Keys))
	}
	return fields
}
