// Command bench measures what a proxy costs: shardmq beside plain TCP relays and other proxies, in the same run.
//
// A broker stand-in that discards everything and a client that sends pre-encoded messages leave the proxy as the
// slowest part. All contestants meet every workload in every round, in an order that rotates, so that whatever else
// the machine does hits them alike; what counts are the ratios within a round, not the absolute numbers.
//
// Beside throughput it measures connections opened and closed, calls while another connection floods, memory and CPU time
// of idle connections, memory of stuck ones, latency through a real RabbitMQ, and shardmq beside RabbitMQ's own plugin. With -plot it draws throughput against body size and number of
// connections; with -growth it measures how the cost of a message grows with shards, policies, channels, connections
// and headers. A contestant that is not installed is left out, which the report says.
//
// Usage:
//
//	go run ./integration/bench [-rounds 7] [-messages 5000000] [-only REGEXP] [-markdown FILE] [-plot[=FILE]] [-growth]
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
	only     *regexp.Regexp // names of the workloads to run
	markdown string         // file for the report; "": none
	plot     plotFlag       // file for the picture; "": none
	growth   bool
	cold     bool // no round to warm up
	scale    scale
}

// plotFlag is the name of a file, which has a default once the flag is given.
type plotFlag string

// String implements flag.Value.
func (f *plotFlag) String() string { return string(*f) }

// IsBoolFlag has the flag package take the flag without a value.
func (f *plotFlag) IsBoolFlag() bool { return true }

// Set implements flag.Value.
func (f *plotFlag) Set(file string) error {
	switch file {
	case "true": // given without a value
		file = "docs/performance.svg"
	case "false":
		file = ""
	}
	*f = plotFlag(file)
	return nil
}

func main() {
	if known, err := subcommand(os.Args[1:]); known {
		fail(err)
		return
	}
	o, err := parse(flag.CommandLine, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		flag.Usage()
		os.Exit(2)
	}
	fail(raiseLimit())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(errors.Join(run(ctx, o, os.Stdout), rig.Cleanup()))
}

// parse reads the command line.
func parse(flags *flag.FlagSet, args []string) (options, error) {
	o := options{scale: fullScale}
	flags.IntVar(&o.rounds, "rounds", 7, "how often to measure everything")
	flags.IntVar(&o.scale.messages, "messages", fullScale.messages, "messages of 16 octets in one measurement")
	flags.StringVar(&o.markdown, "markdown", "", "write the report to this file as well, in Markdown")
	flags.Var(&o.plot, "plot", "measure against body size and number of connections, too, and draw that into this file (docs/performance.svg without =FILE)")
	flags.BoolVar(&o.growth, "growth", false, "measure how the CPU time for a message grows with shards, policies, channels, connections and headers, too")
	only := flags.String("only", ".", "run only workloads whose name matches this regular expression")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	switch {
	case o.rounds < 1:
		return o, errors.New("-rounds takes 1 or more")
	case o.scale.messages < 1000:
		return o, errors.New("-messages takes 1000 or more")
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	return o, nil
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
