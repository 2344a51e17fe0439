package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shardmq/shardmq/config"
)

// checkCmd is "shardmq config check".
type checkCmd struct {
	Files []string `arg:"" name:"file" help:"Files to check."`
}

// Run checks every file. It reads them as "shardmq proxy" does, environment
// variables included, but connects to nothing.
func (c *checkCmd) Run(a *app) error {
	var bad problems
	for _, file := range c.Files {
		cfg, err := config.Load(file)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		for _, w := range cfg.Warnings {
			fmt.Fprintln(a.stderr, w.String()+" (warning)")
		}
		if cfg.CheckProxy(file) != nil { // then it has jobs
			fmt.Fprintf(a.stdout, "%s: ok: %s\n", file, jobs(cfg))
			continue
		}
		nodes := count(len(cfg.Upstream.Nodes), "node", "nodes")
		if cfg.Upstream.Discovery != nil {
			nodes += " and those that discovery finds"
		}
		found := []string{count(len(cfg.Listeners), "listener", "listeners"), nodes, count(len(cfg.Policies), "policy", "policies")}
		if cfg.Dispatch != nil {
			found = append(found, jobs(cfg))
		}
		fmt.Fprintf(a.stdout, "%s: ok: %s\n", file, strings.Join(found, ", "))
	}
	return errors.Join(bad...)
}

// jobs is of a configuration with a section dispatch.
func jobs(cfg *config.Config) string { return count(len(cfg.Dispatch.Jobs), "job", "jobs") }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
