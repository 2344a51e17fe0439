package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/admin/inventory"
	"github.com/shardmq/shardmq/dispatch"
)

// dispatchSteerCmds are the commands of "shardmq dispatch" that ask a running process.
type dispatchSteerCmds struct {
	Jobs   dispatchJobsCmd   `cmd:"" help:"List the jobs of a running process, and how they stand."`
	Scale  dispatchScaleCmd  `cmd:"" help:"Set the number of a job's executors."`
	Pause  dispatchPauseCmd  `cmd:"" help:"Stop fetching a job. Requests in flight are finished, the rest goes back to the queue."`
	Resume dispatchResumeCmd `cmd:"" help:"Go on with a paused job."`
	Drain  dispatchDrainCmd  `cmd:"" help:"Pause a job, and wait until nothing of it is in flight."`
	Purge  dispatchPurgeCmd  `cmd:"" help:"Delete all that waits in a job's queue and for its retries. Dead letters stay."`
	Dlq    struct {
		List   dlqListCmd   `cmd:"" help:"List a job's dead letters, the oldest first."`
		Replay dlqReplayCmd `cmd:"" help:"Put dead letters back into the job's queue, as if they were new."`
		Drop   dlqDropCmd   `cmd:"" help:"Delete dead letters."`
	} `cmd:"" help:"Work with a job's dead letters."`
}

// jobFlags name a job of a process.
type jobFlags struct {
	adminFlags
	Job string `arg:"" help:"The job's name, or SERVER/NAME where several servers have one of that name."`
}

// act asks for something to be done with the job, and returns how it then stands.
func (f *jobFlags) act(ctx context.Context, action string, ask any) (j admin.Job, err error) {
	c, err := f.client(true)
	if err != nil {
		return j, err
	}
	return j, c.post(ctx, jobPath(f.Job, action), ask, &j)
}

// dispatchJobsCmd is "shardmq dispatch jobs".
type dispatchJobsCmd struct {
	adminFlags
	Output string `default:"table" enum:"table,json" help:"table or json. (default: ${default})"`
}

// Run prints how the jobs stand.
func (c *dispatchJobsCmd) Run(ctx context.Context, a *app) error {
	asked, err := c.client(false)
	if err != nil {
		return err
	}
	var all struct {
		Jobs []admin.Job `json:"jobs"`
	}
	if err := asked.get(ctx, "jobs", &all); err != nil {
		return err
	}
	if c.Output == "json" {
		return inventory.WriteJSON(a.stdout, all)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tSERVER\tSTATE\tEXECUTORS\tIN FLIGHT\tBACKLOG\tDONE\tRETRIED\tDROPPED\tDEAD\tP50\tP95\tP99")
	for i := range all.Jobs {
		j := &all.Jobs[i]
		backlog := "?"
		if j.Backlog != nil {
			backlog = fmt.Sprint(*j.Backlog)
		}
		executors := fmt.Sprint(j.Executors)
		if j.Executors != j.Wanted {
			executors = fmt.Sprintf("%d of %d", j.Executors, j.Wanted)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", printed(j.Name), printed(j.Server), state(j), executors, j.InFlight,
			backlog, j.Done, j.Retried, j.Dropped, j.Dead, seconds(j.P50), seconds(j.P95), seconds(j.P99))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the jobs: %w", err)
	}
	return nil
}

// state says in words how a job stands.
func state(j *admin.Job) string {
	switch {
	case !j.Connected:
		return "not connected"
	case j.Paused:
		return "paused"
	case j.Breaker == "open":
		return "breaker open"
	case j.Held != nil:
		return "held until " + j.Held.Local().Format(time.TimeOnly)
	case j.Breaker == "half-open":
		return "breaker half-open"
	}
	return "running"
}

func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	d := time.Duration(s * float64(time.Second))
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// dispatchScaleCmd is "shardmq dispatch scale".
type dispatchScaleCmd struct {
	jobFlags
	Executors int `arg:"" name:"n" help:"How many executors the job is to have."`
}

// Run sets the number of executors.
func (c *dispatchScaleCmd) Run(ctx context.Context, a *app) error {
	if c.Executors < 0 || c.Executors > dispatch.MaxExecutors {
		return usagef("N: is %d; give a number from 0 to %d", c.Executors, dispatch.MaxExecutors)
	}
	j, err := c.act(ctx, "scale", map[string]int{"executors": c.Executors})
	if err == nil {
		fmt.Fprintf(a.stdout, "%s: %s\n", printed(j.Name), count(j.Wanted, "executor", "executors"))
	}
	return err
}

// dispatchPauseCmd is "shardmq dispatch pause".
type dispatchPauseCmd struct{ jobFlags }

// Run pauses the job.
func (c *dispatchPauseCmd) Run(ctx context.Context, a *app) error {
	j, err := c.act(ctx, "pause", nil)
	if err == nil {
		fmt.Fprintf(a.stdout, "%s: paused, with %d in flight\n", printed(j.Name), j.InFlight)
	}
	return err
}

// dispatchResumeCmd is "shardmq dispatch resume".
type dispatchResumeCmd struct{ jobFlags }

// Run resumes the job.
func (c *dispatchResumeCmd) Run(ctx context.Context, a *app) error {
	j, err := c.act(ctx, "resume", nil)
	if err == nil {
		fmt.Fprintf(a.stdout, "%s: resumed with %s\n", printed(j.Name), count(j.Wanted, "executor", "executors"))
	}
	return err
}

// dispatchDrainCmd is "shardmq dispatch drain".
type dispatchDrainCmd struct {
	jobFlags
	Timeout time.Duration `default:"5m" placeholder:"DURATION" help:"How long to wait. The job stays paused in any case. (default: ${default})"`
}

// Run pauses the job, and waits.
func (c *dispatchDrainCmd) Run(ctx context.Context, a *app) error {
	if c.Timeout <= 0 {
		return usagef("--timeout: is %s; give a duration above zero, such as 30s", c.Timeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%s: not drained within %s; it is paused, see: shardmq dispatch jobs", printed(c.Job), c.Timeout))
	defer cancel()
	for {
		j, err := c.act(ctx, "drain", nil)
		if problem, ok := errors.AsType[*admin.Problem](err); ok && problem.Status == http.StatusGatewayTimeout && ctx.Err() == nil {
			continue // it waits for a while only
		}
		if err == nil {
			fmt.Fprintf(a.stdout, "%s: drained and paused\n", printed(j.Name))
		}
		return err
	}
}

// dispatchPurgeCmd is "shardmq dispatch purge".
type dispatchPurgeCmd struct {
	jobFlags
	Yes bool `help:"Yes, all of them are to be gone for good."`
}

// Run purges the job's queues.
func (c *dispatchPurgeCmd) Run(ctx context.Context, a *app) error {
	if !c.Yes {
		return usagef("all that waits of %s would be gone for good; add --yes if that is meant", printed(c.Job))
	}
	asked, err := c.client(true)
	if err != nil {
		return err
	}
	var gone struct {
		Purged int `json:"purged"`
	}
	if err := asked.post(ctx, jobPath(c.Job, "purge"), map[string]bool{"yes": true}, &gone); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: %s purged\n", printed(c.Job), count(gone.Purged, "job", "jobs"))
	return nil
}
