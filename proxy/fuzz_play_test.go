package proxy

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// frame sends whole frames, in two parts if a cut is due.
func (p *play) frame(client bool, b []byte) {
	if len(b) == 0 {
		return
	}
	if p.cut > 0 {
		at := p.cut % len(b)
		p.cut = 0
		p.deliver(client, b[:at])
		synctest.Wait()
		b = b[at:]
	}
	p.send(client, b)
}

// send sends octets and, unless more are to come with them, waits until all has been dealt with.
func (p *play) send(client bool, b []byte) {
	p.deliver(client, b)
	if p.joined {
		p.joined = false
		return
	}
	p.drain()
}

func (p *play) deliver(client bool, b []byte) {
	e, tell := &p.client, p.talk.FromClient
	if !client {
		e, tell = &p.broker, p.talk.FromBroker
	}
	if e.conn == nil || len(b) == 0 {
		return
	}
	p.sent += len(b)
	e.out = append(e.out, b...)
	for {
		fr, err := frames.Next(e.out, p.mostOf(client))
		if err != nil {
			if !errors.Is(err, frames.ErrShort) {
				p.garbled = true
				p.talk.Garbled(client)
			}
			break
		}
		p.blocked = p.blocked || fr.Method() == frames.ConnectionBlockedID
		p.log("sends", client, fr)
		tell(fr)
		e.out = e.out[len(fr):]
	}
	if len(e.out) >= frames.HeadSize && e.out[0] == frames.TypeBody {
		p.talk.Begins(client, frames.ParseHead(e.out))
	}
	e.conn.put(b)
}

// log is for looking at one input, with -v.
func (p *play) log(what string, client bool, f frames.Frame) {
	if testing.Verbose() {
		p.t.Logf("client %t %s %s type %d channel %d, %d octets: %.80q", client, what, f.Method(), f.Type(), f.Channel(), len(f), f)
	}
}

// mostOf is the frame_max that the proxy holds an end to.
func (p *play) mostOf(client bool) uint32 {
	if !client || p.s == nil {
		return 0
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.clientFrameMax()
}

// drain lets the ends read what there is for them, again and again until nothing more comes.
func (p *play) drain() {
	for more := true; more; {
		synctest.Wait()
		more = p.read(&p.client, p.talk.ToClient)
		more = p.read(&p.broker, p.talk.ToBroker) || more
	}
}

func (p *play) read(e *playEnd, tell func(frames.Frame) string) bool {
	if e.conn == nil || e.stalled {
		return false
	}
	b, ended := e.conn.taken()
	e.in = append(e.in, b...)
	if p.alone && bytes.HasPrefix(e.in, frames.ProtocolHeader[:]) {
		e.in = e.in[len(frames.ProtocolHeader):]
	}
	for {
		fr, err := frames.Next(e.in, 0)
		if errors.Is(err, frames.ErrShort) {
			break
		}
		if err != nil && (!p.garbled || len(e.in) > int(frames.ParseHead(e.in).Size)+frames.Overhead) {
			p.t.Fatalf("no frame comes out, or more behind one: %v: %x", err, e.in[:min(len(e.in), 64)])
		}
		if err != nil {
			break // the receiver may see what was wrong with it
		}
		p.log("    gets", e == &p.client, fr)
		if why := tell(fr); why != "" && !p.alone {
			p.t.Fatal(why)
		}
		e.in = e.in[len(fr):]
	}
	return len(b) > 0 && !ended
}

// check looks at what is kept, and for panics.
func (p *play) check() {
	for _, e := range p.logs.All() {
		if e.Level >= zapcore.ErrorLevel {
			p.t.Fatalf("%s: %v", e.Message, e.ContextMap())
		}
	}
	if p.s == nil {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if kept := p.s.rt.HeldBytes(); kept > 2*p.sent || kept > router.HeldLimit+largeBuffer {
		p.t.Fatalf("%d octets held of %d", kept, p.sent)
	}
	if b := p.s.in.buf; b != nil && len(*b) > max(largeBuffer, 4*p.sent) {
		p.t.Fatalf("a buffer of %d octets for %d", len(*b), p.sent)
	}
	if made := p.s.rt.PendingUp() + p.s.rt.PendingDown(); made > 1<<17+16*p.sent {
		p.t.Fatalf("%d octets made for %d", made, p.sent)
	}
}

// settle lets everything arrive that is on its way.
func (p *play) settle() {
	p.joined = false
	p.drain()
	if p.s == nil || p.garbled || p.client.stalled || p.broker.stalled || len(p.client.out)+len(p.broker.out) > 0 {
		return
	}
	p.s.mu.Lock()
	going := p.s.ctx.Err() == nil && !p.s.waiting && !p.s.rt.Closing() && !p.s.gone.client && !p.s.gone.broker
	p.s.mu.Unlock()
	if why := p.talk.Rest(); going && why != "" {
		p.t.Fatal(why)
	}
}

// endIn is how long a session may take to end, whatever it waits for.
const endIn = 5 * time.Minute

// finish ends the session, by one end's going if that can be, and sees that it is over.
func (p *play) finish(how byte) {
	if p.alone {
		how = clientCloses
	}
	done := make(chan struct{})
	switch how {
	case clientCloses:
		_ = p.client.conn.Close()
	case clientFinishes:
		_ = p.client.conn.CloseWrite()
	case brokerCloses:
		_ = p.broker.conn.Close()
	case brokerFinishes:
		_ = p.broker.conn.CloseWrite()
	case proxyDrains:
		p.s.goAway()
	}
	go func() {
		defer close(done)
		p.srv.running.Wait()
	}()
	ended := p.await(done)
	if !ended && (p.client.stalled || p.broker.stalled) { // whoever does not read keeps the proxy from seeing that the other is gone
		p.client.stalled, p.broker.stalled = false, false
		ended = p.await(done)
	}
	if !ended && how != bothClose && !p.blocked && !(how == proxyDrains) {
		p.t.Fatalf("the session does not end (%d)", how)
	}
	if !p.alone && !ended {
		_ = p.client.conn.Close()
		_ = p.broker.conn.Close()
		ended = p.await(done)
	}
	if !ended {
		p.t.Fatal("the session does not end, though both its ends have")
	}
	p.check()
}

// tidy ends what is left, after a failure too: the bubble would wait for it.
func (p *play) tidy() {
	for _, e := range []*playEnd{&p.client, &p.broker} {
		if e.conn != nil {
			_ = e.conn.Close()
		}
	}
	p.srv.running.Wait()
	close(p.srv.crew.over)
	for _, m := range p.others {
		m.Leave()
	}
	if p.topology != nil {
		if err := p.topology.Close(); err != nil {
			p.t.Error(err)
		}
	}
}

func (p *play) other() {
	switch {
	case p.topology == nil:
	case len(p.others) > 1:
		p.others[0].Leave()
		p.others = p.others[1:]
	default:
		x := p.topology.Lookup([]byte(testExchange)).Exchange
		m, _, err := p.topology.Group(x).Join(context.Background(), shards.JoinSpec{Notify: func(shards.Target) {}})
		if errors.As(err, new(*shards.BrokerError)) {
			return // the client's consumer is an exclusive one
		}
		if err != nil {
			p.t.Fatal(err)
		}
		p.others = append(p.others, m)
	}
}

// await waits for the session's end while the ends read on, unless they have stalled.
func (p *play) await(done <-chan struct{}) bool {
	for range endIn / time.Second {
		select {
		case <-done:
			p.drain()
			return true
		case <-time.After(time.Second):
			p.drain()
		}
	}
	return false
}
