package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// conversation is what comes back when a raw client says everything at once.
type conversation struct {
	*raw
	open    map[uint16]bool // channels
	opening int             // channels that were asked for and have not been answered
}

// closer is a channel that is opened after all others, so that the broker has read everything when it is open.
const closer = 99

// run writes what it is given, notes every frame, channel by channel, and ends the connection when all is answered. What
// belongs to ending it is not noted: it may cross with the broker's own closes.
func (c *conversation) run(tr *transcript, said []byte) {
	c.t.Helper()
	said = append(said, method(closer, &frames.ChannelOpen{})...)
	for rest := said; ; {
		f, err := frames.Next(rest, 0)
		if err != nil {
			break
		}
		if rest = rest[len(f):]; f.Method() == frames.ChannelOpenID {
			c.opening++
		}
	}
	c.write(said)
	seen := map[uint16][]string{}
	for {
		f, err := c.next()
		if err != nil {
			seen[0] = append(seen[0], "the connection ends")
			break
		}
		if f.Method() == frames.ConnectionCloseOkID {
			break
		}
		ch := f.Channel()
		if ch != closer && f.Method() != frames.ChannelCloseOkID {
			seen[ch] = append(seen[ch], describe(f))
		}
		c.follow(f)
	}
	for _, ch := range slices.Sorted(maps.Keys(seen)) {
		tr.add("channel %d:\n%s", ch, strings.Join(seen[ch], "\n"))
	}
}

// follow answers a frame as a client must, closes all channels when the last one is open, and then the connection.
func (c *conversation) follow(f frames.Frame) {
	c.t.Helper()
	ch, before := f.Channel(), len(c.open)
	switch f.Method() {
	case frames.ChannelOpenOkID:
		c.open[ch] = true
		if c.opening--; c.opening > 0 {
			break
		}
		for open := range c.open {
			c.write(method(open, &frames.ChannelClose{ReplyCode: 200, ReplyText: "done"}))
		}
	case frames.ChannelCloseID:
		delete(c.open, ch)
		c.write(method(ch, &frames.ChannelCloseOk{}))
	case frames.ChannelCloseOkID:
		delete(c.open, ch)
	case frames.ConnectionCloseID:
		c.write(method(0, &frames.ConnectionCloseOk{}))
	}
	if before > 0 && len(c.open) == 0 && c.opening == 0 {
		c.write(method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "done"}))
	}
}

// describe writes a frame with its octets; long payloads by their beginning and length.
func describe(f frames.Frame) string {
	what := fmt.Sprintf("type %d", f.Type())
	if f.Type() == frames.TypeMethod {
		what = f.Method().String()
	}
	return fmt.Sprintf("%s, %d octets: %q", what, len(f.Payload()), head(f.Payload(), 1000))
}
