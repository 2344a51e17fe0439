package client

import (
	"fmt"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// consumerTag is the client's own, and has to be on every delivery.
const consumerTag = "bench"

// Consume attaches to a queue without acknowledgements, reads n messages, and returns the time from the first to the
// last. The bodies must have size octets each.
func (c *Client) Consume(queue string, n, size int) (time.Duration, error) {
	var ok frames.BasicConsumeOk
	if err := c.Call(&frames.BasicConsume{Queue: queue, NoAck: true, ConsumerTag: consumerTag}, &ok); err != nil {
		return 0, fmt.Errorf("consume: %w", err)
	}
	var begin time.Time
	for i := range n {
		f, err := c.next()
		if err != nil {
			return 0, fmt.Errorf("consume: %d of %d messages arrived: %w", i, n, err)
		}
		if i == 0 {
			begin = time.Now()
		}
		d, isDeliver := frames.ParseDeliver(f.Args())
		switch {
		case f.Method() != frames.BasicDeliverID || !isDeliver:
			return 0, unexpected(f, frames.BasicDeliverID)
		case string(d.ConsumerTag) != consumerTag || d.DeliveryTag != uint64(i)+1:
			return 0, fmt.Errorf("consume: message %d came for consumer '%s' with delivery tag %d", i+1, d.ConsumerTag, d.DeliveryTag)
		}
		if err := c.content(size); err != nil {
			return 0, fmt.Errorf("consume: message %d: %w", i, err)
		}
	}
	return time.Since(begin), nil
}

// content reads a message's header and body.
func (c *Client) content(size int) error {
	f, err := c.next()
	if err != nil {
		return err
	}
	announced, ok := frames.ContentBodySize(f.Payload())
	if f.Type() != frames.TypeHeader || !ok || announced != uint64(size) {
		return fmt.Errorf("a frame of type %d for a body of %d octets, want a header for %d", f.Type(), announced, size)
	}
	for size > 0 {
		if f, err = c.next(); err != nil {
			return err
		}
		if f.Type() != frames.TypeBody || len(f.Payload()) > size {
			return fmt.Errorf("a frame of type %d and %d octets, want at most %d of body", f.Type(), len(f.Payload()), size)
		}
		size -= len(f.Payload())
	}
	return nil
}
