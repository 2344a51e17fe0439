package router_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// TestTranscripts plays testdata/*.txtar: events, and below each, indented, what the router decided. testdata/README.md
// describes the language; go test -run Transcripts ./router -rewrite writes the decisions anew.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { playFile(t, file) })
	}
}

func playFile(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	require.NoError(t, err)
	setup := ""
	for i, part := range archive.Files {
		if part.Name == "setup" {
			setup = string(part.Data)
			continue
		}
		t.Run(part.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // so that a script can let time pass
				p := newPlayer(t, setup)
				got := p.play(string(part.Data))
				if *rewrite {
					archive.Files[i].Data = []byte(got)
				} else if diff := cmp.Diff(strings.Split(string(part.Data), "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("decisions differ (-want +got):\n%s", diff)
				}
			})
		})
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
	}
}

// player turns events in text form into calls, and what comes of them into text.
type player struct {
	rig
	t       *testing.T
	short   short
	now     frames.Frame // what the event brings
	mu      sync.Mutex   // out and moves: targets are told from elsewhere
	out     strings.Builder
	asks    []router.Ask // by number, from 1
	open    []int        // numbers not yet answered
	moves   []func()     // targets not yet told
	members []*shards.Member
	others  []*shards.Member
	version uint64 // of targets that no group has made
}

func newPlayer(t *testing.T, setup string) *player {
	p := &player{t: t, rig: rig{cluster: newCluster()}}
	var nodes, exchanges, resolve, set []string
	var policies []*shards.Policy
	perNode := map[string]int{}
	capabilities, channels, raw := "consumer_cancel_notify=true connection.blocked=true", 2, false
	for line := range strings.Lines(setup) {
		w := words(strings.TrimSpace(line))
		if len(w) == 0 {
			continue
		}
		switch w[0] {
		case "node":
			nodes = append(nodes, w[1])
		case "version":
			p.cluster.version = w[1]
		case "policy": // policy PATTERN KEY=VALUE...
			policy, literal := parsePolicy(t, w[1], w[2:])
			policies = append(policies, policy)
			exchanges = append(exchanges, literal)
			perNode[literal] = policy.Definition.ShardsPerNode
			for _, f := range w[2:] {
				if most, ok := strings.CutPrefix(f, "upto="); ok {
					perNode[literal] = p.number(most)
				}
			}
		case "set":
			set = append(set, line)
		case "resolve":
			resolve = append(resolve, w[1:]...)
		case "capabilities":
			capabilities = strings.Join(w[1:], " ")
		case "raw":
			raw = true
		default:
			t.Fatalf("setup: %q", line)
		}
	}
	if nodes == nil {
		nodes = []string{"rabbit@a"}
	}
	p.short = newShort(exchanges, nodes, perNode)
	for _, line := range set {
		p.set(words(p.short.read.Replace(strings.TrimSpace(line)))[1:])
	}
	p.start(t, nodes, policies)
	p.up = func(f frames.Frame) { p.print("up   " + p.frame(f)) }
	p.down = func(f frames.Frame) { p.print("down " + p.frame(f)) }
	p.asked, p.told = p.printAsk, p.report
	p.retarget = func(channel uint16, consumer uint64, to shards.Target) {
		p.print(fmt.Sprintf("target consumer=%d version=%d %s", consumer, to.Version, names(to.Shards)))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.moves = append(p.moves, func() { p.conn.Retarget(channel, consumer, to) })
	}
	for _, name := range resolve {
		_, err := p.topo.Resolve(t.Context(), p.exchange(name), true)
		require.NoError(t, err)
	}
	if !raw {
		p.handshake(capabilities, channels)
	}
	return p
}

func parsePolicy(t *testing.T, pattern string, fields []string) (*shards.Policy, string) {
	d := shards.Definition{ShardsPerNode: 2}
	literal := strings.Trim(pattern, "^$")
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		var err error
		switch key {
		case "shards":
			d.ShardsPerNode, err = strconv.Atoi(value)
		case "hash":
			d.Hash, err = shards.ParseHash(value)
		case "consumers":
			d.Consumers, err = shards.ParseConsumerMode(value)
		case "exchange-type":
			d.ExchangeType = value
		case "routing-key":
			d.RoutingKey = value
		case "fed-by":
			d.FedBy = strings.Split(value, ",")
		case "ordered":
			d.Ordered = true
		case "barrier":
			d.Ordered, d.Barrier = true, true
		case "upto": // shards after a reload, for short names
		case "hash-on":
			d.HashOn = hashOn(value)
		case "exchange": // an exchange that the pattern matches, for short names
			literal = value
		default:
			t.Fatalf("policy field %q", f)
		}
		require.NoError(t, err)
	}
	policy, err := shards.NewPolicy("p-"+literal, "/", pattern, 0, d)
	require.NoError(t, err)
	return policy, literal
}

// hashOn is header:NAME, message-id, correlation-id, or an expression for a part of the routing key.
func hashOn(s string) shards.HashOn {
	switch name, isHeader := strings.CutPrefix(s, "header:"); {
	case isHeader:
		return shards.HashOn{Source: shards.OnHeader, Header: name}
	case s == "message-id":
		return shards.HashOn{Source: shards.OnMessageID}
	case s == "correlation-id":
		return shards.HashOn{Source: shards.OnCorrelationID}
	}
	return shards.HashOn{Source: shards.OnCapture, Re: regexp.MustCompile(s)}
}

func names(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = textOf(s)
	}
	return "[" + strings.Join(quoted, " ") + "]"
}

// frame is a frame in text form, shortened when it goes on as it came.
func (p *player) frame(f frames.Frame) string {
	if bytes.Equal(f, p.now) {
		return "as it came"
	}
	return frameText(f)
}

// print adds a line of decisions.
func (p *player) print(s string) { p.write("    " + p.short.write.Replace(s) + "\n") }

func (p *player) write(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.WriteString(s)
}

// play runs a script: event lines as they stand, their decisions written anew below them.
func (p *player) play(script string) string {
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		p.write(line)
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			p.event(words(p.short.read.Replace(line)))
			synctest.Wait() // what the event set going elsewhere is written below it, however quick that is
		}
	}
	return p.out.String()
}

func (p *player) number(s string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "#"))
	require.NoError(p.t, err)
	return n
}
