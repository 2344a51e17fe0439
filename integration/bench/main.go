// Command bench measures how many messages a second go through shardmq, beside a plain TCP relay in the same run.
//
// A broker stand-in that discards everything and a client that sends pre-encoded messages leave the proxy as the
// slowest part. All contestants meet every workload in every round, in an order that rotates, so that whatever else
// the machine does hits them alike; what counts are the ratios within a round, not the absolute numbers.
//
// Usage:
//
//	go run ./integration/bench [-rounds 5] [-messages 5000000] [-only REGEXP]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/shardmq/shardmq/integration/rig"
)

// options are the command line.
type options struct {
	rounds   int
	messages int            // of 16 octets in one measurement; of larger ones there are fewer
	only     *regexp.Regexp // names of the workloads to run
}

func main() {
	// The Go relay among the contestants is this program under another name: it has to be a process of its own for
	// its CPU time to be read.
	if len(os.Args) == 3 && os.Args[1] == relayCommand {
		fail(relay(os.Args[2]))
		return
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often to measure everything")
	flag.IntVar(&o.messages, "messages", 5_000_000, "messages of 16 octets in one measurement")
	only := flag.String("only", ".", "run only workloads whose name matches this regular expression")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*only); err != nil || o.rounds < 1 || o.messages < 1000 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "bench: -only takes a regular expression, -rounds 1 or more, -messages 1000 or more; no further arguments")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(errors.Join(run(ctx, o, os.Stdout), rig.Cleanup()))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
