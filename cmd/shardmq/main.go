// Command shardmq is an AMQP 0-9-1 proxy that gives any RabbitMQ sharded
// exchanges and one logical queue over many shard queues.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/proxy"
)

// Exit codes. A program that starts shardmq can tell a mistake in its
// configuration, which a restart does not cure, from a failure that it may.
const (
	exitOK    = 0
	exitError = 1 // failed while running, or found something
	exitUsage = 2 // bad flags, bad configuration, an address that is taken
)

// cli is the command line.
type cli struct {
	Proxy  proxyCmd `cmd:"" help:"Run the proxy: clients connect to it instead of to RabbitMQ."`
	Config struct {
		Check checkCmd `cmd:"" help:"Check configuration files and report every problem with its line."`
	} `cmd:"" help:"Work with configuration files."`
	Shards struct {
		List  shardsListCmd  `cmd:"" help:"List the shards there are, with their messages and consumers. No proxy needs to run."`
		Prune shardsPruneCmd `cmd:"" help:"Say which surplus shards can be deleted, and delete them with --yes."`
	} `cmd:"" help:"Look at shards at the broker, and clean up."`
	Dispatch    dispatchCmds   `cmd:"" help:"Hand jobs from queues to HTTP endpoints."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask a running proxy whether it is alive, for container health checks."`
	Version     versionCmd     `cmd:"" help:"Print the version."`

	// What everybody tries first.
	VersionFlag kong.VersionFlag `name:"version" help:"Print the version."`
}

// app is what a command gets from the outside, so that tests can stand in for it.
type app struct {
	stdout, stderr io.Writer
	run            func(context.Context, proxy.Options) error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal begins an orderly stop; from then on the default action
	// is back, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	a := &app{stdout: os.Stdout, stderr: os.Stderr, run: proxy.Run}
	os.Exit(a.main(ctx, os.Args[1:]))
}

// usageError is a mistake of whoever wrote the command line or the file. It
// may have several lines, one per problem.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// helped is thrown when help or the version was printed: kong would go on parsing otherwise.
type helped struct{}

// main runs the command line and returns the exit code.
func (a *app) main(ctx context.Context, args []string) int {
	if len(args) == 0 { // show what there is, but as the mistake it is
		_ = a.parse(ctx, &cli{}, a.stderr, []string{"--help"})
		return exitUsage
	}
	err := a.parse(ctx, &cli{}, a.stdout, args)
	if err == nil {
		return exitOK
	}
	return a.report(err)
}

// report prints what went wrong, with the remedy, and returns the exit code.
func (a *app) report(err error) int {
	if _, ok := errors.AsType[config.Problems](err); ok { // "file:line: ..." first, where editors look for it
		fmt.Fprintln(a.stderr, err)
		return exitUsage
	}
	if listen, ok := errors.AsType[*proxy.ListenError](err); ok {
		fmt.Fprintf(a.stderr, "shardmq: cannot listen on %s: %v; %s (--listen or --admin, or listeners[].address or admin.address in the file)\n",
			listen.Address, listenCause(listen.Err), listenRemedy(listen.Err))
		return exitUsage
	}
	if errors.Is(err, errFindings) {
		return exitError // they have been printed
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(a.stderr, "shardmq: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitError
}

// listenCause leaves out what net says around the cause: the address again.
func listenCause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

func listenRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop whatever listens there, or choose another address"
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 take a privilege; choose a higher port"
	}
	return "choose an address of this machine"
}

func (a *app) parse(ctx context.Context, c *cli, stdout io.Writer, args []string) (err error) {
	parser, err := kong.New(c,
		kong.Name("shardmq"),
		kong.Description("Sharded exchanges and queues for any RabbitMQ, without a plugin."),
		kong.Vars{"listen": config.DefaultListen, "upstream": defaultUpstream, "admin": config.AdminExample, "version": versionLine()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(stdout, a.stderr),
		kong.Exit(func(int) { panic(helped{}) }), //nolint:forbidigo // the only way out of kong's parser after --help
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(a),
	)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(helped); !ok {
				panic(r) //nolint:forbidigo // not ours: pass it on
			}
		}
	}()
	command, err := parser.Parse(args)
	if err != nil {
		return usagef("%w\nrun \"shardmq --help\" or \"shardmq COMMAND --help\" to see what there is", err)
	}
	return command.Run()
}
