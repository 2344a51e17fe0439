package router

import (
	"strconv"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// windows are a channel's limits for deliveries that await their acknowledgement, as the client has set them with basic.qos; 0: none. The broker
// lifts the limit of the whole channel when it gets a basic.qos with global=false (rabbit_channel), and consumers beside then get all that waits
// before it is set again. So where there is one, the proxy's own attachments set none of their own if that limit keeps them back anyway.
type windows struct {
	each uint16 // of a consumer that comes now
	all  uint16 // of all the channel's consumers together
}

// with is what the limits are after a basic.qos of the client's.
func (w windows) with(m *frames.BasicQos, perConsumer bool) windows {
	if m.Global && !perConsumer {
		return windows{each: w.each, all: m.PrefetchCount}
	}
	return windows{each: m.PrefetchCount}
}

// share is how much of its prefetch a consumer has to share out over its attachments: 0, so that they have no limits of their own, if the
// channel's limit is reached first.
func (w windows) share(own int) int {
	if w.all > 0 && own >= int(w.all) {
		return 0
	}
	return own
}

// qos follows the client's limits. Consumers whose attachments have to be limited from now on, or no longer, lose them before the broker hears of
// it, and get new ones behind that: limits bind only when a consumer comes.
func (c *Conn) qos(ch *channel, f frames.Frame) Verdict {
	var m frames.BasicQos
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	next := ch.windows.with(&m, c.perConsumer)
	var atts []*attachment
	var changed []*consumer
	for _, tag := range sortedTags(ch) {
		if k := ch.consumers[tag]; next.share(k.own) != k.prefetch {
			changed = append(changed, k)
			atts = append(atts, k.atts...)
		}
	}
	if len(changed) == 0 {
		ch.windows = next
		return Forward
	}
	return c.begin(ch, f, func(o *op) {
		c.detach(ch, o, atts, func() {
			for _, k := range changed {
				k.prefetch = next.share(k.own)
				clear(k.resting)
			}
			ch.windows = next
			ch.dirty = true
			o.want = 1
			o.reply = func(ok frames.Frame) Verdict {
				o.want = 0
				c.down = append(c.down, ok...)
				c.finish(ch)
				return Drop
			}
			c.up = append(c.up, o.frame...)
		})
	})
}

// limiting sets limits for attachments that are about to be made, one after the other, and the client's again behind them.
type limiting struct {
	c    *Conn
	ch   *channel
	o    *op
	now  int  // what the broker goes by
	sent bool // and has been told
}

func (l *limiting) set(limit int) {
	if limit != l.now {
		l.c.sendUp(l.ch, &frames.BasicQos{PrefetchCount: uint16(limit)})
		l.o.want++
		l.now, l.sent = limit, true
	}
}

// restoreEach sets the client's limit for each consumer, unless that of the channel has to be set behind it.
func (l *limiting) restoreEach() {
	if l.ch.windows.all == 0 {
		l.set(int(l.ch.windows.each))
	}
}

// restoreAll sets both, once the broker has answered all else, and reports whether there is an answer to come: the broker counts what it has
// given out against the channel's limit from when that is set.
func (l *limiting) restoreAll() (sent bool) {
	w := l.ch.windows
	if w.all == 0 || !l.sent {
		return false
	}
	l.sent = false
	for _, m := range []*frames.BasicQos{{PrefetchCount: w.each}, {PrefetchCount: w.all, Global: true}} {
		l.c.sendUp(l.ch, m)
		l.o.want++
	}
	return true
}

// countsPerConsumer reports whether a broker takes basic.qos with global=true for one with global=false: RabbitMQ does from 4.3 on, unless it is
// configured otherwise (deprecated feature global_qos).
func countsPerConsumer(serverProperties frames.Table) bool {
	kind, v, ok := serverProperties.Lookup("version")
	if !ok || kind != 'S' || len(v) < 4 {
		return false
	}
	major, rest, _ := strings.Cut(string(v[4:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	return errMajor == nil && errMinor == nil && (a > 4 || a == 4 && b >= 3)
}
