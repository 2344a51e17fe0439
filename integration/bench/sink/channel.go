package sink

import (
	"errors"
	"fmt"

	"github.com/shardmq/shardmq/frames"
)

// expectation is what a channel's next frame has to be.
//
//	idle --basic.publish--> header --header frame--> body --last body octet--> idle
//	                          \--------header of an empty body-----------------^
type expectation uint8

const (
	idle expectation = iota
	header
	body
)

// channel is owned by its connection's reading goroutine.
type channel struct {
	conn      *conn
	expects   expectation
	remaining uint64 // octets of the present message's body
	counted   bool   // the present message is one that the tally counts
	sampled   bool   // the present message is to be looked into
	toSample  uint64 // counted messages until the next sample
	confirms  bool
	published uint64 // messages since confirm.select
	acked     uint64
	closing   bool              // we sent channel.close and wait for close-ok
	consumers map[string]string // tag → queue
	tags      uint64            // consumer tags made up so far
	delivered uint64            // last delivery tag; guarded by conn.mu
}

func (ch *channel) begin(p frames.Publish, t *Tally) {
	ch.expects = header
	ch.counted = t != nil && string(p.Exchange) == t.exchange
	ch.sampled = false
	if ch.counted && t.sharded {
		if ch.toSample--; ch.toSample == 0 {
			ch.sampled, ch.toSample = true, sampleEvery
		}
	}
}

// content takes a frame while a message is under way, and returns 1 when that completes a message to be counted.
func (ch *channel) content(f frames.Frame, t *Tally) (uint64, error) {
	switch {
	case ch.expects == header && f.Type() == frames.TypeHeader:
		size, ok := frames.ContentBodySize(f.Payload())
		if !ok {
			return 0, errors.New("a malformed content header")
		}
		if ch.sampled {
			if err := t.sample(f.Payload()); err != nil {
				return 0, err
			}
		}
		ch.remaining, ch.expects = size, body
	case ch.expects == body && f.Type() == frames.TypeBody:
		n := uint64(len(f.Payload()))
		if n > ch.remaining {
			return 0, fmt.Errorf("%d octets of body too many", n-ch.remaining)
		}
		ch.remaining -= n
	default:
		return 0, fmt.Errorf("a frame of type %d (%s) in the middle of a message", f.Type(), f.Method())
	}
	if ch.remaining > 0 {
		return 0, nil
	}
	ch.expects = idle
	if ch.confirms {
		ch.published++
	}
	if ch.counted {
		return 1, nil
	}
	return 0, nil
}

// sample looks into one message of a sharded run.
func (t *Tally) sample(payload []byte) error {
	h, ok := frames.ParseContentHeader(payload)
	if !ok {
		return errors.New("a malformed content header")
	}
	var keys []string
	if !h.Headers.RoutingKeys("BCC", func(key []byte) bool { keys = append(keys, string(key)); return true }) {
		return errors.New("a BCC header that is no array")
	}
	if len(keys) != 1 {
		return fmt.Errorf("a message to the sharded exchange '%s' with the shard keys %q, want exactly one", t.exchange, keys)
	}
	queues := t.sink.registry.boundTo(t.exchange, keys[0])
	if len(queues) != 1 {
		return fmt.Errorf("a message to '%s' whose shard key '%s' is bound to the queues %q, want exactly one", t.exchange, keys[0], queues)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues[queues[0]]++
	return nil
}
