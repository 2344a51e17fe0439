package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// randWay is one of the ways in which a session is played, with its two connections. Several families play on them at once, each with
// channels of its own.
type randWay struct {
	way   way
	at    string // URL
	conns [2]*randConn
	max   int // octets of a body frame's payload

	mu      sync.Mutex // guards what follows, and what was heard
	changed *sync.Cond
	heard   map[randKey]*heard
	ended   error // why nothing more comes
}

// randConn is one connection; writing guards that frames go out whole.
type randConn struct {
	writing sync.Mutex
	conn    net.Conn
}

// randKey is a channel of one of the connections.
type randKey struct {
	conn, number int
}

// heard is what has come on a channel and has not been looked at. Answers and deliveries have an order among themselves each.
type heard struct {
	answers, deliveries, cancels []*said
	confirms                     map[uint64]bool
	told                         uint64 // the last one that was looked at
	whole                        *said  // under way
	marks                        int    // answers to marks
	closed                       bool   // by the broker, and not opened again
}

// mark is asked last, to know when everything before has been answered: nothing else in a session is answered like that.
var mark = &frames.AccessRequest{Realm: "/data"}

func openRandWay(t *testing.T, w way, url string, frameMax uint32) *randWay {
	t.Helper()
	p := &randWay{way: w, at: url, heard: map[randKey]*heard{}, max: int(frameMax) - frames.Overhead}
	p.changed = sync.NewCond(&p.mu)
	for i := range p.conns {
		r := rawTCP(t, url)
		r.login(url, func(ok *frames.ConnectionTuneOk) { ok.FrameMax = frameMax })
		p.conns[i] = &randConn{conn: r.conn}
		_ = r.conn.SetReadDeadline(time.Time{})
		go p.listen(i, r.conn, r.buf)
	}
	return p
}

