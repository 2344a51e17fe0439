package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
	"github.com/shardmq/shardmq/integration/rig"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == relayCommand { // started by startRelay
		fail(relay(os.Args[2]))
		return
	}
	code := m.Run()
	if err := rig.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Every workload goes through every contestant, and every message is accounted for.
func TestRunsEverything(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), options{rounds: 1, messages: 120_000, only: regexp.MustCompile(".")}, &out))
	t.Log("\n" + out.String())
	for _, w := range workloads(1000) {
		require.Contains(t, out.String(), w.name)
	}
	rows := regexp.MustCompile(`(?m)^.{24}shardmq `).FindAllString(out.String(), -1)
	require.Len(t, rows, len(workloads(1000)), "one for each workload")
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
	require.NoError(t, cl.Publish(batch(shardedExchange, small), 1000))
	require.ErrorContains(t, tally.Await(t.Context(), 1000), "shard keys []")
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

func TestReport(t *testing.T) {
	all := []contestant{{name: direct}, {name: haproxy, pid: 1}, {name: shardmq, pid: 2}}
	todo := []workload{{name: "publish"}}
	got := results{"publish": {
		direct:  {{4e6, 0, 1e6}, {6e6, 0, 1e6}, {5e6, 0, 1e6}},
		haproxy: {{2e6, 0.1, 1e6}, {2e6, 0.2, 1e6}, {1e6, 0.3, 1e6}},
		shardmq: {{1e6, 0.2, 1e6}, {2e6, 0.2, 1e6}, {3e6, 0.2, 1e6}},
	}}
	var out bytes.Buffer
	require.NoError(t, report(&out, options{rounds: 3}, all, todo, []string{"a note"}, got))
	lines := strings.Split(out.String(), "\n")
	require.Contains(t, lines[0], "3 interleaved rounds")
	require.Equal(t, `
                                               ratio to                     CPU s /
workload                through       M msg/s   haproxy  lowest .. highest   M msgs

publish                 direct          5.000      3.00       2.00 .. 5.00        -
                        haproxy         2.000      1.00       1.00 .. 1.00    0.200
                        shardmq         2.000      1.00       0.50 .. 3.00    0.200
`, strings.Join(lines[1:9], "\n"))
	require.Contains(t, out.String(), "Note: a note")

	for _, c := range []struct {
		want    float64
		numbers []float64
	}{{2, []float64{3, 1, 2}}, {2.5, []float64{4, 1, 2, 3}}, {7, []float64{7}}} {
		require.InDelta(t, c.want, median(c.numbers), 0)
	}
}
