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
	bodies []int // how long each body is
}

// Message is one of a batch.
type Message struct {
	Channel              uint16 // 0: channel 1
	Exchange, RoutingKey string
	Headers              frames.Table
	Body                 []byte
}

// NewBatch encodes a message with the given body for each routing key.
func NewBatch(exchange string, keys []string, body []byte) *Batch {
	messages := make([]Message, len(keys))
	for i, key := range keys {
		messages[i] = Message{Exchange: exchange, RoutingKey: key, Body: body}
	}
	return NewBatchOf(messages)
}

// NewBatchOf encodes messages.
func NewBatchOf(messages []Message) *Batch {
	b := &Batch{}
	for _, m := range messages {
		channel := max(m.Channel, number)
		b.octets = frames.AppendMethod(b.octets, channel, &frames.BasicPublish{Exchange: m.Exchange, RoutingKey: m.RoutingKey})
		b.octets = sink.AppendMessage(b.octets, channel, m.Headers, m.Body)
		b.ends, b.bodies = append(b.ends, len(b.octets)), append(b.bodies, len(m.Body))
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

// PublishEach writes n messages, going round the batch, each with a write of its own.
func (c *Client) PublishEach(b *Batch, n int) error {
	for i := range n {
		if err := c.PublishOne(b, i); err != nil {
			return err
		}
	}
	return nil
}

// PublishOne writes the batch's message number i, going round.
func (c *Client) PublishOne(b *Batch, i int) error {
	if _, err := c.net.Write(b.one(i)); err != nil {
		return fmt.Errorf("publish: %w", errors.Join(err, c.farewell()))
	}
	return nil
}

// Body is where message number i has its body, to be written into between publishes. It has to fit into one frame.
func (b *Batch) Body(i int) []byte {
	end := b.ends[i] - 1 // before the end of the frame
	return b.octets[end-b.bodies[i] : end]
}

// one returns the octets of message number i, going round.
func (b *Batch) one(i int) []byte {
	i %= len(b.ends)
	begin := 0
	if i > 0 {
		begin = b.ends[i-1]
	}
	return b.octets[begin:b.ends[i]]
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
