package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/shardmq/shardmq/frames"
)

const (
	channelMax = 2047
	frameMax   = 131072

	// A connection's read buffer grows with what comes: thousands of idle ones are to take little. The largest has
	// room for any frame behind the rest of another.
	firstBuffer   = 4 << 10
	largestBuffer = 2 * frameMax
)

// errGone ends a connection that its peer closed, in order or not. The run's counts tell whether something is missing.
var errGone = errors.New("the peer has gone")

// conn is one client connection. Its reading goroutine owns everything but what mu guards.
type conn struct {
	sink     *Sink
	net      net.Conn
	channels []*channel // by number; nil: not open
	vhost    string
	ended    chan struct{}  // closed when reading has ended
	helpers  sync.WaitGroup // heartbeats and deliveries

	mu  sync.Mutex // one whole write at a time
	out []byte     // scratch for writing; guarded by mu
}

func newConn(s *Sink, c net.Conn) *conn {
	return &conn{sink: s, net: c, ended: make(chan struct{})}
}

func (c *conn) wait() { c.helpers.Wait() }

// leave ends the consumers of a connection that is gone.
func (c *conn) leave() {
	for number, ch := range c.channels {
		if ch != nil {
			c.closeChannel(uint16(number))
		}
	}
}

// run reads until the peer is gone.
func (c *conn) run() error {
	defer close(c.ended)
	defer c.leave()
	buf := make([]byte, firstBuffer)
	if _, err := io.ReadFull(c.net, buf[:len(frames.ProtocolHeader)]); err != nil {
		return errGone
	}
	if [8]byte(buf[:8]) != frames.ProtocolHeader {
		_, _ = c.net.Write(frames.ProtocolHeader[:]) // section 4.2.2: answer with what we speak
		return errGone
	}
	if err := c.send(0, startMethod()); err != nil {
		return errGone
	}
	have := 0
	for {
		n, err := c.net.Read(buf[have:])
		if err != nil {
			return errGone
		}
		used, err := c.take(buf[:have+n])
		if errors.Is(err, errStuck) {
			<-c.sink.closing
			return errGone
		}
		if err != nil {
			return err
		}
		rest := buf[used : have+n]
		if have+n == len(buf) && len(buf) < largestBuffer { // there is more than fits
			buf = make([]byte, 2*len(buf))
		}
		have = copy(buf, rest)
	}
}

// take handles the whole frames in b and returns how many octets they are.
func (c *conn) take(b []byte) (used int, err error) {
	t := c.sink.tally.Load()
	var counted uint64
	for len(b)-used >= frames.Overhead {
		head := b[used:]
		size := binary.BigEndian.Uint32(head[3:])
		if size > frameMax-frames.Overhead {
			return used, fmt.Errorf("a frame of %d octets", size)
		}
		end := used + frames.Overhead + int(size)
		if end > len(b) {
			break
		}
		if b[end-1] != frames.End {
			return used, fmt.Errorf("a frame that ends in %#x", b[end-1])
		}
		n, err := c.frame(frames.Frame(b[used:end]), t)
		if err != nil {
			return used, err
		}
		counted += n
		used = end
	}
	if counted > 0 && t != nil {
		t.add(counted)
	}
	return used, c.confirm()
}

// frame handles one frame and returns the number of messages that it completes and t counts: 0 or 1.
func (c *conn) frame(f frames.Frame, t *Tally) (uint64, error) {
	number := f.Channel()
	if int(number) < len(c.channels) {
		if ch := c.channels[number]; ch != nil && ch.expects != idle {
			return ch.content(f, t)
		}
	}
	switch f.Type() {
	case frames.TypeHeartbeat:
		c.sink.beats.Add(1)
		return 0, nil
	case frames.TypeMethod:
		if f.Method() == frames.BasicPublishID {
			return 0, c.publish(f, t)
		}
		return 0, c.method(f)
	}
	if ch := c.channel(number); ch != nil && ch.closing {
		return 0, nil // sent before the peer saw our channel.close
	}
	return 0, fmt.Errorf("a frame of type %d on channel %d without a method before it", f.Type(), number)
}

func (c *conn) channel(number uint16) *channel {
	if int(number) < len(c.channels) {
		return c.channels[number]
	}
	return nil
}

// publish begins a message.
func (c *conn) publish(f frames.Frame, t *Tally) error {
	ch := c.channel(f.Channel())
	if ch == nil {
		return fmt.Errorf("basic.publish on channel %d, which is not open", f.Channel())
	}
	if ch.closing {
		return nil
	}
	p, ok := frames.ParsePublish(f.Args())
	if !ok {
		return errors.New("a malformed basic.publish")
	}
	if string(p.Exchange) == StuckExchange {
		return errStuck
	}
	ch.begin(p, t)
	return nil
}

// confirm acknowledges what has been read so far, with one basic.ack for each channel, as RabbitMQ does under load.
func (c *conn) confirm() error {
	for number, ch := range c.channels {
		if ch == nil || !ch.confirms || ch.published == ch.acked {
			continue
		}
		ch.acked = ch.published
		if err := c.send(uint16(number), &frames.BasicAck{DeliveryTag: ch.acked, Multiple: true}); err != nil {
			return errGone
		}
	}
	return nil
}

// send writes one method. Any goroutine may.
func (c *conn) send(number uint16, m frames.Method) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = frames.AppendMethod(c.out[:0], number, m)
	_, err := c.net.Write(c.out)
	return err
}

// beat sends heartbeats until the connection ends: a peer that asked for them gives up a silent broker.
func (c *conn) beat(interval time.Duration) {
	tick := time.NewTicker(interval / 2)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-tick.C:
			c.mu.Lock()
			c.out = frames.AppendFrame(c.out[:0], frames.TypeHeartbeat, 0, nil)
			_, err := c.net.Write(c.out)
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}
}
