package integration

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// soak returns how long tests of coming and going last: as long as the environment variable SOAK says (such as 5m), or
// else the given time. long tells that it was asked for, which makes other amounts bigger too.
func soak(t *testing.T, otherwise time.Duration) (length time.Duration, long bool) {
	t.Helper()
	given := os.Getenv("SOAK")
	if given == "" {
		return otherwise, false
	}
	length, err := time.ParseDuration(given)
	require.NoError(t, err, "SOAK")
	return length, true
}

// fleet is several proxies in front of one vhost of a node or cluster, with one sharded exchange.
type fleet struct {
	t *testing.T
	e *env
	o fleetOptions

	mu      sync.Mutex
	proxies []*rig.Proxy
	admins  []string // addresses of the proxies' metrics
	ended   map[*rig.Proxy]bool

	// faulty: clients may lose connections and channels by what the test does; they come back. Otherwise every loss is
	// a problem.
	faulty atomic.Bool
}

type fleetOptions struct {
	proxies   int
	nodes     []*rig.Node // default: the env's broker
	exchange  string
	fixed     int           // shards in all, or
	perNode   int           // shards per node
	more      string        // of the policy's definition, such as ", on-node-down: keep"
	upstream  string        // more lines of upstream, indented
	heartbeat time.Duration // the clients', default 10 s

	undeclared bool // the exchange is left to the test to declare
	// nodesOf says which nodes a proxy is to know, in what order, and at which addresses; nil: all, at their own.
	nodesOf func(proxy int) []upstreamNode
	control string // the control user, with password "secret"; default guest
}

type upstreamNode struct{ name, addr string }

// fleet starts the proxies and declares the exchange through each.
func (e *env) fleet(o fleetOptions) *fleet {
	e.t.Helper()
	if o.nodes == nil {
		o.nodes = []*rig.Node{e.broker}
	}
	if o.heartbeat == 0 {
		o.heartbeat = 10 * time.Second
	}
	f := &fleet{t: e.t, e: e, o: o, ended: map[*rig.Proxy]bool{}}
	for range o.proxies {
		f.add(f.definition(o.fixed, o.perNode))
	}
	if !o.undeclared {
		for i := range o.proxies {
			declareSharded(e.t, open(e.t, f.url(i)), o.exchange)
		}
	}
	return f
}

func (f *fleet) definition(fixed, perNode int) string {
	if fixed > 0 {
		return fmt.Sprintf("{shards: %d%s}", fixed, f.o.more)
	}
	return fmt.Sprintf("{shards-per-node: %d%s}", perNode, f.o.more)
}

// config is the shardmq.yaml of one proxy.
func (f *fleet) config(proxy int, definition string) string {
	nodes := make([]upstreamNode, 0, len(f.o.nodes))
	for _, n := range f.o.nodes {
		nodes = append(nodes, upstreamNode{n.Name, n.Addr})
	}
	if f.o.nodesOf != nil {
		nodes = f.o.nodesOf(proxy)
	}
	var b strings.Builder
	b.WriteString("listeners:\n  - address: \"127.0.0.1:0\"\nupstream:\n  nodes:\n")
	for _, n := range nodes {
		fmt.Fprintf(&b, "    - {name: %q, address: %q}\n", n.name, n.addr)
	}
	user, password := "guest", "guest"
	if f.o.control != "" {
		user, password = f.o.control, "secret"
	}
	fmt.Fprintf(&b, "  control: {username: %q, password: %q}\n%s", user, password, f.o.upstream)
	fmt.Fprintf(&b, "policies:\n  - {name: fleet, vhost: %q, pattern: '^%s$', definition: %s}\n", f.e.vhost, f.o.exchange, definition)
	fmt.Fprintf(&b, "admin: {address: %q}\n", f.admins[proxy])
	return b.String()
}

