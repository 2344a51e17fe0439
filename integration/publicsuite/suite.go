package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// patience is how long the suite may take one way, in all. It is generous: it is reached by a suite that hangs.
const patience = 30 * time.Minute

// way is how the suite reaches the broker.
type way struct {
	name, url string
	results   map[string]string // by test: PASS, FAIL or SKIP
}

var resultLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)

// play runs the tests and returns what became of each. That some fail is a result and no error.
func play(ctx context.Context, o options, url string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.binary, "-test.v", "-test.count=1", "-test.timeout="+patience.String(), "-test.run="+o.pattern)
	cmd.Dir, cmd.Env = o.folder, append(os.Environ(), "AMQP_URL="+url)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil { // killed: the rest did not run
		return nil, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if at := bytes.Index(out.Bytes(), []byte("\npanic: ")); at >= 0 { // that some tests did not run says nothing about them
		return nil, fmt.Errorf("the suite did not come to its end:%s", out.Bytes()[at:min(at+4000, out.Len())])
	}
	results := parse(bytes.NewReader(out.Bytes()))
	if len(results) == 0 {
		return nil, fmt.Errorf("no test ran: %w; it said:\n%s", err, out.String())
	}
	return results, nil
}

// parse reads the output of go test -v. A test that has begun and has no result counts as failed.
func parse(out io.Reader) map[string]string {
	results := map[string]string{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if name, begun := strings.CutPrefix(lines.Text(), "=== RUN   "); begun {
			results[name] = "FAIL"
		}
		if m := resultLine.FindStringSubmatch(lines.Text()); m != nil {
			results[m[2]] = m[1]
		}
	}
	return results
}

// compare lists what did not pass, and what differs from the first way, which is an error.
func compare(w io.Writer, ways []way) error {
	names := map[string]bool{}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, each := range ways {
		count := map[string]int{}
		for name, result := range each.results {
			names[name] = true
			count[result]++
		}
		fmt.Fprintf(table, "%s:\t%d passed\t%d failed\t%d skipped\n", each.name, count["PASS"], count["FAIL"], count["SKIP"])
	}
	var differing []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		row, worth := name, false
		for _, each := range ways {
			result := each.results[name]
			row += "\t" + result
			worth = worth || result != "PASS"
			if result != ways[0].results[name] {
				differing = append(differing, name)
			}
		}
		if worth {
			fmt.Fprintln(table, row)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(differing) > 0 {
		return fmt.Errorf("these differ: %s", strings.Join(slices.Compact(differing), ", "))
	}
	return nil
}
