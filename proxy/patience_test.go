package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// say has an end of the play send methods.
func (p *play) say(client bool, id uint16, methods ...frames.Method) {
	for _, m := range methods {
		p.frame(client, frames.AppendMethod(nil, id, m))
	}
}

// held plays a client whose request the broker owes answers to, n of them, and that has the proxy hold what comes behind.
func (p *play) held(n int) {
	for range n {
		p.say(true, 1, &frames.QueueDeclare{Queue: "q"})
	}
	p.say(true, 1, &frames.QueueDeclare{Queue: testExchange, Passive: true})
	p.frame(true, publish(1, "other", []byte("held")))
}

// over returns a channel that is closed when the session is over.
func (p *play) over() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.srv.running.Wait()
	}()
	return done
}

// beyond sends more than the proxy is ready to hold.
func (p *play) beyond() {
	for sent := 0; sent <= router.HeldLimit+2*largeBuffer; sent += 4000 {
		p.frame(true, publish(1, "other", pattern(4000)))
	}
}

// A client that is not read because the broker does not answer has gone unseen, with all that it has sent.
func TestGoneWhileHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, playHandshake)
		p.held(1)
		p.beyond()
		p.finish(clientCloses)
	})
}

// If it is there still, it hears why it is not served any longer.
func TestHeldBackForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, playHandshake)
		p.held(1)
		p.beyond()
		var told frames.ConnectionClose
		began := time.Now()
		for told.ReplyCode == 0 && time.Since(began) < endIn {
			time.Sleep(time.Second)
			p.read(&p.client, func(f frames.Frame) string {
				if f.Method() == frames.ConnectionCloseID {
					require.NoError(t, told.Decode(f.Args()))
				}
				return p.talk.ToClient(f)
			})
		}
		require.GreaterOrEqual(t, time.Since(began), heldWait)
		require.EqualValues(t, frames.InternalError, told.ReplyCode)
		require.Contains(t, told.ReplyText, "the broker does not answer")
		p.finish(clientCloses)
	})
}

// A broker that answers, however slowly, gets all that a client has sent that has gone.
func TestSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const answers = 6
		p := newPlay(t, playHandshake)
		p.held(answers)
		require.NoError(t, p.client.conn.Close())
		over := p.over()
		for range answers {
			time.Sleep(heldWait * 3 / 4)
			p.drain()
			p.s.mu.Lock()
			require.True(t, p.s.rt.Holding())
			p.s.mu.Unlock()
			p.deliver(false, p.talk.Answer(1, 1))
			synctest.Wait()
		}
		published := false
		p.read(&p.broker, func(f frames.Frame) string {
			published = published || f.Method() == frames.BasicPublishID
			return p.talk.ToBroker(f)
		})
		require.True(t, published)
		require.True(t, p.await(over))
	})
}

// A broker that has said that it is blocked may take any time, as long as its heartbeats come.
func TestGoneWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10
		p := newPlay(t, 0)
		p.say(false, 0, startMethod)
		p.say(true, 0, startOk("connection.blocked"))
		p.say(false, 0, &frames.ConnectionTune{ChannelMax: 7, Heartbeat: interval})
		p.say(true, 0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: 8192, Heartbeat: interval}, &frames.ConnectionOpen{VirtualHost: "/"})
		p.say(false, 0, &frames.ConnectionOpenOk{}, &frames.ConnectionBlocked{Reason: "low on memory"})
		p.say(true, 1, &frames.ChannelOpen{})
		p.say(false, 1, &frames.ChannelOpenOk{})
		p.held(1)
		require.NoError(t, p.client.conn.Close())
		over := p.over()
		for began := time.Now(); time.Since(began) < 3*heldWait; time.Sleep(interval / 2 * time.Second) {
			p.drain()
			require.False(t, p.s.isOver())
			p.deliver(false, heartbeat)
		}
		began := time.Now()
		require.True(t, p.await(over))
		require.Less(t, time.Since(began), 4*interval*time.Second)
	})
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx.Err() != nil || s.gone.broker
}
