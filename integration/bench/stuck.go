package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
)

// stuckWorkload is the memory of connections whose clients write and whose broker reads nothing.
func stuckWorkload(s scale) workload {
	figures := make([]figure, len(s.stuck))
	for i, n := range s.stuck {
		figures[i] = figure{name: "memory a stuck connection, " + thousands(n), unit: "KiB", digits: 1}
	}
	return workload{
		name: "memory of stuck peers", amount: s.stuck[1], atMost: rarely, proxies: true, figures: figures,
		measure: func(ctx context.Context, _ *place, c contestant, _ int) ([]float64, error) {
			values := make([]float64, len(s.stuck))
			for i, n := range s.stuck {
				var err error
				if values[i], err = stuckMemory(ctx, c, n, s.idle); err != nil {
					return nil, err
				}
			}
			return values, nil
		},
	}
}

// stuckMemory measures what n stuck connections add to a process, in KiB each. The sink is their own: they are stuck
// until it closes, and its sockets are such that the kernel has room for thousands.
func stuckMemory(ctx context.Context, c contestant, n int, quiet time.Duration) (kib float64, err error) {
	if !fits(n, c.files) {
		return math.NaN(), nil
	}
	s, err := sink.ListenNarrow("127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	unstick := sync.OnceValue(s.Close)
	defer func() { err = errors.Join(err, unstick(), s.Err()) }()
	start := func(address string) (*child, error) {
		return startChild(stuckCommand, address, max(quiet/10, 20*time.Millisecond).String())
	}
	err = fresh(ctx, c, s, start, func(c contestant, clients *child) error {
		defer context.AfterFunc(ctx, func() { _ = clients.Kill() })() // ends the waiting for its answer
		empty, err := settled(ctx, c.pid, quiet)
		if err != nil {
			return err
		}
		if err := clients.gather(n); err != nil {
			return err
		}
		full, err := settled(ctx, c.pid, quiet)
		if err != nil {
			return err
		}
		kib = float64(full-empty) / float64(n)
		// None of them has gone meanwhile. The sink goes first: a proxy may wait to be rid of what its clients sent.
		return errors.Join(clients.gather(n), unstick())
	})
	return kib, err
}

// stuckCommand makes this program a crowd of clients of an address that publish to the exchange that nobody reads.
const stuckCommand = "stuck"

// stuckCrowd reads numbers, line by line. It has so many clients publish, which start once all are connected, and answers
// with the number when none of them has been able to write for the time given. The next number has to be the same.
func stuckCrowd(address, quiet string, in io.Reader, out io.Writer) error {
	pause, err := time.ParseDuration(quiet)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &stuckClients{address: address, broken: make(chan error, 1)}
	defer c.writing.Wait()
	defer cancel() // closes the connections
	return answerNumbers(in, out, func(n int) error {
		if err := c.open(ctx, n); err != nil {
			return err
		}
		return c.still(pause)
	})
}

// stuckClients are clients whose writes go nowhere.
type stuckClients struct {
	address string
	all     []*client.Client
	began   atomic.Int64 // clients that have written
	pieces  atomic.Int64 // messages written
	writing sync.WaitGroup
	broken  chan error // why a client does not write any more
}

// open connects n clients, unless they are there, and has them publish.
func (c *stuckClients) open(ctx context.Context, n int) error {
	if len(c.all) > 0 {
		return nil
	}
	var mu sync.Mutex
	err := several(n, func() error {
		const unsent = 4 << 10
		cl, err := client.DialWith(ctx, c.address, client.Options{Unsent: unsent})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		c.all = append(c.all, cl)
		return nil
	})
	messages := client.NewBatch(sink.StuckExchange, []string{"key"}, make([]byte, large))
	for _, cl := range c.all {
		c.writing.Go(func() {
			err := c.publish(cl, messages)
			_ = cl.Close()
			select {
			case c.broken <- err:
			default: // one reason is enough
			}
		})
	}
	return err
}

// publish writes until the connection ends, or until it is clear that somebody reads.
func (c *stuckClients) publish(cl *client.Client, messages *client.Batch) error {
	const tooMany = 64 << 10 // 64 MiB, more than kernels and proxies hold
	for i := range tooMany {
		if err := cl.PublishOne(messages, i); err != nil {
			return err
		}
		c.pieces.Add(1)
		if i == 0 {
			c.began.Add(1)
		}
	}
	return fmt.Errorf("%d messages were taken of a client that should be stuck", tooMany)
}

// still waits until all clients have begun to write and none has come further for some time.
func (c *stuckClients) still(pause time.Duration) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for last := int64(-1); ; {
		select {
		case err := <-c.broken:
			return err
		case <-tick.C:
		}
		written := c.pieces.Load()
		if written == last && c.began.Load() == int64(len(c.all)) {
			return nil
		}
		last = written
	}
}
