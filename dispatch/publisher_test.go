package dispatch

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// quiet is the other end of a publisher's connection: it lets everybody in, and answers what is published as it is told.
type quiet struct {
	conn      net.Conn
	published chan uint64 // the number of each message, once all of it has come
	answers   chan frames.Method
}

// confirm answers a publish.
func (q *quiet) confirm(n uint64) { q.answers <- &frames.BasicAck{DeliveryTag: n} }

// dialQuiet returns a connection to a broker that answers nothing by itself once there is a channel.
func dialQuiet(t *testing.T) (*connection, *quiet) {
	t.Helper()
	ours, theirs := net.Pipe()
	q := &quiet{conn: theirs, published: make(chan uint64, 100), answers: make(chan frames.Method)}
	go q.write()
	go q.read()
	// A heartbeat that no test waits for.
	conn, err := amqp.Open(ours, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{}}, Heartbeat: 24 * time.Hour, Locale: "en_US"})
	require.NoError(t, err)
	return &connection{Connection: conn, socket: ours}, q
}

func (q *quiet) write() {
	for m := range q.answers {
		channel := uint16(1)
		if m.ID().Class() == frames.ConnectionStartID.Class() {
			channel = 0
		}
		if _, err := q.conn.Write(frames.AppendMethod(nil, channel, m)); err != nil {
			for range q.answers { // whoever answers is not held up
			}
		}
	}
}

func (q *quiet) read() {
	defer close(q.published)
	r := bufio.NewReader(q.conn)
	if _, err := io.ReadFull(r, make([]byte, 8)); err != nil { // the protocol header
		return
	}
	q.answers <- &frames.ConnectionStart{VersionMinor: 9, Mechanisms: []byte("PLAIN"), Locales: []byte("en_US")}
	var bodies uint64
	for {
		head := make([]byte, 7)
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(r, payload); err != nil {
			return
		}
		switch {
		case head[0] == 3: // a body, of one frame
			bodies++
			q.published <- bodies
		case head[0] == 1:
			q.reply(frames.MethodID(binary.BigEndian.Uint32(payload)))
		}
	}
}

func (q *quiet) reply(asked frames.MethodID) {
	answers := map[frames.MethodID]frames.Method{
		frames.ConnectionStartOkID: &frames.ConnectionTune{},
		frames.ConnectionOpenID:    &frames.ConnectionOpenOk{},
		frames.ConnectionCloseID:   &frames.ConnectionCloseOk{},
		frames.ChannelOpenID:       &frames.ChannelOpenOk{},
		frames.ConfirmSelectID:     &frames.ConfirmSelectOk{},
	}
	if m := answers[asked]; m != nil {
		q.answers <- m
	}
}

// job is something to publish.
func job() amqp.Publishing { return amqp.Publishing{Headers: amqp.Table{}, Body: []byte("x")} }

// quietPublisher is a publisher to such a broker.
func quietPublisher(t *testing.T, patience time.Duration) (*publisher, *quiet) {
	t.Helper()
	conn, q := dialQuiet(t)
	p, err := newPublisher(conn, patience)
	require.NoError(t, err)
	return p, q
}

// inBackground has a job published and returns what comes of it.
func inBackground(ctx context.Context, p *publisher) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.publish(ctx, "", "mail.retry.1s", job()) }()
	return done
}

// TestPublisherNotConfirmed: a publish that the broker swallows ends after a while, with its connection; those that were
// published with it say the same, others that their connection is gone.
func TestPublisherNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := quietPublisher(t, patience)
		began := time.Now()
		swallowed := inBackground(t.Context(), p)
		<-q.published
		time.Sleep(patience / 3)
		with := inBackground(t.Context(), p)
		<-q.published
		time.Sleep(patience / 2)
		other := inBackground(t.Context(), p)
		<-q.published
		require.ErrorIs(t, <-swallowed, errUnconfirmed)
		require.Equal(t, patience, time.Since(began))
		require.ErrorIs(t, <-with, errUnconfirmed)
		err := <-other
		require.Error(t, err)
		require.NotErrorIs(t, err, errUnconfirmed)
		require.True(t, p.over())
		require.Equal(t, 2*patience, p.patienceAfter(), "nothing at all was confirmed: it may be slow")
		synctest.Wait()
		close(q.answers)
	})
}

// TestPublisherPatience: the time to wait doubles up to its most, and is as before once something was confirmed.
func TestPublisherPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := quietPublisher(t, mostPatience)
		first := inBackground(t.Context(), p)
		q.confirm(<-q.published)
		require.NoError(t, <-first)
		require.ErrorIs(t, <-inBackground(t.Context(), p), errUnconfirmed)
		require.Equal(t, patience, p.patienceAfter())
		p.confirmed.Store(false)
		require.Equal(t, mostPatience, p.patienceAfter())
		synctest.Wait()
		close(q.answers)
	})
}

// TestPublisherBlocked: while the broker is short of something there is no hurry, and it has all its time from then on.
func TestPublisherBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := quietPublisher(t, patience)
		done := inBackground(t.Context(), p)
		n := <-q.published
		q.answers <- &frames.ConnectionBlocked{Reason: "low on memory"}
		time.Sleep(10 * time.Hour)
		q.answers <- &frames.ConnectionUnblocked{}
		time.Sleep(patience - time.Second)
		q.confirm(n)
		require.NoError(t, <-done)

		lost := inBackground(t.Context(), p)
		<-q.published
		q.answers <- &frames.ConnectionBlocked{Reason: "low on disk"}
		time.Sleep(time.Hour)
		q.answers <- &frames.ConnectionUnblocked{}
		synctest.Wait()
		freed := time.Now()
		require.ErrorIs(t, <-lost, errUnconfirmed)
		require.Less(t, time.Since(freed), 2*patience+time.Second)
		require.GreaterOrEqual(t, time.Since(freed), patience)
		close(q.answers)
	})
}

// TestPublisherGivenUp: whoever does not want to wait any more does not.
func TestPublisherGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := quietPublisher(t, patience)
		why := errors.New("the job has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := inBackground(ctx, p)
		<-q.published
		cancel(why)
		require.ErrorIs(t, <-done, why)
		require.False(t, p.over())
		p.line.close()
		synctest.Wait()
		close(q.answers)
	})
}
