package integration

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// talk is a raw connection that notes every frame that comes, channel by channel: how channels interleave is chance.
type talk struct {
	*raw
	name      string
	frameMax  uint32           // no body frame that comes may be larger; 0: not looked at
	confirmed map[uint16]acks  // what the broker has confirmed, by channel
	whole     map[uint16]*said // contents under way
	seen      map[uint16][]string
	unread    map[uint16][]*said // noted, and not yet waited for
}

// acks says of each delivery tag whether it was acknowledged or not. Several may be confirmed by one frame, as it happens.
type acks map[uint64]bool

// talk opens a connection, logs in and opens channel 1.
func (d *diff) talk(name string) *talk {
	d.t.Helper()
	return d.noting(name, rawOpen(d.t, d.at))
}

// noting has what comes on a connection noted from now on.
func (d *diff) noting(name string, r *raw) *talk {
	k := &talk{raw: r, name: name, frameMax: r.tune.FrameMax, confirmed: map[uint16]acks{}, whole: map[uint16]*said{}, seen: map[uint16][]string{},
		unread: map[uint16][]*said{}}
	d.talks = append(d.talks, k)
	return k
}

func (k *talk) note(channel uint16, format string, args ...any) {
	k.seen[channel] = append(k.seen[channel], fmt.Sprintf(format, args...))
}

// report adds all that was noted to the transcript.
func (k *talk) report(tr *transcript) {
	for _, ch := range slices.Sorted(maps.Keys(k.seen)) {
		if len(k.seen[ch]) == 0 {
			continue
		}
		tr.add("%s, channel %d:", k.name, ch)
		for _, line := range k.seen[ch] {
			tr.add("  %s", line)
		}
	}
	for _, ch := range slices.Sorted(maps.Keys(k.confirmed)) {
		tr.add("%s, channel %d, confirms:", k.name, ch)
		of := k.confirmed[ch]
		for _, tag := range slices.Sorted(maps.Keys(of)) {
			tr.add("  %d %s", tag, map[bool]string{true: "ack", false: "nack"}[of[tag]])
		}
	}
}

// hear reads frames until a method has come with all of its content, and notes it. nil: the connection has ended.
func (k *talk) hear() *said {
	k.t.Helper()
	for {
		f, err := k.next()
		if err != nil {
			k.note(0, "the connection ends")
			return nil
		}
		s := k.take(f)
		if s == nil {
			continue
		}
		if s.id == frames.BasicAckID || s.id == frames.BasicNackID {
			k.confirm(s)
		} else {
			k.note(s.channel, "%s", s)
			k.unread[s.channel] = append(k.unread[s.channel], s)
		}
		return s
	}
}

// take adds a frame to what its channel is saying, and returns that when it is whole.
func (k *talk) take(f frames.Frame) *said {
	k.t.Helper()
	s := k.whole[f.Channel()]
	switch f.Type() {
	case frames.TypeHeartbeat:
		return nil
	case frames.TypeMethod:
		require.Nil(k.t, s, "%s inside a content: %v", f.Method(), s)
		s = newSaid(f)
		if s.id != frames.BasicDeliverID && s.id != frames.BasicGetOkID && s.id != frames.BasicReturnID {
			return s
		}
		k.whole[s.channel] = s
		return nil
	case frames.TypeHeader:
		require.NotNil(k.t, s, "a content header without a method: %q", head(f, 300))
		s.header = slices.Clone(f.Payload())
		s.left, _ = frames.ContentBodySize(s.header)
	case frames.TypeBody:
		require.NotNil(k.t, s, "a body without a method: %q", head(f, 300))
		require.True(k.t, k.frameMax == 0 || len(f) <= int(k.frameMax), "a body frame of %d octets", len(f))
		require.LessOrEqual(k.t, uint64(len(f.Payload())), s.left, "more body than the header said")
		s.left -= uint64(len(f.Payload()))
		s.body = append(s.body, f.Payload()...)
	}
	if s.left > 0 {
		return nil
	}
	delete(k.whole, s.channel)
	return s
}

// confirm notes a publisher confirm for every tag it covers.
func (k *talk) confirm(s *said) {
	k.t.Helper()
	of := k.confirmed[s.channel]
	if of == nil {
		of = acks{}
		k.confirmed[s.channel] = of
	}
	tag, multiple, acked := uint64(0), false, s.id == frames.BasicAckID
	if acked {
		m := s.method.(*frames.BasicAck)
		tag, multiple = m.DeliveryTag, m.Multiple
	} else {
		m := s.method.(*frames.BasicNack)
		tag, multiple = m.DeliveryTag, m.Multiple
	}
	_, twice := of[tag]
	require.False(k.t, twice, "%d is confirmed twice", tag)
	of[tag] = acked
	for lower := tag; multiple && lower > 1; {
		lower--
		if _, known := of[lower]; !known {
			of[lower] = acked
		}
	}
}

