// Package routertest judges what a proxy between an AMQP 0-9-1 client and a broker makes of their conversation, for tests that feed it
// arbitrary frames. Both ends are seen as they see themselves: by what they have sent and what has reached them. An end that breaks
// the protocol is bad from then on, and the proxy is blamed for nothing that may come from that.
package routertest

import (
	"bytes"
	"fmt"

	"github.com/shardmq/shardmq/frames"
)

// Talk is one conversation. What is handed to it is copied where it is kept. It is not safe for concurrent use.
type Talk struct {
	names          [][]byte
	client, broker end
	up, down       map[uint16]*lane
	limit          uint32 // frame_max as the broker has been told, 0 for none
}

// end is one end's view of the connection.
type end struct {
	client bool
	prefix string // of consumer tags that are the proxy's own
	bad    bool

	said, heard bool // connection.close
	over        bool // its close has been answered
	answered    bool // it has answered the other's

	chans map[uint16]*view
}

// New returns a conversation that has not begun. Consumer tags with the prefix are the proxy's own. Channels on which no method, header or
// answer has any of the names in it must pass unchanged; the prefix is one of them.
func New(prefix string, names ...string) *Talk {
	t := &Talk{up: map[uint16]*lane{}, down: map[uint16]*lane{},
		client: end{client: true, prefix: prefix, chans: map[uint16]*view{}}, broker: end{prefix: prefix, chans: map[uint16]*view{}}}
	for _, n := range append(names, prefix) {
		t.names = append(t.names, []byte(n))
	}
	return t
}

// FromClient and FromBroker take a frame that an end has sent.
func (t *Talk) FromClient(f frames.Frame) { t.sent(&t.client, t.up, f) }

// FromBroker is FromClient for the other end.
func (t *Talk) FromBroker(f frames.Frame) { t.sent(&t.broker, t.down, f) }

func (t *Talk) sent(e *end, lanes map[uint16]*lane, f frames.Frame) {
	e.sends(f)
	id := f.Channel()
	if id == 0 {
		return
	}
	if t.closing() || e.bad || e.view(id).bad || e.view(id).said || t.touches(f) {
		t.release(id)
	}
	at(lanes, id).put(f)
}

// Begins takes the head of a body frame that an end has begun to send: what there is of its body may reach the other end, in frames of the proxy's,
// before the rest has been sent.
func (t *Talk) Begins(client bool, h frames.Head) {
	e := &t.broker
	if client {
		e = &t.client
	}
	if v := e.view(h.Channel); !v.open || v.said || v.out.header || uint64(h.Size) > v.out.left {
		v.bad = true
		t.release(h.Channel)
	}
}

// Garbled says that what an end sends cannot be read as frames any more.
func (t *Talk) Garbled(client bool) {
	if client {
		t.client.bad = true
	} else {
		t.broker.bad = true
	}
	t.Release()
}

// Release stops comparing what passes on any channel so far.
func (t *Talk) Release() {
	for _, lanes := range []map[uint16]*lane{t.up, t.down} {
		for id := range lanes {
			t.release(id)
		}
	}
}

// ToBroker takes a frame that has reached the broker, and says what is wrong with that, "" for nothing.
func (t *Talk) ToBroker(f frames.Frame) string {
	if f.Method() == frames.ConnectionTuneOkID {
		var m frames.ConnectionTuneOk
		if m.Decode(f.Args()) == nil {
			if t.limit = m.FrameMax; t.limit > 0 { // no peer may go below (section 4.2.3)
				t.limit = max(t.limit, frames.MinFrameMax)
			}
		}
	}
	if t.limit > 0 && uint64(len(f)) > uint64(t.limit)+frames.Overhead {
		return t.wrong("broker", f, fmt.Sprintf("%d octets, its frame_max is %d", len(f), t.limit))
	}
	return t.got("broker", &t.client, &t.broker, t.up, f)
}

// ToClient is ToBroker for the other end.
func (t *Talk) ToClient(f frames.Frame) string {
	return t.got("client", &t.broker, &t.client, t.down, f)
}

func (t *Talk) got(name string, from, to *end, lanes map[uint16]*lane, f frames.Frame) string {
	id := f.Channel()
	if t.closing() || f.Method() == frames.ChannelCloseID || t.touches(f) {
		t.release(id)
	}
	why, inContent := to.gets(f)
	sound := !from.bad && !from.view(id).bad
	if why != "" && sound && (inContent || !to.bad && !to.view(id).bad) {
		return t.wrong(name, f, why)
	}
	if id != 0 && !at(lanes, id).take(f) {
		return t.wrong(name, f, "not what was sent")
	}
	return ""
}

// Rest says what has not arrived of the channels that pass unchanged, "" for nothing. It is called when everything has.
func (t *Talk) Rest() string {
	for _, lanes := range []map[uint16]*lane{t.up, t.down} {
		for id, l := range lanes {
			if len(l.want) > 0 {
				return fmt.Sprintf("channel %d: %d octets have not arrived: %x", id, len(l.want), l.want[:min(len(l.want), 64)])
			}
		}
	}
	return ""
}

func (t *Talk) wrong(name string, f frames.Frame, why string) string {
	return fmt.Sprintf("%s gets %s (type %d, %d octets) on channel %d: %s", name, f.Method(), f.Type(), len(f), f.Channel(), why)
}

// closing reports whether any end has said, or been told, that the connection ends.
func (t *Talk) closing() bool {
	return t.client.said || t.client.heard || t.broker.said || t.broker.heard || t.client.bad || t.broker.bad
}

// touches reports whether a frame has to do with what the proxy changes.
func (t *Talk) touches(f frames.Frame) bool {
	if f.Type() == frames.TypeBody {
		return false
	}
	for _, n := range t.names {
		if bytes.Contains(f, n) {
			return true
		}
	}
	return false
}

// release stops comparing what passes on a channel.
func (t *Talk) release(id uint16) {
	for _, l := range []*lane{at(t.up, id), at(t.down, id)} {
		l.off, l.want = true, nil
	}
}

// lane is what is on its way on a channel, in one direction: whole frames, but of bodies only the octets, for they may be cut anew.
type lane struct {
	want []byte
	off  bool
}

func at(lanes map[uint16]*lane, id uint16) *lane {
	l := lanes[id]
	if l == nil {
		l = &lane{}
		lanes[id] = l
	}
	return l
}

func (l *lane) put(f frames.Frame) {
	if !l.off {
		l.want = append(l.want, octets(f)...)
	}
}

// take reports whether the frame is the next that was put.
func (l *lane) take(f frames.Frame) bool {
	b := octets(f)
	if l.off {
		return true
	}
	if !bytes.HasPrefix(l.want, b) {
		return false
	}
	l.want = l.want[len(b):]
	return true
}

func octets(f frames.Frame) []byte {
	if f.Type() == frames.TypeBody {
		return f.Payload()
	}
	return f
}
