package main

import (
	"fmt"
	"net/url"
	"text/tabwriter"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/dispatch"
)

// dispatchCmds are the commands of "shardmq dispatch".
type dispatchCmds struct {
	Run      dispatchRunCmd      `cmd:"" help:"Hand queued jobs to HTTP endpoints."`
	Import   dispatchImportCmd   `cmd:"" help:"Write a configuration from the job.xml of Consumer Dispatcher."`
	Validate dispatchValidateCmd `cmd:"" help:"Check the jobs of a configuration file, and print them. Connects to nothing."`
	dispatchSteerCmds
}

// dispatchValidateCmd is "shardmq dispatch validate".
type dispatchValidateCmd struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"The YAML file with the section dispatch."`
}

// Run reads the file as "shardmq dispatch run" does, environment variables included.
func (c *dispatchValidateCmd) Run(a *app) error {
	cfg, err := loadJobs(c.Config)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(a.stderr, w.String()+" (warning)")
	}
	table := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tSERVER\tQUEUE\tEXECUTORS\tREQUEST\tTARGET")
	total := 0
	for _, j := range cfg.Dispatch.Jobs {
		total += j.Executors
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s %s\t%s\n", j.Name, j.Server.Name, j.Queue, executors(j), j.Target.Method, j.Target.Mode, shownURL(j.Target.URL))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the jobs: %w", err)
	}
	fmt.Fprintf(a.stdout, "%s: ok: %s with %s at the start\n", c.Config, jobs(cfg), count(total, "executor", "executors"))
	return nil
}

// loadJobs reads a configuration that has to have jobs.
func loadJobs(file string) (*config.Config, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	return cfg, checkJobs(file, cfg)
}

func checkJobs(file string, cfg *config.Config) error {
	if cfg.Dispatch == nil {
		return config.Problems{{File: file, Path: "dispatch", Text: "is missing; say which queues go to which endpoints, " +
			"or have it written from a job.xml: shardmq dispatch import job.xml"}}
	}
	return nil
}

// executors tells how many a job begins with, and what that may become.
func executors(j *dispatch.Job) string {
	switch {
	case j.Paused:
		return fmt.Sprintf("%d, paused", j.Executors)
	case j.Auto != nil:
		return fmt.Sprintf("%d to %d", j.Auto.Min, j.Auto.Max)
	}
	return fmt.Sprint(j.Executors)
}

// shownURL leaves out what may be a secret.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "-" // cannot be: it has been checked
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
