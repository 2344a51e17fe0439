package proxy

import (
	"errors"
	"os"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// wholeFrameLimit bounds method and header frames where no frame_max does, in octets.
const wholeFrameLimit = 16 << 20

// shown is how many octets of a body frame are shown when it turns out to have no end, as in RabbitMQ.
const shown = 16

// relay is one direction of a session: it reads one socket, has the router decide frame by frame and writes to the other.
// One goroutine at a time runs it, and none while it is parked.
type relay struct {
	s    *session
	in   *reader
	out  *outlet
	from *pulse // of the peer that is read

	frameMax func() uint32                                 // for frames that come in; session.mu held
	pieceMax func() uint32                                 // for body frames that go out, 0: as they came; session.mu held
	messages func(b []byte, out *router.Parts, at int) int // whole ones that need no more than a look
	frame    func(frames.Frame) router.Verdict
	body     func(frames.Head) router.Verdict
	sent     func(channel uint16)
	holds    func(channel uint16) bool // nil: never

	batch *batch // while a read is dealt with
	need  int    // octets of the frame at the front of the buffer, when it must be whole

	// The body frame that is being streamed.
	left    uint64 // octets to come, end octet included; 0: between frames
	piece   uint64 // payload octets to come before it is cut, when it is larger than the receiver takes
	size    uint32 // of the whole payload
	first   []byte // its first octets, when its end is in a later read
	channel uint16
	drop    bool

	parking
}

// run relays until the socket it reads ends, and returns why, or errParked. nil: the proxy has closed the connection and the client has confirmed.
func (d *relay) run() error {
	if d.fault != nil {
		return d.fault
	}
	for first := len(d.in.unread()) > 0; ; first = false {
		if !first {
			err := d.in.fill(min(d.need, largeBuffer)) // more is made room for as it comes, whatever a head announces
			if errors.Is(err, os.ErrDeadlineExceeded) {
				if err = d.s.interrupted(d, err); err == nil {
					continue
				}
			}
			if err != nil {
				return err
			}
		}
		d.from.beat()
		done, err := d.pass()
		if err != nil || done {
			return err
		}
		if err := d.s.breathe(d); err != nil {
			return err
		}
		d.from.rest()
	}
}

// pass decides on what has been read and writes it.
func (d *relay) pass() (done bool, err error) {
	d.batch = getBatch()
	data := d.in.unread()
	n, mine, dead, fault := d.plan(data)
	var werr error
	if !dead {
		var sent int64
		sent, werr = d.batch.write(d.out.conn, data, mine)
		d.out.total += sent
	}
	done, err = d.settle(werr, fault)
	d.batch.putBack(mine)
	d.batch = nil
	d.in.consume(n)
	return done, err
}

// plan takes the token, decides and fills the batch. n is how many octets of data are dealt with, mine the router's octets that
// the batch refers to, dead that nothing can be written any more.
func (d *relay) plan(data []byte) (n int, mine []byte, dead bool, err error) {
	s := d.s
	if d.left > 0 {
		s.mu.Lock() // the token is ours still
	} else {
		s.acquire(d.out)
	}
	defer s.mu.Unlock() // the router may panic
	s.rt.Fresh()
	if d.left == 0 {
		d.addOwn() // else they wait for the frame's end
	}
	if d.out.size() == 0 {
		d.out.take(d.batch.spare) // lent, so that a connection owns no buffer between reads
		d.batch.spare = nil
	}
	n, err = d.decide(data)
	if d.batch.HasOwn() || d.out.size() == 0 {
		mine = d.out.take(nil)
	}
	dead = d.out.dead
	if err != nil { // known before anything is written: the broker may end the connection for what it gets, and the reason is ours
		err = s.malformed(d, err)
	}
	s.after(d.out)
	return n, mine, dead, err
}

// settle gives the token back, unless a frame is half through. werr is what the write has met, fault what the relay ends for.
func (d *relay) settle(werr, fault error) (done bool, err error) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if werr != nil {
		s.writeFailed(d.out, werr)
	}
	if fault != nil {
		d.left = 0
	}
	d.out.inside = d.left > 0
	if d.left == 0 {
		s.yield(d.out)
	}
	// After a close of the client's or the broker's it is their part to end the TCP connections, but for a broker that has ended its own
	// without waiting for close-ok.
	return s.rt.Closed() && (s.rt.Raised() != nil || s.gone.broker && d.out == &s.up), fault
}