// listen takes what comes on a connection until it ends.
func (p *randWay) listen(conn int, from io.Reader, begun []byte) {
	in := bufio.NewReader(io.MultiReader(strings.NewReader(string(begun)), from))
	for {
		f, err := readFrame(in)
		p.mu.Lock()
		if err == nil {
			err = p.take(conn, f)
		}
		if err != nil {
			p.ended = errors.Join(p.ended, fmt.Errorf("%s, connection %d: %w", p.way, conn, err))
		}
		p.changed.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func readFrame(in io.Reader) (frames.Frame, error) {
	f := make([]byte, frames.HeadSize)
	if _, err := io.ReadFull(in, f); err != nil {
		return nil, err
	}
	f = append(f, make([]byte, frames.ParseHead(f).Size+1)...)
	if _, err := io.ReadFull(in, f[frames.HeadSize:]); err != nil {
		return nil, err
	}
	return frames.Next(f, 0)
}

func (p *randWay) on(key randKey) *heard {
	h := p.heard[key]
	if h == nil {
		h = &heard{confirms: map[uint64]bool{}}
		p.heard[key] = h
	}
	return h
}

// take adds a frame to what was heard.
func (p *randWay) take(conn int, f frames.Frame) error {
	h := p.on(randKey{conn, int(f.Channel())})
	switch f.Type() {
	case frames.TypeHeartbeat:
		return nil
	case frames.TypeMethod:
		s := newSaid(f)
		if h.whole != nil || s.method == nil || f.Channel() == 0 {
			return fmt.Errorf("%v came inside %v", s, h.whole)
		}
		if s.id == frames.BasicDeliverID || s.id == frames.BasicGetOkID || s.id == frames.BasicReturnID {
			h.whole = s
			return nil
		}
		h.add(s)
		return nil
	case frames.TypeHeader:
		if h.whole == nil || h.whole.header != nil {
			return fmt.Errorf("a header out of place: %q", f)
		}
		h.whole.header = slices.Clone(f.Payload())
		h.whole.left, _ = frames.ContentBodySize(h.whole.header)
	case frames.TypeBody:
		n := uint64(len(f.Payload()))
		if h.whole == nil || h.whole.header == nil || n > h.whole.left || int(n) > p.max {
			return fmt.Errorf("a body of %d octets out of place", n)
		}
		h.whole.left -= n
		h.whole.body = append(h.whole.body, f.Payload()...)
	}
	if h.whole.left == 0 {
		h.add(h.whole)
		h.whole = nil
	}
	return nil
}

// add takes a method that is whole.
func (h *heard) add(s *said) {
	switch m := s.method.(type) {
	case *frames.AccessRequestOk:
		h.marks++
	case *frames.BasicDeliver:
		h.deliveries = append(h.deliveries, s)
	case *frames.BasicCancel:
		h.cancels = append(h.cancels, s)
	case *frames.BasicAck:
		h.confirm(m.DeliveryTag, m.Multiple, true)
	case *frames.BasicNack:
		h.confirm(m.DeliveryTag, m.Multiple, false)
	case *frames.ChannelOpenOk:
		h.confirms, h.told = map[uint64]bool{}, 0
		h.answers = append(h.answers, s)
	case *frames.ChannelClose:
		h.closed = true
		h.answers = append(h.answers, s)
	default:
		h.answers = append(h.answers, s)
	}
}

func (h *heard) confirm(tag uint64, multiple, ack bool) {
	h.confirms[tag] = ack
	for lower := tag - 1; multiple && lower > 0; lower-- {
		if _, known := h.confirms[lower]; known {
			continue // an earlier one may have come out of turn
		}
		h.confirms[lower] = ack
	}
}

// await waits until done, which is called with mu held.
func (p *randWay) await(what string, done func() bool) error {
	late := false
	timer := time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.changed.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !done() {
		switch {
		case p.ended != nil:
			return fmt.Errorf("waiting for %s: %w", what, p.ended)
		case late:
			return fmt.Errorf("%s: %s did not come", p.way, what)
		}
		p.changed.Wait()
	}
	return nil
}

// write sends octets that are whole frames.
func (p *randWay) write(conn int, b []byte) error {
	c := p.conns[conn]
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.conn.Write(b)
	return err
}

// ask says something on a channel and returns its answer, the next one that comes there.
func (p *randWay) ask(key randKey, m frames.Method) (*said, error) {
	if err := p.write(key.conn, method(uint16(key.number), m)); err != nil {
		return nil, err
	}
	var s *said
	err := p.await("the answer to "+m.ID().String(), func() bool {
		h := p.on(key)
		if len(h.answers) == 0 {
			return false
		}
		s, h.answers = h.answers[0], h.answers[1:]
		return true
	})
	return s, err
}

// reopen answers a close of the channel and opens it again.
func (p *randWay) reopen(key randKey) error {
	p.mu.Lock()
	kept := p.on(key).answers
	*p.on(key) = heard{confirms: map[uint64]bool{}, deliveries: p.on(key).deliveries, cancels: p.on(key).cancels}
	p.mu.Unlock()
	if err := p.write(key.conn, method(uint16(key.number), &frames.ChannelCloseOk{})); err != nil {
		return err
	}
	if err := p.write(key.conn, method(uint16(key.number), &frames.ChannelOpen{})); err != nil {
		return err
	}
	return p.await("channel.open-ok", func() bool {
		h := p.on(key)
		if len(h.answers) == 0 {
			return false
		}
		h.answers = append(kept, h.answers...)
		return true
	})
}

// named returns a copy of a method in which placeholders are replaced.
func named(m frames.Method, names map[string]string) frames.Method {
	v := reflect.New(reflect.TypeOf(m).Elem())
	v.Elem().Set(reflect.ValueOf(m).Elem())
	for i := range v.Elem().NumField() {
		if field := v.Elem().Field(i); field.Kind() == reflect.String {
			if name, ok := names[field.String()]; ok {
				field.SetString(name)
			}
		}
	}
	return v.Interface().(frames.Method)
}
