package client

import (
	"fmt"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// consumerTag is the client's own, and has to be on every delivery. Consumers after the first have a number behind it.
const consumerTag = "bench"

// Consume attaches to a queue without acknowledgements, reads n messages, and returns the time from the first to the
// last. The bodies must have size octets each.
func (c *Client) Consume(queue string, n, size int) (time.Duration, error) {
	if err := c.Attach(queue); err != nil {
		return 0, err
	}
	var begin time.Time
	for i := range n {
		_, err := c.Next(size)
		if err != nil {
			return 0, fmt.Errorf("%d of %d messages arrived: %w", i, n, err)
		}
		if i == 0 {
			begin = time.Now()
		}
	}
	return time.Since(begin), nil
}

// Attach adds a consumer of a queue, without acknowledgements. It is an error if deliveries to another one come before
// the answer: attach all before there is anything to deliver.
func (c *Client) Attach(queue string) error {
	tag := consumerTag
	if c.consumers > 0 {
		tag = fmt.Sprint(consumerTag, c.consumers)
	}
	c.consumers++
	request := &frames.BasicConsume{Queue: queue, NoAck: true, ConsumerTag: tag}
	if err := c.Call(request, &frames.BasicConsumeOk{}); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	return nil
}

// Next reads a message and returns its body, which must have size octets. Unless it came in one frame it is nil. It is
// valid until the next call.
func (c *Client) Next(size int) ([]byte, error) {
	f, err := c.next()
	if err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	d, isDeliver := frames.ParseDeliver(f.Args())
	c.delivered++
	switch {
	case f.Method() != frames.BasicDeliverID || !isDeliver:
		return nil, unexpected(f, frames.BasicDeliverID)
	case len(d.ConsumerTag) < len(consumerTag) || string(d.ConsumerTag[:len(consumerTag)]) != consumerTag || d.DeliveryTag != c.delivered:
		return nil, fmt.Errorf("consume: message %d came for consumer '%s' with delivery tag %d", c.delivered, d.ConsumerTag, d.DeliveryTag)
	}
	body, err := c.content(size)
	if err != nil {
		return nil, fmt.Errorf("consume: message %d: %w", c.delivered, err)
	}
	return body, nil
}

// content reads a message's header and body.
func (c *Client) content(size int) ([]byte, error) {
	f, err := c.next()
	if err != nil {
		return nil, err
	}
	announced, ok := frames.ContentBodySize(f.Payload())
	if f.Type() != frames.TypeHeader || !ok || announced != uint64(size) {
		return nil, fmt.Errorf("a frame of type %d for a body of %d octets, want a header for %d", f.Type(), announced, size)
	}
	var body []byte
	for left := size; left > 0; {
		if f, err = c.next(); err != nil {
			return nil, err
		}
		if f.Type() != frames.TypeBody || len(f.Payload()) > left {
			return nil, fmt.Errorf("a frame of type %d and %d octets, want at most %d of body", f.Type(), len(f.Payload()), left)
		}
		if len(f.Payload()) == size {
			body = f.Payload()
		}
		left -= len(f.Payload())
	}
	return body, nil
}
