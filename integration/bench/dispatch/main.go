// Command dispatch measures how many jobs a second are handed to an HTTP endpoint that does nothing, by shardmq's dispatcher
// and by the least that does it at all: a loop that consumes, posts and acknowledges.
//
// Both run in this process, with the same broker and endpoint and as many requests at once. They take turns, in an order
// that changes with each round, so that whatever else the machine does hits them alike; what counts is the ratio within a
// round, not the absolute numbers.
//
// Usage:
//
//	go run ./integration/bench/dispatch [-rounds 5] [-jobs 20000] [-executors 64]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/integration/rig"
)

type options struct{ rounds, jobs, executors int }

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often to measure both")
	flag.IntVar(&o.jobs, "jobs", 20_000, "jobs in one measurement")
	flag.IntVar(&o.executors, "executors", 64, "requests at once")
	flag.Parse()
	if o.rounds < 1 || o.jobs < 1 || o.executors < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "dispatch: numbers are 1 or more; there are no further arguments")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := errors.Join(run(ctx, o, os.Stdout), rig.Cleanup()); err != nil {
		fmt.Fprintln(os.Stderr, "dispatch:", err)
		os.Exit(1)
	}
}

// patience is how long one measurement may take before the run is given up: something has stopped.
const patience = 5 * time.Minute

// run measures everything and prints a line for each round.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	broker, err := rig.Broker(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	e, err := listen()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	conn, err := amqp.Dial(broker.URL)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(out, "%d no-op jobs, %d at once, jobs/s:\n%-8s%12s%12s%8s\n", o.jobs, o.executors, "round", "bare loop", "shardmq", "ratio")
	both := []contestant{bare, pool}
	var ratios []float64
	for round := range o.rounds + 1 { // the first warms up
		var rates [2]float64
		for i := range both {
			i = (i + round) % 2
			queue := fmt.Sprintf("bench-%d-%d", round, i)
			if rates[i], err = measure(ctx, conn, both[i], task{broker.URL, queue, e, o}); err != nil {
				return err
			}
		}
		if round > 0 {
			ratios = append(ratios, rates[1]/rates[0])
			fmt.Fprintf(out, "%-8d%12.0f%12.0f%8.2f\n", round, rates[0], rates[1], ratios[round-1])
		}
	}
	slices.Sort(ratios)
	fmt.Fprintf(out, "%-32s%8.2f (%.2f .. %.2f)\n", "median", (ratios[(len(ratios)-1)/2]+ratios[len(ratios)/2])/2, ratios[0], ratios[len(ratios)-1])
	return nil
}

// measure has a contestant do a queue of jobs, and returns how many it does a second, from the first request to the last
// acknowledgement.
func measure(ctx context.Context, conn *amqp.Connection, c contestant, t task) (perSecond float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end after %s", patience))
	defer cancel()
	if err := fill(ctx, conn, t.queue, t.jobs); err != nil {
		return 0, err
	}
	t.endpoint.first.Store(0)
	t.endpoint.calls.Store(0)
	end, err := c(ctx, t)
	if err != nil {
		return 0, err
	}
	if n := t.endpoint.calls.Load(); n != int64(t.jobs) {
		return 0, fmt.Errorf("%d requests for %d jobs", n, t.jobs)
	}
	return float64(t.jobs) / end.Sub(time.Unix(0, t.endpoint.first.Load())).Seconds(), empty(conn, t.queue)
}

// fill makes a queue with so many jobs.
func fill(ctx context.Context, conn *amqp.Connection, queue string, jobs int) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	var last *amqp.DeferredConfirmation
	for range jobs {
		last, err = ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("sixteen octets..")})
		if err != nil {
			return err
		}
	}
	for acked := false; !acked; { // the last one may be confirmed before others
		if acked, err = last.WaitContext(ctx); err != nil {
			return err
		}
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return err
		}
		acked = acked && q.Messages == jobs
	}
	return nil
}

// empty removes a queue, which has to be empty, and the one beside it.
func empty(conn *amqp.Connection, queue string) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	left, err := ch.QueueDelete(queue, false, false, false)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d jobs have not been acknowledged", left)
	}
	_, err = ch.QueueDelete(queue+".due", false, false, false)
	return err
}