// until waits for the next such method on a channel. A close of that channel or of the connection that is not what is waited for ends
// the test.
func (k *talk) until(channel uint16, ids ...frames.MethodID) *said {
	k.t.Helper()
	for {
		for len(k.unread[channel]) > 0 {
			s := k.unread[channel][0]
			k.unread[channel] = k.unread[channel][1:]
			if slices.Contains(ids, s.id) {
				return s
			}
			require.NotContains(k.t, []frames.MethodID{frames.ChannelCloseID, frames.ConnectionCloseID}, s.id, "waiting for %v on channel %d: %v", ids, channel, s)
		}
		k.more()
	}
}

// more hears one more method, which must not end the connection.
func (k *talk) more() {
	k.t.Helper()
	s := k.hear()
	require.NotNil(k.t, s, "the connection ended; seen: %q", k.seen)
	require.NotEqual(k.t, frames.ConnectionCloseID, s.id, "%v", s)
}

// untilConfirmed waits until the first n publishes of the channel are confirmed.
func (k *talk) untilConfirmed(channel uint16, n int) {
	k.t.Helper()
	for len(k.confirmed[channel]) < n {
		k.more()
	}
}

// ask says a request and waits for its answer.
func (k *talk) ask(channel uint16, m frames.Method) *said {
	k.t.Helper()
	k.write(method(channel, m))
	return k.until(channel, m.ID().Reply()...)
}

// ask1 is ask on channel 1, for several requests.
func (k *talk) ask1(requests ...frames.Method) {
	k.t.Helper()
	for _, m := range requests {
		k.ask(1, m)
	}
}

// refused says something for which the channel is closed, answers that and opens the channel anew.
func (k *talk) refused(channel uint16, pieces ...[]byte) *frames.ChannelClose {
	k.t.Helper()
	k.write(pieces...)
	s := k.until(channel, frames.ChannelCloseID)
	k.write(method(channel, &frames.ChannelCloseOk{}))
	k.ask(channel, &frames.ChannelOpen{})
	return s.method.(*frames.ChannelClose)
}

// try is ask where the answer may be that the channel is closed: then it is opened anew.
func (k *talk) try(channel uint16, m frames.Method) *said {
	k.t.Helper()
	k.write(method(channel, m))
	s := k.until(channel, append([]frames.MethodID{frames.ChannelCloseID}, m.ID().Reply()...)...)
	if s.id == frames.ChannelCloseID {
		k.write(method(channel, &frames.ChannelCloseOk{}))
		k.ask(channel, &frames.ChannelOpen{})
	}
	return s
}

// forget takes a line back that has just been noted.
func (k *talk) forget(s *said) {
	lines := k.seen[s.channel]
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i] == s.String() {
			k.seen[s.channel] = slices.Delete(lines, i, i+1)
			return
		}
	}
}

// holds waits until the queue has so many messages that nobody has been given. RabbitMQ counts before it looks at what it was sent just
// before.
func (k *talk) holds(queue string, n int) {
	k.t.Helper()
	eventually(k.t, fmt.Sprintf("%d messages in %s", n, queue), func() string {
		s := k.ask(1, &frames.QueueDeclare{Queue: queue, Passive: true})
		k.forget(s)
		if ok := s.method.(*frames.QueueDeclareOk); int(ok.MessageCount) != n {
			return fmt.Sprintf("there are %d", ok.MessageCount)
		}
		return ""
	})
	k.note(1, "%s holds %d", queue, n)
}

// sync waits until the broker has dealt with everything said on the channel before.
func (k *talk) sync(channel uint16) {
	k.t.Helper()
	k.write(method(channel, &frames.ExchangeDeclare{Exchange: "amq.direct", Passive: true}))
	k.until(channel, frames.ExchangeDeclareOkID)
}

// write sends everything in one write. What the peer makes of it, a closed connection too, is read.
func (k *talk) write(pieces ...[]byte) {
	k.t.Helper()
	require.NoError(k.t, k.conn.SetWriteDeadline(time.Now().Add(patience)))
	_, err := k.conn.Write(slices.Concat(pieces...))
	require.NotErrorIs(k.t, err, os.ErrDeadlineExceeded)
}

// end notes what comes until the connection ends, or one side has closed it. When the TCP connection ends after that is no part of the
// transcript: RabbitMQ reads no further behind a frame that is none, and so misses close-ok for half a minute.
func (k *talk) end() {
	k.t.Helper()
	for s := k.hear(); s != nil; s = k.hear() {
		switch s.id {
		case frames.ConnectionCloseID:
			k.write(method(0, &frames.ConnectionCloseOk{}))
			return
		case frames.ConnectionCloseOkID:
			return
		case frames.ChannelCloseID:
			k.write(method(s.channel, &frames.ChannelCloseOk{}), method(0, &frames.ConnectionClose{ReplyCode: 200}))
		case frames.ExchangeDeclareOkID, frames.ConnectionOpenOkID:
			k.write(method(0, &frames.ConnectionClose{ReplyCode: 200}))
		}
	}
}

// endAll ends all connections, in the order of their names. A broker that hangs up without a word takes its time for it, so they have
// all been told what they are told before.
func (d *diff) endAll() {
	d.t.Helper()
	slices.SortFunc(d.talks, func(a, b *talk) int { return strings.Compare(a.name, b.name) })
	for _, k := range d.talks {
		k.end()
	}
}

// bye closes the connection in order.
func (k *talk) bye() {
	k.t.Helper()
	k.ask(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "bye"})
}
