package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/admin/inventory"
	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/proxy"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/control"
)

// errFindings is the error of a command that has printed findings.
var errFindings = errors.New("findings")

// lookTimeout bounds one look at all shards of a vhost.
const lookTimeout = time.Minute

// shardsFlags say where to look: the flags of "shardmq proxy" mean the same here.
type shardsFlags struct {
	Config     string   `short:"c" placeholder:"FILE" help:"Take nodes and policies from this YAML file. Not together with --upstream, --node-name and --shard."`
	Upstream   []string `sep:"none" placeholder:"URL" help:"RabbitMQ node: amqp://user:password@host:port/vhost, or amqps:// for TLS. Repeat it for each node of a cluster. (default: ${upstream})"`
	UpstreamCA string   `name:"upstream-ca" placeholder:"FILE" help:"PEM file with the CAs that sign the certificates of amqps:// nodes. (default: whom the system trusts)"`
	NodeName   []string `sep:"none" placeholder:"NAME" help:"Name of the node, such as rabbit@a, once for each --upstream and in their order. (default: learned from the broker, if there is one node)"`
	Shard      []string `sep:"none" placeholder:"EXCHANGE=N" help:"What the proxy is told: this exchange has N shards on each node. Repeatable."`
	Vhost      string   `placeholder:"VHOST" help:"Look at this vhost only. (default: all that policies are for)"`
	Output     string   `default:"table" enum:"table,json" help:"table or json. (default: ${default})"`
	Exchanges  []string `arg:"" optional:"" name:"exchange" help:"Exchanges to look at, whether or not a policy is for them. (default: all that policies name literally)"`
}

// shardsListCmd is "shardmq shards list".
type shardsListCmd struct {
	shardsFlags
	Interval time.Duration `default:"1s" placeholder:"DURATION" help:"Time between the two looks that rates come from; 0 for one look. (default: ${default})"`
}

// Run prints what there is. It changes nothing.
func (c *shardsListCmd) Run(ctx context.Context, a *app) error {
	if c.Interval < 0 || c.Interval > lookTimeout/2 {
		return usagef("--interval: is %s; give a duration from 0 to %s", c.Interval, lookTimeout/2)
	}
	listings := []*inventory.Listing{}
	err := c.each(ctx, lookTimeout, func(ctx context.Context, o inventory.Options) error {
		o.Interval = c.Interval
		l, err := inventory.List(ctx, o)
		if err != nil {
			return err
		}
		listings = append(listings, l)
		return inventory.WriteWarnings(a.stderr, o.Vhost, l.Warnings)
	})
	if len(listings) == 0 && err != nil {
		return err
	}
	if c.Output == "json" {
		return errors.Join(err, inventory.WriteJSON(a.stdout, struct {
			Vhosts []*inventory.Listing `json:"vhosts"`
		}{listings}))
	}
	return errors.Join(err, inventory.WriteTable(a.stdout, listings))
}

// shardsPruneCmd is "shardmq shards prune".
type shardsPruneCmd struct {
	shardsFlags
	Yes   bool `help:"Delete. Without it nothing is changed."`
	Force bool `help:"Delete replicated (quorum) shards too: running proxies let go of them first. RabbitMQ cannot check once more that they are empty."`
}

// Run prints what becomes of surplus shards, and with --yes fails when one of
// them has to stay.
func (c *shardsPruneCmd) Run(ctx context.Context, a *app) error {
	verdicts, warnings := []inventory.Verdict{}, []string(nil)
	timeout := lookTimeout
	if c.Force && c.Yes {
		timeout += inventory.LeaderTimeout
	}
	looked := 0
	err := c.each(ctx, timeout, func(ctx context.Context, o inventory.Options) error {
		if err := c.checkNamed(o); err != nil {
			return err
		}
		p, err := inventory.Prune(ctx, inventory.PruneOptions{Options: o, Yes: c.Yes, Force: c.Force})
		if err != nil {
			return err
		}
		looked++
		verdicts, warnings = append(verdicts, p.Verdicts...), append(warnings, p.Warnings...)
		return inventory.WriteWarnings(a.stderr, o.Vhost, p.Warnings)
	})
	switch {
	case looked == 0 && err != nil:
		return err
	case c.Output == "json":
		err = errors.Join(err, inventory.WriteJSON(a.stdout, struct {
			DryRun   bool                `json:"dry_run"`
			Shards   []inventory.Verdict `json:"shards"`
			Warnings []string            `json:"warnings,omitempty"`
		}{!c.Yes, verdicts, warnings}))
	default:
		err = errors.Join(err, inventory.WriteVerdicts(a.stdout, verdicts))
	}
	left := slices.ContainsFunc(verdicts, func(v inventory.Verdict) bool { return v.Action != inventory.Deleted })
	if err == nil && c.Yes && left {
		return errFindings
	}
	return err
}

