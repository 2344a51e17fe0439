package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/shardmq/shardmq/integration/bench/client"
)

// crowdCommand makes this program a crowd of idle clients of an address, with heartbeats of so many seconds.
const crowdCommand = "crowd"

// crowd reads numbers, line by line, and has so many connections open after each, with a channel each and nothing
// happening on it. It answers each line with the number when all of them are there, old ones included, or with an error.
func crowd(address, heartbeat string, in io.Reader, out io.Writer) error {
	seconds, err := strconv.Atoi(heartbeat)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowded{address: address, interval: time.Duration(seconds) * time.Second, broken: make(chan error, 1)}
	defer c.all.Wait()
	defer cancel()
	return answerNumbers(in, out, func(n int) error { return c.grow(ctx, n) })
}

// answerNumbers reads numbers, line by line, has something done with each, and answers with the number or an error.
func answerNumbers(in io.Reader, out io.Writer, do func(n int) error) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err == nil {
			err = do(n)
		}
		answer := lines.Text()
		if err != nil {
			answer = fmt.Sprintf("%q", err)
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return nil
}

// crowded is a crowd's connections.
type crowded struct {
	address  string
	interval time.Duration // heartbeats to ask for; half of it is the time between two
	count    int
	all      sync.WaitGroup
	broken   chan error // why a connection ended
}

// grow opens connections until there are n, several at a time.
func (c *crowded) grow(ctx context.Context, n int) error {
	more := max(n-c.count, 0)
	err := several(more, func() error { return c.open(ctx) })
	c.count += more
	select {
	case broken := <-c.broken:
		err = errors.Join(err, broken)
	default:
	}
	return err
}

func (c *crowded) open(ctx context.Context) error {
	cl, err := client.DialWith(ctx, c.address, client.Options{Heartbeat: c.interval})
	if err != nil {
		return err
	}
	c.all.Go(func() {
		err := cl.Idle(c.interval / 2)
		_ = cl.Close()
		select {
		case c.broken <- err:
		default: // one reason is enough
		}
	})
	return nil
}

// startCrowd starts a crowd of clients without any connections yet.
func startCrowd(address string, heartbeat time.Duration) (*child, error) {
	return startChild(crowdCommand, address, strconv.Itoa(int(heartbeat/time.Second)))
}

// gather makes a crowd one of n, and makes sure that all of those are there.
func (c *child) gather(n int) error {
	if _, err := fmt.Fprintln(c.in, n); err != nil {
		return fmt.Errorf("crowd: %w", err)
	}
	answer, err := c.line()
	if err != nil {
		return fmt.Errorf("crowd: %w", err)
	}
	if answer != strconv.Itoa(n) {
		return fmt.Errorf("crowd of %d: %s", n, answer)
	}
	return nil
}