// decide walks the frames in data and returns how many octets are dealt with.
func (d *relay) decide(data []byte) (int, error) {
	pos := 0
	d.need = 0
	most := d.frameMax()
	for pos < len(data) {
		rest := data[pos:]
		if d.left > 0 {
			n, err := d.stream(rest, pos)
			pos += n
			if err != nil {
				return pos, err
			}
			continue
		}
		if n := d.messages(rest, &d.batch.Parts, pos); n > 0 {
			pos += n
			continue
		}
		if len(rest) < frames.HeadSize {
			break
		}
		h := frames.ParseHead(rest)
		if err := h.Check(most); err != nil {
			if d.need = quoted(h, most, len(rest)); d.need > 0 {
				break
			}
			return pos, frames.Unreadable(rest, most)
		}
		if h.Type == frames.TypeBody && (d.holds == nil || !d.holds(h.Channel)) {
			pos += d.startBody(h, pos)
			continue
		}
		if h.Size > wholeFrameLimit {
			return pos, &frames.Exception{Code: frames.FrameError, Text: "frame too large"}
		}
		f, err := frames.Next(rest, 0)
		if err != nil {
			if errors.Is(err, frames.ErrShort) {
				d.need = int(h.Size) + frames.Overhead
				break
			}
			return pos, err
		}
		if d.frame(f) == router.Forward {
			d.batch.Add(router.FromRead, pos, pos+len(f))
		}
		pos += len(f)
		d.addOwn()
		if h.Channel == 0 {
			most = d.frameMax() // a tune-ok may have set it
		}
	}
	return pos, nil
}

// quoted is how many octets of a frame of unknown type must be there before it is refused, for RabbitMQ's text shows its payload. 0: there
// are as many, or it is refused for its size.
func quoted(h frames.Head, most uint32, have int) int {
	all := int(h.Size) + frames.Overhead
	if most > 0 && h.Size > most || h.Size > wholeFrameLimit || have >= all {
		return 0
	}
	return all
}

// addOwn puts the router's octets that are not in the batch yet into it, at this place.
func (d *relay) addOwn() { d.batch.AddOwn(d.out.size()) }

// startBody begins to stream a body frame and returns how many octets of its head are dealt with.
func (d *relay) startBody(h frames.Head, pos int) int {
	d.drop = d.body(h) == router.Drop
	d.channel = h.Channel
	d.left = uint64(h.Size) + 1
	d.size, d.first = h.Size, d.first[:0]
	d.piece = 0
	switch most := d.pieceMax(); {
	case d.drop:
	case most > 0 && uint64(h.Size)+frames.Overhead > uint64(most):
		d.piece = uint64(most - frames.Overhead)
		d.batch.addHead(false, h.Channel, uint32(d.piece))
	default:
		d.batch.Add(router.FromRead, pos, pos+frames.HeadSize)
	}
	return frames.HeadSize
}

// stream passes as much of the current body frame as is there.
func (d *relay) stream(rest []byte, pos int) (int, error) {
	n := int(min(uint64(len(rest)), d.left))
	if d.piece > 0 {
		n = min(n, int(d.piece))
	}
	if uint64(n) == d.left && rest[n-1] != frames.End {
		if !d.drop && d.out == &d.s.up {
			d.batch.Add(router.FromRead, pos, pos+n) // for the broker to refuse
		}
		return n, frames.WrongEnd(frames.TypeBody, d.size, append(d.first, rest[:n-1]...), rest[n-1]) // left stays above 0: the frame has no end
	}
	if uint64(n) < d.left && len(d.first) < shown {
		d.first = append(d.first, rest[:min(n, shown)]...)
	}
	if !d.drop {
		d.batch.Add(router.FromRead, pos, pos+n)
	}
	d.left -= uint64(n)
	if d.piece > 0 {
		if d.piece -= uint64(n); d.piece == 0 && d.left > 1 {
			d.cut()
		}
	}
	if d.left == 0 {
		d.sent(d.channel)
		d.addOwn()
	}
	return n, nil
}

// cut ends a body frame that goes out and begins the next.
func (d *relay) cut() {
	size := d.left - 1
	if most := uint64(d.pieceMax() - frames.Overhead); size > most {
		size = most
		d.piece = most
	}
	d.batch.addHead(true, d.channel, uint32(size))
}