// add starts one more proxy, with that definition of the policy, and returns its number.
func (f *fleet) add(definition string) int {
	f.t.Helper()
	port, err := rig.FreePort()
	require.NoError(f.t, err)
	f.mu.Lock()
	i := len(f.proxies)
	f.admins = append(f.admins, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	f.mu.Unlock()
	p, err := rig.StartProxy(f.t.Context(), rig.ProxyOptions{Upstream: f.e.url, Config: f.config(i, definition)})
	require.NoError(f.t, err)
	f.mu.Lock()
	f.proxies = append(f.proxies, p)
	f.mu.Unlock()
	f.t.Cleanup(func() { f.stop(p) })
	return i
}

func (f *fleet) stop(p *rig.Proxy) {
	code, err := p.Stop()
	logs := p.Logs()
	if f.t.Failed() {
		f.t.Logf("the log of the proxy at %s:\n%s", p.Addr, lastLines(logs, 60))
	}
	require.NotContains(f.t, logs, "panic", "a session of the proxy panicked")
	require.NotContains(f.t, logs, "DATA RACE")
	for line := range strings.Lines(logs) {
		if !strings.Contains(line, "configuration not reloaded") {
			require.NotContains(f.t, line, `"level":"error"`)
		}
	}
	if !f.isEnded(p) {
		require.NoError(f.t, err)
		require.Zero(f.t, code, "the proxy's exit code; its log:\n%s", lastLines(logs, 60))
	}
}

// kill ends a proxy with SIGKILL. What its clients lose is no problem.
func (f *fleet) kill(i int) {
	f.t.Helper()
	p := f.proxies[i]
	f.mu.Lock()
	f.ended[p] = true
	f.mu.Unlock()
	require.NoError(f.t, p.Kill())
}

func (f *fleet) isEnded(p *rig.Proxy) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[p]
}

func (f *fleet) url(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proxies[i].URL
}

// living returns the numbers of the proxies that were not killed.
func (f *fleet) living() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []int
	for i, p := range f.proxies {
		if !f.ended[p] {
			all = append(all, i)
		}
	}
	return all
}

// anyone returns a living proxy's number.
func (f *fleet) anyone(rng *rand.Rand) int {
	all := f.living()
	return all[rng.IntN(len(all))]
}

// mayLose tells whether a client of that proxy may lose its connection.
func (f *fleet) mayLose(proxy int) bool {
	return f.faulty.Load() || !slices.Contains(f.living(), proxy)
}

// dial connects a client to a proxy; tcp is the socket beneath.
func (f *fleet) dial(proxy int) (conn *amqp.Connection, tcp net.Conn, err error) {
	conn, err = amqp.DialConfig(f.url(proxy), amqp.Config{Heartbeat: f.o.heartbeat, Dial: func(network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		if tcp, err = d.Dial(network, address); err != nil {
			return nil, err
		}
		return tcp, tcp.SetDeadline(time.Now().Add(10 * time.Second)) // of the handshake; the client takes it back
	}})
	return conn, tcp, err
}

// shards returns the names of the exchange's shards, in the order in which keys are mapped to them.
func (f *fleet) shards(fixed, perNode int) []string {
	all := f.shardsOn(f.o.nodes, perNode)
	for i := range fixed {
		all = append(all, fmt.Sprintf("sharding: %s - %d", f.o.exchange, i))
	}
	slices.Sort(all)
	return all
}

// shardsOn returns the names of the shards on those nodes.
func (f *fleet) shardsOn(nodes []*rig.Node, perNode int) []string {
	var all []string
	for _, n := range nodes {
		for i := range perNode {
			all = append(all, fmt.Sprintf("sharding: %s - %s - %d", f.o.exchange, n.Name, i))
		}
	}
	slices.Sort(all)
	return all
}

// metric adds up a metric's values over all living proxies.
func (f *fleet) metric(name string) int {
	f.t.Helper()
	total := 0.0
	for _, i := range f.living() {
		f.mu.Lock()
		address := f.admins[i]
		f.mu.Unlock()
		response, err := http.Get("http://" + address + "/metrics")
		require.NoError(f.t, err)
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			line := lines.Text()
			series, value, _ := strings.Cut(line, " ")
			if series != name && !strings.HasPrefix(series, name+"{") {
				continue
			}
			value = line[strings.LastIndexByte(line, ' ')+1:] // a label's value may have spaces
			v, err := strconv.ParseFloat(value, 64)
			require.NoError(f.t, err, line)
			total += v
		}
		require.NoError(f.t, response.Body.Close())
	}
	return int(total)
}

// moves is how many times the leaders have moved a shard from one consumer to another.
func (f *fleet) moves() int { return f.metric("shardmq_shard_moves_total") }
