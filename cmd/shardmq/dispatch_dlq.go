package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/admin/inventory"
)

// dlqListCmd is "shardmq dispatch dlq list".
type dlqListCmd struct {
	jobFlags
	ID     string `name:"id" placeholder:"ID" help:"Only that with this id."`
	Limit  int    `default:"100" placeholder:"N" help:"How many at most, up to 1000. (default: ${default})"`
	Bodies bool   `help:"With their bodies, of each the first 64 KiB, in base64. Takes --output json."`
	Output string `default:"table" enum:"table,json" help:"table or json. (default: ${default})"`
}

// Run prints the dead letters. They stay where they are.
func (c *dlqListCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit: is %d; give a number from 1 to 1000", c.Limit)
	}
	if c.Bodies && c.Output != "json" {
		return usagef("--bodies: takes --output json; add it, or leave --bodies out")
	}
	asked, err := c.client(true)
	if err != nil {
		return err
	}
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}, "bodies": {strconv.FormatBool(c.Bodies)}}
	if c.ID != "" {
		q.Set("id", c.ID)
	}
	var all admin.Letters
	if err := asked.get(ctx, jobPath(c.Job, "dead")+"?"+q.Encode(), &all); err != nil {
		return err
	}
	if c.Output == "json" {
		return inventory.WriteJSON(a.stdout, all)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tFAILED\tATTEMPTS\tCLASS\tSTATUS\tOCTETS\tREASON")
	for _, l := range all.Letters {
		status := "-"
		if l.Status != 0 {
			status = strconv.Itoa(l.Status)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", printed(l.ID), l.Failed.Local().Format(time.DateTime), l.Attempts, printed(l.Class), status, l.Octets, printed(l.Reason))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the dead letters: %w", err)
	}
	if all.More {
		fmt.Fprintf(a.stderr, "there are more than these %d; see --limit\n", len(all.Letters))
	}
	return nil
}

// dlqFlags say which dead letters are meant.
type dlqFlags struct {
	jobFlags
	ID  string `name:"id" placeholder:"ID" help:"The oldest with this id, as the list shows it."`
	All bool   `help:"All of them."`
}

// settle has dead letters replayed or dropped.
func (f *dlqFlags) settle(ctx context.Context, a *app, action, done string) error {
	if (f.ID == "") != f.All {
		return usagef("say which dead letters are meant: --id ID or --all")
	}
	c, err := f.client(true)
	if err != nil {
		return err
	}
	ask := map[string]any{"id": f.ID}
	if f.All {
		ask = map[string]any{"all": true}
	}
	total := 0
	for more := true; more; { // a process does what it can in half a minute
		var settled admin.Settled
		if err := c.post(ctx, jobPath(f.Job, "dead", action), ask, &settled); err != nil {
			if total > 0 {
				return fmt.Errorf("after %s: %w", count(total, "dead letter", "dead letters"), err)
			}
			return err
		}
		total += settled.Letters
		more = settled.More
	}
	fmt.Fprintf(a.stdout, "%s: %s %s\n", printed(f.Job), count(total, "dead letter", "dead letters"), done)
	return nil
}

// dlqReplayCmd is "shardmq dispatch dlq replay".
type dlqReplayCmd struct{ dlqFlags }

// Run puts dead letters back.
func (c *dlqReplayCmd) Run(ctx context.Context, a *app) error {
	return c.settle(ctx, a, "replay", "replayed")
}

// dlqDropCmd is "shardmq dispatch dlq drop".
type dlqDropCmd struct{ dlqFlags }

// Run deletes dead letters.
func (c *dlqDropCmd) Run(ctx context.Context, a *app) error {
	return c.settle(ctx, a, "drop", "dropped")
}
