// Command publicsuite runs a client library's own integration tests against RabbitMQ directly and through shardmq, and compares: every
// test must pass, fail or be skipped through the proxy as it does directly.
//
// Usage, see integration/scripts/public-suite.sh:
//
//	go run ./integration/publicsuite [-version 4.3] [-run REGEXP] TEST-BINARY FOLDER
//
// The tests are started in FOLDER and find the broker's URL in AMQP_URL. Environment: that of integration/rig.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/shardmq/shardmq/integration/rig"
)

// options are the command line.
type options struct {
	version, pattern string
	binary, folder   string
}

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "release of RabbitMQ to start")
	flag.StringVar(&o.pattern, "run", "", "only tests that match")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	o.binary, o.folder = flag.Arg(0), flag.Arg(1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := errors.Join(run(ctx, o), rig.Cleanup()); err != nil {
		fmt.Fprintln(os.Stderr, "publicsuite:", err)
		os.Exit(1)
	}
}

// run plays the suite every way, one after the other: its tests share names.
func run(ctx context.Context, o options) error {
	node, err := start(ctx, o.version)
	if err != nil {
		return err
	}
	bare, err := rig.StartProxy(ctx, rig.ProxyOptions{Upstream: node.URL})
	if err != nil {
		return err
	}
	sharded, err := rig.StartProxy(ctx, rig.ProxyOptions{Upstream: node.URL, Shards: map[string]int{"images": 4}})
	if err != nil {
		return err
	}
	var ways []way
	for _, w := range []way{{name: "directly", url: node.URL}, {name: "no shard", url: bare.URL}, {name: "sharded", url: sharded.URL}} {
		fmt.Printf("== %s\n", w.name)
		if w.results, err = play(ctx, o, w.url); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		ways = append(ways, w)
	}
	return compare(os.Stdout, ways)
}

// management is where the suite asks for connections by name and closes them, whatever AMQP_URL says.
const management = "127.0.0.1:15672"

// start is rig.Broker, or a node of the release that is asked for. One of our own has the management API where the suite looks for it,
// unless somebody else is there: without it some tests fail, every way.
func start(ctx context.Context, version string) (*rig.Node, error) {
	if os.Getenv("AMQP_URL") != "" && version == "" {
		return rig.Broker(ctx)
	}
	o := rig.NodeOptions{Version: version}
	l, err := net.Listen("tcp", management)
	if err != nil {
		fmt.Printf("no management API for the tests that want one: %v\n", err)
		return rig.StartNode(ctx, o)
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(management)
	o.Plugins = []string{"rabbitmq_management"}
	o.Config = fmt.Sprintf("management.tcp.ip = %s\nmanagement.tcp.port = %s\ncollect_statistics_interval = 1000\n", host, port)
	return rig.StartNode(ctx, o)
}
