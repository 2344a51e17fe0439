package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
	"github.com/shardmq/shardmq/integration/rig"
)

func TestMain(m *testing.M) {
	if known, err := subcommand(os.Args[1:]); known { // started by startChild
		fail(err)
		return
	}
	code := m.Run()
	if err := rig.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// testScale is enough for every workload to do what it does.
var testScale = scale{messages: 120_000, opens: 40, crowd: [2]int{20, 60}, stuck: [2]int{10, 30}, paced: 50, calls: 200, queued: 2000, brokers: []string{""}}

// Every workload goes through every contestant, and every message is accounted for.
func TestRunsEverything(t *testing.T) {
	t.Parallel()
	for _, p := range parts(options{scale: testScale}) {
		t.Run(p.title, func(t *testing.T) {
			t.Parallel()
			names := make([]string, len(p.workloads))
			for i, w := range p.workloads {
				names[i] = regexp.QuoteMeta(w.name)
			}
			file := filepath.Join(t.TempDir(), "report.md")
			o := options{rounds: 1, cold: true, scale: testScale, markdown: file, only: regexp.MustCompile("^(" + strings.Join(names, "|") + ")$")}
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), o, &out))
			t.Log("\n" + out.String())
			written, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, w := range p.workloads {
				for _, f := range w.figures {
					require.Regexp(t, `(?m)^`+regexp.QuoteMeta(f.name)+` +[a-z]`, out.String())
					require.Contains(t, string(written), "| "+f.name+" | **shardmq** |")
				}
			}
		})
	}
}

// The smallest and the largest of what is drawn, and a message of everything that grows.
func TestPlotAndGrowth(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plot.svg")
	var out bytes.Buffer
	o := options{rounds: 1, cold: true, scale: testScale, plot: plotFlag(file), only: regexp.MustCompile("^plot, publish (0 B|64 KiB|1 KiB, connections: 64)$")}
	o.scale.messages = 4000
	require.NoError(t, run(t.Context(), o, &out))
	drawn, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(drawn), ">"+shardmq+"</text>")

	each, err := load{shards: 10, policies: 10, channels: 16, connections: 5, headers: 3}.cost(t.Context(), 100_000)
	require.NoError(t, err)
	require.Positive(t, each)
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-plot": "docs/performance.svg", "-plot=x.svg": "x.svg", "-plot=false": "", "-rounds 2": "",
	} {
		o, err := parse(flag.NewFlagSet("", flag.ContinueOnError), strings.Fields(args))
		require.NoError(t, err, args)
		require.Equal(t, plotFlag(want), o.plot, args)
	}
	for args, fault := range map[string]string{
		"-only (": "-only", "-rounds 0": "-rounds", "-messages 999": "-messages", "extra": "extra",
	} {
		_, err := parse(flag.NewFlagSet("", flag.ContinueOnError), strings.Fields(args))
		require.ErrorContains(t, err, fault, args)
	}
}

// A proxy that should have sharded and did not is found out.
func TestMissingShardKeysAreFoundOut(t *testing.T) {
	s, err := sink.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	cl, err := client.Dial(t.Context(), s.Addr())
	require.NoError(t, err)
	defer func() { _ = cl.Close() }() // the sink ends the connection
	tally := s.Count(shardedExchange, true)
	const n = 100 // in one write: the sink ends the connection at the first
	require.NoError(t, cl.Publish(batch(shardedExchange, small), n))
	require.ErrorContains(t, tally.Await(t.Context(), n), "shard keys []")
}

func TestParseStat(t *testing.T) {
	seconds, err := parseStat("12 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20")
	require.NoError(t, err)
	require.InDelta(t, 1.75, seconds, 1e-9)
	for _, bad := range []string{"12 (a) S 1 2", "12 (a) S 1 2 3 4 5 6 7 8 9 10 x 25 0"} {
		_, err := parseStat(bad)
		require.Error(t, err, bad)
	}
	for own := 0.0; own == 0; { // this loop itself uses CPU time
		own, err = cpuSeconds(os.Getpid())
		require.NoError(t, err)
	}
}

func TestParseStatus(t *testing.T) {
	kib, err := parseStatus("Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  1234 kB\nThreads:\t1\n")
	require.NoError(t, err)
	require.Equal(t, 1234, kib)
	for _, bad := range []string{"Name:\tx\n", "VmRSS:\t x kB\n"} {
		_, err := parseStatus(bad)
		require.Error(t, err, bad)
	}
	kib, err = residentKiB(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, kib)
	n, err := descriptors(os.Getpid())
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 3)
}