// checkNamed refuses exchanges whose shards would all count as surplus because a
// flag was forgotten, or is for another vhost.
func (c *shardsPruneCmd) checkNamed(o inventory.Options) error {
	for _, name := range c.Exchanges {
		if c.Config == "" && o.Policies.Match(o.Vhost, name) == nil {
			return usagef("%s: without its policy all of its shards are surplus; give --shard %s=N with the vhost in --upstream, "+
				"or --config FILE with the policies there are", name, name)
		}
	}
	return nil
}

// each runs look for every vhost there is to look at, for so long each. A vhost that
// it fails for does not keep the others from it, unless it is for what was asked.
func (c *shardsFlags) each(ctx context.Context, timeout time.Duration, look func(context.Context, inventory.Options) error) error {
	flags := &proxyCmd{Config: c.Config, Upstream: c.Upstream, UpstreamCA: c.UpstreamCA, NodeName: c.NodeName, Shard: c.Shard}
	cfg, err := flags.load()
	if err != nil {
		return err
	}
	vhosts, err := c.vhosts(cfg)
	if err != nil {
		return err
	}
	loaded, err := loadCertificates(cfg)
	if err != nil {
		return usageError{err}
	}
	running := live(loaded)
	nodes, err := upstreamNodes(ctx, cfg, running.upstream)
	var warnings []string
	if err != nil {
		if nodes = cfg.Upstream.Nodes; len(nodes) == 0 {
			return err
		}
		warnings = []string{err.Error() + "; only the nodes of the file are looked at"}
	}
	fn := func(ctx context.Context, o inventory.Options) error {
		o.Warnings = warnings
		return look(ctx, o)
	}
	var errs []error
	for _, vhost := range vhosts {
		err := c.one(ctx, cfg, running, nodes, vhost, timeout, fn)
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("vhost %s: %w", vhost, err))
		if _, usage := errors.AsType[usageError](err); usage || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// vhosts returns the vhosts to look at, sorted.
func (c *shardsFlags) vhosts(cfg *config.Config) ([]string, error) {
	var all []string
	for _, p := range cfg.Policies {
		all = append(all, p.Vhost)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch {
	case c.Vhost != "":
		return []string{c.Vhost}, nil
	case len(all) == 0 && c.Config == "" && c.Exchanges != nil:
		u, err := parseUpstream(append(c.Upstream, defaultUpstream)[0])
		return []string{u.vhost}, err
	case len(all) == 0 && c.Exchanges != nil:
		return []string{config.DefaultVhost}, nil
	case len(all) == 0:
		return nil, usagef("there is no policy, so no vhost to look at; give --shard EXCHANGE=N, or name exchanges")
	case c.Exchanges != nil && len(all) > 1:
		return nil, usagef("exchanges are named, but policies are for several vhosts; say which one with --vhost")
	}
	return all, nil
}

// one runs fn for one vhost.
func (c *shardsFlags) one(ctx context.Context, cfg *config.Config, running *certificates[*certs.Live], nodes []config.Node, vhost string, timeout time.Duration,
	fn func(context.Context, inventory.Options) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u := &cfg.Upstream
	o := inventory.Options{Vhost: vhost, Policies: shards.NewPolicies(cfg.Policies), Exchanges: c.Exchanges}
	listener := &inventory.Listener{Vhost: vhost, Username: u.Control.Username, Password: string(u.Control.Password)}
	dial := c.dialer(cfg, running, nodes)
	listener.Dial = dial
	for _, n := range nodes {
		b := control.New(control.Options{Node: n.Name, Address: n.Address, Vhost: vhost, Username: u.Control.Username,
			Password: string(u.Control.Password), ConnectTimeout: u.DialTimeout, Dial: dial})
		defer b.Close()
		o.Brokers = append(o.Brokers, b)
		listener.Addresses = append(listener.Addresses, n.Address)
	}
	o.Listen, o.Insist = listener.Listen, listener.Insist
	if d := u.Discovery; d != nil && d.Management != nil {
		m := management(u)
		o.Stats = func(ctx context.Context) (map[string]inventory.Stats, error) {
			return (&inventory.Management{URL: m.URL, Username: m.Username, Password: string(m.Password), Client: overTLS(m.URL, running.upstream)}).Stats(ctx, vhost)
		}
	}
	return fn(ctx, o)
}

// dialer connects to nodes as the proxy does for itself.
func (c *shardsFlags) dialer(cfg *config.Config, running *certificates[*certs.Live], nodes []config.Node) func(ctx context.Context, network, address string) (net.Conn, error) {
	o := options(cfg, running, zap.NewNop())
	o.Flags = c.Config == ""
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		i := slices.IndexFunc(nodes, func(n config.Node) bool { return n.Address == address })
		return proxy.Dial(ctx, &o, proxy.Node{Address: address, TLS: i >= 0 && nodes[i].TLS})
	}
}
