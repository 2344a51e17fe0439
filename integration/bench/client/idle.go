package client

import (
	"fmt"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// Idle does nothing on the connection but read heartbeats and, if there is an interval, write one each time it has
// passed. It returns why that ended: the other side said something else, or the connection is gone.
func (c *Client) Idle(interval time.Duration) error {
	if interval > 0 {
		done := make(chan struct{})
		defer close(done)
		go c.beat(interval, done)
	}
	f, err := c.next()
	if err != nil {
		return fmt.Errorf("client: idle: %w", err)
	}
	return fmt.Errorf("client: idle: %w", unexpected(f, 0))
}

// beat writes heartbeats. A write that fails is not reported: reading fails as well.
func (c *Client) beat(interval time.Duration, done <-chan struct{}) {
	heartbeat := frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			c.writing.Lock()
			_, err := c.net.Write(heartbeat)
			c.writing.Unlock()
			if err != nil {
				return
			}
		}
	}
}
