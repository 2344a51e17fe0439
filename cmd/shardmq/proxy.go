package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/proxy"
	"github.com/shardmq/shardmq/shards"
)

// proxyCmd is "shardmq proxy". Flags have no default value here: an empty one
// was not given, which is how flags are told from a file's settings.
type proxyCmd struct {
	Config     string   `short:"c" placeholder:"FILE" help:"Read everything from this YAML file. Not together with the flags below, except those for logging."`
	Listen     []string `sep:"none" placeholder:"ADDR" help:"Address for clients, host:port. Repeatable. (default: ${listen})"`
	Upstream   []string `sep:"none" placeholder:"URL" help:"RabbitMQ node: amqp://user:password@host:port/vhost, or amqps:// for TLS. Repeat it for each node of a cluster. (default: ${upstream})"`
	UpstreamCA string   `name:"upstream-ca" placeholder:"FILE" help:"PEM file with the CAs that sign the certificates of amqps:// nodes. (default: whom the system trusts)"`
	NodeName   []string `sep:"none" placeholder:"NAME" help:"Name of the node, such as rabbit@a, once for each --upstream and in their order. (default: learned from the broker, if there is one node)"`
	Shard      []string `sep:"none" placeholder:"EXCHANGE=N" help:"Shard this exchange over N queues on each node. Repeatable."`
	Hash       string   `placeholder:"NAME" help:"What places messages on shards: xxhash or phash2. (default: xxhash)"`
	Admin      string   `placeholder:"ADDR" help:"Address for health checks and metrics over HTTP, such as ${admin}. (default: none)"`
	logFlags
}

// Run runs the proxy until ctx is cancelled.
func (c *proxyCmd) Run(ctx context.Context, a *app) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	log, err := c.logger(a, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // a terminal cannot be synced: no news
	loaded, err := loadCertificates(cfg)
	if err != nil {
		return usageError{err}
	}
	running := live(loaded)
	o := options(cfg, running, log)
	o.Flags = c.Config == ""
	ctx, jobs, endJobs := dispatchBeside(ctx, cfg, log, &o)
	defer endJobs()
	if c.Config != "" {
		stop := c.reloads(ctx, cfg, running, jobs, log, &o)
		defer stop()
	}
	log.Info("starting", zap.String("version", o.Version), zap.Int("nodes", len(o.Nodes)), zap.Int("policies", len(cfg.Policies)))
	warn(log, cfg)
	if len(cfg.Policies) == 0 {
		log.Warn("no policies: every exchange passes unchanged")
	}
	if jobs != nil {
		if err := jobs.Apply(cfg.Dispatch.Jobs); err != nil {
			return usageError{err}
		}
	}
	if err := a.run(ctx, o); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// dispatchBeside makes a dispatcher of the configuration's jobs, if there are any, and has the proxy serve how they
// stand. What they have in flight may need the proxy, if it is their server: the context returned, for the proxy, ends
// after them. end ends both.
func dispatchBeside(ctx context.Context, cfg *config.Config, log *zap.Logger, o *proxy.Options) (proxyCtx context.Context, jobs *dispatch.Dispatcher, end func()) {
	if cfg.Dispatch == nil {
		return ctx, nil, func() {}
	}
	jobsCtx, endJobs := context.WithCancel(ctx)
	jobs = newDispatcher(jobsCtx, cfg.Dispatch, log)
	o.Jobs = admin.Of(jobs)
	proxyCtx, endProxy := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		jobs.Wait()
		endProxy()
	})
	return proxyCtx, jobs, func() {
		stop()
		endJobs()
		jobs.Wait()
		endProxy()
	}
}

// reloads has the options' Updates follow the file until stop is called.
func (c *proxyCmd) reloads(ctx context.Context, cfg *config.Config, running *certificates[*certs.Live],
	jobs *dispatch.Dispatcher, log *zap.Logger, o *proxy.Options,
) (stop func()) {
	updates := make(chan proxy.Update)
	o.Updates = updates
	r := newReloader(c.Config, cfg, running, log)
	r.updates, r.jobs = updates, jobs
	return r.start(ctx)
}

