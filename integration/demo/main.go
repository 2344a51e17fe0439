// Command demo shows shardmq at work: it starts a RabbitMQ (or uses the one AMQP_URL names), puts shardmq in front of
// it, publishes to a sharded exchange, consumes everything from the pseudo-queue of the same name, and prints what
// went where. It exits with 0 only if every message arrived exactly once and every routing key stayed on one shard.
//
// Usage:
//
//	go run ./integration/demo [-exchange images] [-shards 4] [-messages 10000] [-keys 1000] [-consumers 2]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/shardmq/shardmq/integration/rig"
)

// options are the command line.
type options struct {
	exchange  string
	shards    int
	messages  int
	keys      int
	consumers int
}

func main() {
	var o options
	flag.StringVar(&o.exchange, "exchange", "images", "name of the sharded exchange")
	flag.IntVar(&o.shards, "shards", 4, "shards of the exchange")
	flag.IntVar(&o.messages, "messages", 10_000, "messages to publish")
	flag.IntVar(&o.keys, "keys", 1000, "different routing keys")
	flag.IntVar(&o.consumers, "consumers", 2, "consumers on the pseudo-queue")
	flag.Parse()
	if o.exchange == "" || min(o.shards, o.messages, o.keys, o.consumers) < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "demo: -exchange must not be empty, the numbers must be 1 or more, and there are no other arguments")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o, newScreen(os.Stdout))
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = errors.New("interrupted")
	}
	if err := errors.Join(err, rig.Cleanup()); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}
