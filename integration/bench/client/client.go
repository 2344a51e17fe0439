// Package client is an AMQP client for measuring: messages are encoded before the clock starts and written in large
// pieces, so that what is measured is the other side. It is used by one goroutine.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// Client is a connection with open channels, numbered from 1.
type Client struct {
	net  net.Conn
	buf  []byte
	from int // buf[from:to] is read and not looked at
	to   int
	out  []byte
	stop func() bool

	consumers int    // attached so far
	delivered uint64 // the last delivery tag

	writing sync.Mutex // one whole write at a time, where heartbeats are written beside others
}

// number is the channel that everything happens on where nothing else is said.
const number = 1

// The read buffer grows with what comes: an idle connection needs little. The largest holds the largest frame behind
// the rest of another.
const (
	firstBuffer   = 4 << 10
	largestBuffer = 256 << 10
)

// Options are what a connection is to be like. The zero value has one channel and no heartbeats.
type Options struct {
	Heartbeat time.Duration // to ask for, whole seconds; 0: none
	Channels  int           // to open; 0: one
	Unsent    int           // octets that the kernel may hold before a write blocks, about; 0: its own choice
}

// Dial connects, logs in as guest to vhost "/" and opens a channel. When ctx is done the connection is closed, which
// ends whatever the client is doing.
func Dial(ctx context.Context, address string) (*Client, error) {
	return DialWith(ctx, address, Options{})
}

// DialWith is Dial for a connection of another kind.
func DialWith(ctx context.Context, address string, o Options) (*Client, error) {
	var d net.Dialer
	n, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{net: n, buf: make([]byte, firstBuffer)}
	c.stop = context.AfterFunc(ctx, func() { _ = n.Close() })
	if tcp, is := n.(*net.TCPConn); is && o.Unsent > 0 {
		if err := tcp.SetWriteBuffer(o.Unsent); err != nil {
			return nil, errors.Join(fmt.Errorf("client: %w", err), c.Close())
		}
	}
	if err := c.handshake(o); err != nil {
		return nil, errors.Join(fmt.Errorf("client: handshake: %w", err), c.Close())
	}
	return c, nil
}

func (c *Client) handshake(o Options) error {
	if _, err := c.net.Write(frames.ProtocolHeader[:]); err != nil {
		return err
	}
	if err := c.expect(&frames.ConnectionStart{}); err != nil {
		return err
	}
	var properties frames.Table
	properties = frames.AppendString(properties, "product", "shardmq bench")
	startOk := &frames.ConnectionStartOk{ClientProperties: properties, Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "en_US"}
	var tune frames.ConnectionTune
	if err := c.call(0, startOk, &tune); err != nil {
		return err
	}
	beat := uint16(o.Heartbeat / time.Second)
	if err := c.send(0, &frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax, Heartbeat: beat}); err != nil {
		return err
	}
	if err := c.call(0, &frames.ConnectionOpen{VirtualHost: "/"}, &frames.ConnectionOpenOk{}); err != nil {
		return err
	}
	for channel := range max(o.Channels, 1) {
		if err := c.call(uint16(channel+1), &frames.ChannelOpen{}, &frames.ChannelOpenOk{}); err != nil {
			return err
		}
	}
	return nil
}

// Shut closes the connection in order: it asks, waits for the answer and closes the socket.
func (c *Client) Shut() error {
	err := c.call(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "done"}, &frames.ConnectionCloseOk{})
	if err != nil {
		err = fmt.Errorf("client: close: %w", err)
	}
	return errors.Join(err, c.Close())
}

// Close closes the connection without ceremony.
func (c *Client) Close() error {
	c.stop()
	return c.net.Close()
}

// Call sends a method on the channel and decodes the reply into answer. Anything else that arrives is an error, which
// contains the text when it is a channel.close or connection.close.
func (c *Client) Call(request, answer frames.Method) error {
	return c.call(number, request, answer)
}

func (c *Client) call(channel uint16, request, answer frames.Method) error {
	if err := c.send(channel, request); err != nil {
		return err
	}
	return c.expect(answer)
}

func (c *Client) send(channel uint16, m frames.Method) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.out = frames.AppendMethod(c.out[:0], channel, m)
	_, err := c.net.Write(c.out)
	return err
}

// expect reads one method.
func (c *Client) expect(answer frames.Method) error {
	f, err := c.next()
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", answer.ID(), err)
	}
	if f.Method() != answer.ID() {
		return unexpected(f, answer.ID())
	}
	return answer.Decode(f.Args())
}

// unexpected makes an error of a frame that should not be there.
func unexpected(f frames.Frame, wanted frames.MethodID) error {
	var closed frames.ChannelClose
	switch f.Method() {
	case frames.ChannelCloseID, frames.ConnectionCloseID: // the same arguments
		if err := closed.Decode(f.Args()); err != nil {
			return err
		}
		return fmt.Errorf("%s %d %s", f.Method(), closed.ReplyCode, closed.ReplyText)
	}
	return fmt.Errorf("a frame of type %d (%s) instead of %s", f.Type(), f.Method(), wanted)
}

// next returns the next frame that is no heartbeat. It is valid until the next call.
func (c *Client) next() (frames.Frame, error) {
	for {
		f, err := frames.Next(c.buf[c.from:c.to], 0)
		switch {
		case err == nil:
			c.from += len(f)
			if f.Type() != frames.TypeHeartbeat {
				return f, nil
			}
		case errors.Is(err, frames.ErrShort):
			if err := c.fill(); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// fill reads more, behind what has not been looked at yet.
func (c *Client) fill() error {
	rest := c.buf[c.from:c.to]
	if c.to == len(c.buf) && len(c.buf) < largestBuffer { // there is more than fits
		c.buf = make([]byte, 2*len(c.buf))
	}
	c.from, c.to = 0, copy(c.buf, rest)
	if c.to == len(c.buf) {
		return fmt.Errorf("a frame of more than %d octets", len(c.buf))
	}
	n, err := c.net.Read(c.buf[c.to:])
	c.to += n
	return err
}
