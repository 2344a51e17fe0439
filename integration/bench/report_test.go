package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func made(values [][]float64, cpu float64) map[int]measurement {
	all := map[int]measurement{}
	for i, v := range values {
		all[i+1] = measurement{values: v, cpu: cpu, amount: 1e6}
	}
	return all
}

func TestReport(t *testing.T) {
	w := workload{name: "publish", each: "message", cpu: bar{atMost: 0.5}, figures: []figure{
		{name: "publish", unit: "M msg/s", digits: 3, bar: bar{atLeast: 0.9}},
		{name: "memory", unit: "KiB", digits: 1, bar: bar{atMost: 10, absolute: true}},
	}}
	none := math.NaN()
	done := outcome{
		part: part{title: "somewhere", cpuOf: "proxy", workloads: []workload{w}, about: []string{"about it"}},
		place: place{reference: haproxy, notes: []string{"a note"}, all: []contestant{
			{name: direct}, {name: haproxy, pid: 1}, {name: shardmq, pid: 2},
		}},
		got: results{"publish": {
			direct:  made([][]float64{{4, none}, {6, none}, {5, none}}, 0),
			haproxy: made([][]float64{{2, 3}, {2, 5}, {1, 4}}, 0.2),
			shardmq: made([][]float64{{1, 8}, {2, 12}, {3, 9}}, 0.2),
		}},
	}
	file := filepath.Join(t.TempDir(), "report.md")
	var out strings.Builder
	require.NoError(t, publishReport(&out, options{rounds: 3, markdown: file}, []outcome{done}))
	lines := strings.Split(out.String(), "\n")
	require.Contains(t, lines[0], "3 interleaved rounds")
	require.Equal(t, `
== somewhere

                                                                              ratio to                        proxy's
measured                                   through                             haproxy  lowest .. highest CPU us each

publish                                    direct         5.000 M msg/s           3.00       2.00 .. 5.00           -
                                           haproxy        2.000 M msg/s           1.00       1.00 .. 1.00       0.200
                                           shardmq        2.000 M msg/s           1.00       0.50 .. 3.00       0.200

memory                                     haproxy          4.0 KiB               1.00       1.00 .. 1.00           -
                                           shardmq          9.0 KiB               2.40       2.25 .. 2.67           -

Note: a note
Note: about it

== what shardmq is to reach

measured                                                                           shardmq                wanted   met
publish                                                                     1.00 x haproxy      >= 0.9 x haproxy   yes
memory                                                                            9.00 KiB             <= 10 KiB   yes
publish, proxy's CPU a message                                              1.00 x haproxy      <= 0.5 x haproxy    no
`, strings.Join(lines[1:], "\n"))

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, line := range []string{
		"| publish | 1.00 x haproxy | ≥ 0.9 x haproxy | yes |",
		"| publish, proxy's CPU a message | 1.00 x haproxy | ≤ 0.5 x haproxy | no |",
		"| publish | **shardmq** | 2.000 M msg/s | 1.00 | 0.50 .. 3.00 | 0.200 |",
		"| memory | haproxy | 4.0 KiB | 1.00 | 1.00 .. 1.00 | - |",
	} {
		require.Contains(t, strings.Split(string(text), "\n"), line)
	}

	done.reference = goCopy
	for _, v := range done.verdicts()[:1] {
		require.Equal(t, "-", v.met, "the bars are about HAProxy")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		want    float64
		numbers []float64
	}{{2, []float64{3, 1, 2}}, {2.5, []float64{4, 1, 2, 3}}, {7, []float64{7}}} {
		require.InDelta(t, c.want, median(c.numbers), 0)
	}
	require.True(t, math.IsNaN(median(nil)))
}

func TestNothingToDo(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), options{rounds: 1, scale: testScale, only: regexp.MustCompile("^none$")}, nil), "no workload")
}
