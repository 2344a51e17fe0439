package proxy

import (
	"encoding/binary"
	"errors"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// wholeFrameLimit bounds method and header frames where no frame_max does, in octets.
const wholeFrameLimit = 16 << 20

// relay is one direction of a session: it reads one socket, has the router decide frame by frame and writes to the other.
// One goroutine runs it.
type relay struct {
	s   *session
	in  *reader
	out *outlet

	frameMax func() uint32 // for frames that come in; session.mu held
	pieceMax func() uint32 // for body frames that go out, 0: as they came; session.mu held
	frame    func(frames.Frame) router.Verdict
	body     func(frames.Head) router.Verdict
	sent     func(channel uint16)
	holds    func(channel uint16) bool // nil: never

	batch batch
	need  int // octets of the frame at the front of the buffer, when it must be whole

	// The body frame that is being streamed.
	left    uint32 // octets to come, end octet included; 0: between frames
	piece   uint32 // payload octets to come before it is cut, when it is larger than the receiver takes
	channel uint16
	drop    bool
}

// run relays until the socket it reads ends, and returns why. nil: the closing handshake is complete.
func (d *relay) run() error {
	for {
		if err := d.in.fill(d.need); err != nil {
			return err
		}
		done, err := d.pass()
		if err != nil || done {
			return err
		}
		if err := d.s.breathe(d); err != nil {
			return err
		}
	}
}

// pass decides on what has been read and writes it.
func (d *relay) pass() (done bool, err error) {
	s := d.s
	if d.left > 0 {
		s.mu.Lock() // the token is ours still
	} else {
		s.acquire(d.out)
	}
	d.batch.reset()
	own := d.out.size()
	d.batch.add(true, 0, own)
	data := d.in.unread()
	n, err := d.decide(data, own)
	mine := d.out.take(d.out.spare)
	d.out.spare = nil
	dead := d.out.dead
	s.after(d.out)
	s.mu.Unlock()

	var werr error
	if !dead {
		var sent int64
		sent, werr = d.batch.write(d.out.conn, data, mine)
		d.out.total += sent
	}

	s.mu.Lock()
	d.out.keep(mine)
	if werr != nil {
		s.writeFailed(d.out, werr)
	}
	if err != nil {
		err = s.malformed(d, err)
	}
	if d.left == 0 || err != nil {
		s.yield(d.out)
	}
	done = s.rt.Closed()
	s.mu.Unlock()
	d.in.consume(n)
	return done, err
}

// decide walks the frames in data and returns how many octets are dealt with. own is how many of the router's octets are in the batch.
func (d *relay) decide(data []byte, own int) (int, error) {
	pos := 0
	d.need = 0
	for pos < len(data) {
		rest := data[pos:]
		if d.left > 0 {
			n, err := d.stream(rest, pos, &own)
			pos += n
			if err != nil {
				return pos, err
			}
			continue
		}
		if len(rest) < frames.HeadSize {
			break
		}
		h := frames.ParseHead(rest)
		if err := h.Check(d.frameMax()); err != nil {
			return pos, err
		}
		if h.Type == frames.TypeBody && (d.holds == nil || !d.holds(h.Channel)) {
			pos += d.startBody(h, pos, &own)
			continue
		}
		if h.Size > wholeFrameLimit {
			return pos, &frames.Exception{Code: frames.FrameError, Text: "frame too large"}
		}
		f, err := frames.Next(rest, 0)
		if errors.Is(err, frames.ErrShort) {
			d.need = int(h.Size) + frames.Overhead
			break
		}
		if err != nil {
			return pos, err
		}
		if d.frame(f) == router.Forward {
			d.batch.add(false, pos, pos+len(f))
		}
		pos += len(f)
		own = d.addOwn(own)
	}
	return pos, nil
}

// addOwn puts the octets that the router has made since into the batch, at this place.
func (d *relay) addOwn(own int) int {
	now := d.out.size()
	d.batch.add(true, own, now)
	return now
}

// startBody begins to stream a body frame and returns how many octets of its head are dealt with.
func (d *relay) startBody(h frames.Head, pos int, own *int) int {
	d.drop = d.body(h) == router.Drop
	d.channel = h.Channel
	d.left = h.Size + 1
	d.piece = 0
	if most := d.pieceMax(); most > 0 && h.Size+frames.Overhead > most && !d.drop {
		d.piece = most - frames.Overhead
		d.s.rt.InjectDown(bodyHead(d.s.head[:0], h.Channel, d.piece))
		*own = d.addOwn(*own)
		return frames.HeadSize
	}
	if !d.drop {
		d.batch.add(false, pos, pos+frames.HeadSize)
	}
	return frames.HeadSize
}

// stream passes as much of the current body frame as is there.
func (d *relay) stream(rest []byte, pos int, own *int) (int, error) {
	n := min(len(rest), int(d.left))
	if d.piece > 0 {
		n = min(n, int(d.piece))
	}
	if !d.drop {
		d.batch.add(false, pos, pos+n)
	}
	d.left -= uint32(n)
	if d.piece > 0 {
		if d.piece -= uint32(n); d.piece == 0 && d.left > 1 {
			d.cut(own)
		}
	}
	if d.left > 0 {
		return n, nil
	}
	if rest[n-1] != frames.End {
		return n, &frames.Exception{Code: frames.FrameError, Text: "frame end octet missing"}
	}
	d.sent(d.channel)
	*own = d.addOwn(*own)
	return n, nil
}

// cut ends a body frame that goes out and begins the next.
func (d *relay) cut(own *int) {
	size := d.left - 1
	if most := d.pieceMax() - frames.Overhead; size > most {
		size = most
		d.piece = most
	}
	b := append(d.s.head[:0], frames.End)
	d.s.rt.InjectDown(bodyHead(b, d.channel, size))
	*own = d.addOwn(*own)
}

func bodyHead(dst []byte, channel uint16, size uint32) []byte {
	dst = append(dst, frames.TypeBody)
	dst = binary.BigEndian.AppendUint16(dst, channel)
	return binary.BigEndian.AppendUint32(dst, size)
}
