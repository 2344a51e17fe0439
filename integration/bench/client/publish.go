package client

import (
	"errors"
	"fmt"
	"maps"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/sink"
)

// writeSize is how much is written at a time.
const writeSize = 64 << 10

// Batch is encoded messages, one for each key.
type Batch struct {
	octets []byte
	ends   []int // where each message ends
}

// NewBatch encodes a message with the given body for each routing key.
func NewBatch(exchange string, keys []string, body []byte) *Batch {
	b := &Batch{}
	for _, key := range keys {
		b.octets = frames.AppendMethod(b.octets, number, &frames.BasicPublish{Exchange: exchange, RoutingKey: key})
		b.octets = sink.AppendContent(b.octets, number, body)
		b.ends = append(b.ends, len(b.octets))
	}
	return b
}

// Publish writes n messages, going round the batch.
func (c *Client) Publish(b *Batch, n int) error {
	for n > 0 {
		whole := min(n, len(b.ends))
		octets := b.octets[:b.ends[whole-1]]
		for len(octets) > 0 {
			piece := octets[:min(len(octets), writeSize)]
			if _, err := c.net.Write(piece); err != nil {
				return fmt.Errorf("publish: %w", errors.Join(err, c.farewell()))
			}
			octets = octets[len(piece):]
		}
		n -= whole
	}
	return nil
}

// farewell returns what the other side said before it closed, if anything.
func (c *Client) farewell() error {
	f, err := c.next()
	if err != nil {
		return nil
	}
	return unexpected(f, 0)
}

// Confirmed publishes n messages on a channel in confirm mode and returns when all are acknowledged. Writing does not
// wait for acknowledgements.
func (c *Client) Confirmed(b *Batch, n int) error {
	written := make(chan error, 1)
	go func() { written <- c.Publish(b, n) }()
	err := c.awaitAcks(uint64(n))
	if err != nil {
		_ = c.net.Close() // ends the writing
	}
	return errors.Join(err, <-written)
}

// awaitAcks reads basic.ack until all n messages are covered.
func (c *Client) awaitAcks(n uint64) error {
	var below uint64 // every tag up to this one is acknowledged
	single := map[uint64]bool{}
	for below+uint64(len(single)) < n {
		f, err := c.next()
		if err != nil {
			return fmt.Errorf("%d of %d messages are acknowledged: %w", below+uint64(len(single)), n, err)
		}
		a, ok := frames.ParseAck(f.Method(), f.Args())
		if !ok || f.Method() != frames.BasicAckID {
			return unexpected(f, frames.BasicAckID)
		}
		switch {
		case !a.Multiple && a.DeliveryTag > below:
			single[a.DeliveryTag] = true
		case a.Multiple && a.DeliveryTag > below:
			below = a.DeliveryTag
			maps.DeleteFunc(single, func(tag uint64, _ bool) bool { return tag <= below })
		}
	}
	return nil
}
