package main

import (
	"errors"
	"fmt"

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
		nodes := count(len(cfg.Upstream.Nodes), "node", "nodes")
		if cfg.Upstream.Discovery != nil {
			nodes += " and those that discovery finds"
		}
		for _, w := range cfg.Warnings {
			fmt.Fprintln(a.stderr, w.String()+" (warning)")
		}
		fmt.Fprintf(a.stdout, "%s: ok: %s, %s, %s\n", file, count(len(cfg.Listeners), "listener", "listeners"),
			nodes, count(len(cfg.Policies), "policy", "policies"))
	}
	return errors.Join(bad...)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