// load makes the configuration of the file or of the flags, never of both.
func (c *proxyCmd) load() (*config.Config, error) {
	if c.Config == "" {
		return c.fromFlags()
	}
	var conflicts []string
	for _, f := range []struct {
		given     bool
		flag, key string
	}{
		{c.Listen != nil, "--listen", "listeners"},
		{c.Upstream != nil, "--upstream", "upstream"},
		{c.UpstreamCA != "", "--upstream-ca", "upstream.tls.ca"},
		{c.NodeName != nil, "--node-name", "upstream.nodes[].name"},
		{c.Shard != nil, "--shard", "policies"},
		{c.Hash != "", "--hash", "policies[].definition.hash"},
		{c.Admin != "", "--admin", "admin.address"},
	} {
		if f.given {
			conflicts = append(conflicts, fmt.Sprintf("%s cannot be used with --config; set %s in %s, or leave out --config",
				f.flag, f.key, c.Config))
		}
	}
	if conflicts != nil {
		return nil, usagef("%s", strings.Join(conflicts, "\n"))
	}
	cfg, err := config.Load(c.Config)
	if err != nil {
		return nil, err
	}
	return cfg, cfg.CheckProxy(c.Config)
}

// options translates a configuration for package proxy.
func options(cfg *config.Config, running *certificates[*certs.Live], log *zap.Logger) proxy.Options {
	o := proxy.Options{
		Nodes:            nodes(cfg),
		UpstreamTLS:      running.upstream,
		ProxyProtocol:    proxy.ProxyVersion(cfg.Upstream.ProxyProtocol),
		Discovery:        source(&cfg.Upstream, running.upstream),
		Prefer:           proxy.Prefer(cfg.Upstream.Prefer),
		Zone:             cfg.Upstream.Zone,
		ControlUsername:  cfg.Upstream.Control.Username,
		ControlPassword:  string(cfg.Upstream.Control.Password),
		Policies:         shards.NewPolicies(cfg.Policies),
		Admin:            cfg.Admin.Address,
		AdminToken:       cfg.Admin.Token,
		DialTimeout:      cfg.Upstream.DialTimeout,
		HandshakeTimeout: cfg.Proxy.HandshakeTimeout,
		DrainTimeout:     cfg.Proxy.DrainTimeout,
		MaxConnections:   cfg.Proxy.MaxConnections,
		Log:              log,
		Version:          version(),
		Ready: func(addrs []net.Addr) {
			for _, addr := range addrs {
				log.Info("listening", zap.Stringer("address", addr))
			}
		},
	}
	if d := cfg.Upstream.Discovery; d != nil {
		o.DiscoveryInterval, o.DiscoveryTLS = d.Interval, d.TLS
	}
	for i, l := range cfg.Listeners {
		from := proxy.Listener{Address: l.Address, TLS: running.listeners[listenerKey(cfg, i)], Identity: l.Identity}
		if pp := l.ProxyProtocol; pp != nil {
			from.ProxyProtocol = &proxy.ProxyProtocol{Trusted: pp.Trusted, Optional: pp.Optional}
		}
		o.Listeners = append(o.Listeners, from)
	}
	for _, each := range cfg.Upstream.Identities {
		o.Identities = append(o.Identities, proxy.Identity{Name: each.Name, CommonName: each.CommonName, Subject: each.Subject,
			TLS: running.identities[each.Name]})
	}
	return o
}

func nodes(cfg *config.Config) (out []proxy.Node) {
	for _, n := range cfg.Upstream.Nodes {
		out = append(out, proxy.Node{Name: n.Name, Address: n.Address, Zone: n.Zone, TLS: n.TLS})
	}
	return out
}
