package control

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardmq/shardmq/shards/coordination"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a scripted broker on a loopback port: it shakes hands, opens channels
// and answers all else with what answer says.
type peer struct {
	t        *testing.T
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	refuse   uint16 // connection.close instead of tune
	text     string
	mute     bool                                                   // accept, but say nothing
	answer   func(class, method uint16, args []byte) (reply []byte) // payload; nil = none
	startOK  []byte
	accepted int
	node     string        // returns what is published, with this node's reply-to address
	beat     chan struct{} // heartbeats are sent until it is closed; nil = none
	alarm    bool          // connection.blocked at a publish, and nothing is read from then on
	denied   bool          // no rights on the proxies' own exchange
}

func newPeer(t *testing.T) *peer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &peer{t: t, listener: l, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

func (p *peer) addr() string { return p.listener.Addr().String() }

func (p *peer) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

// drop closes all connections.
func (p *peer) drop() {
	p.set(func() {
		for c := range p.conns {
			_ = c.Close()
		}
	})
}

func (p *peer) stop() {
	_ = p.listener.Close()
	p.drop()
	p.wg.Wait()
}

func (p *peer) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.set(func() { p.conns[c] = true; p.accepted++ })
		p.wg.Go(func() {
			defer func() { _ = c.Close() }()
			p.serve(c, bufio.NewReader(c))
		})
	}
}

func (p *peer) serve(c net.Conn, r *bufio.Reader) {
	if _, err := io.ReadFull(r, make([]byte, 8)); err != nil { // protocol header
		return
	}
	var mute bool
	p.set(func() { mute = p.mute })
	if mute {
		_, _ = io.Copy(io.Discard, r)
		return
	}
	properties := append(field("version"), longstr("3.99.1")...)
	properties = append(append(properties, field("cluster_name")...), longstr("r@a.example")...)
	start := append(method(10, 10), 0, 9)
	start = append(start, lengthed(properties)...)
	start = append(append(start, lengthed([]byte("PLAIN"))...), lengthed([]byte("en_US"))...)
	send(c, 0, start)
	defer p.heartbeats(c)()
	for {
		channel, payload, err := receive(r)
		if err != nil {
			return
		}
		if len(payload) == 0 { // heartbeat
			continue
		}
		alarm, node := false, ""
		p.set(func() { alarm, node = p.alarm, p.node })
		switch class, id := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]); {
		case class == 60 && id == 20: // basic.consume
			send(c, channel, append(method(60, 21), 1, 't'))
		case class == 60 && id == 40 && alarm:
			send(c, 0, append(method(10, 60), field("low on memory")...))
			_, _ = io.Copy(io.Discard, r)
			return
		case class == 60 && id == 0 && node != "": // a content header ends the publish
			p.returnTo(c, channel, node)
		case class != 60:
			if reply := p.reply(payload); reply != nil {
				send(c, channel, reply)
			}
		}
	}
}

// heartbeats sends them as RabbitMQ does, if the peer is to; the function it
// returns ends that.
func (p *peer) heartbeats(c net.Conn) (stop func()) {
	var hung chan struct{}
	p.set(func() { hung = p.beat })
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(heartbeat / 2)
		defer tick.Stop()
		for hung != nil {
			select {
			case <-tick.C:
				sendFrame(c, 8, 0, nil)
			case <-hung:
				return
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		beating.Wait()
	}
}

func (p *peer) reply(payload []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	class, id := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])
	switch {
	case class == 10 && id == 11:
		p.startOK = payload
		if p.refuse != 0 {
			return closing(10, 50, p.refuse, p.text)
		}
		return append(method(10, 30), 0, 0, 0, 2, 0, 0, 0, 5) // tune: any channels, 128 KiB, 5 s
	case class == 10 && id == 40:
		return append(method(10, 41), 0)
	case class == 10 && id == 50:
		return method(10, 51)
	case class == 20 && id == 10:
		return append(method(20, 11), 0, 0, 0, 0)
	case class == 10 || class == 20:
		return nil
	case class == 40 && id == 10 && bytes.Contains(payload, []byte(coordination.StateExchange)):
		if p.denied {
			return closing(20, 40, 403, "ACCESS_REFUSED")
		}
		return method(40, 11)
	case p.answer != nil:
		return p.answer(class, id, payload[4:])
	}
	return nil
}

func method(class, id uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), id)
}

// closing is connection.close or channel.close.
func closing(class, id, code uint16, text string) []byte {
	b := binary.BigEndian.AppendUint16(method(class, id), code)
	b = append(append(b, byte(len(text))), text...)
	return append(b, 0, 0, 0, 0)
}

func lengthed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}
func field(name string) []byte { return append([]byte{byte(len(name))}, name...) }
func longstr(s string) []byte  { return append([]byte{'S'}, lengthed([]byte(s))...) }

// returnTo is basic.return of an empty message whose reply-to address is node's.
func (p *peer) returnTo(c net.Conn, channel uint16, node string) {
	hash := fmt.Sprintf("reply@%d", atomHash(node))
	term := append(append([]byte{131, 88, 119, byte(len(hash))}, hash...), 0, 0, 2, 203)
	address := replyTo + "." + base64.StdEncoding.EncodeToString(term) + ".key=="
	send(c, channel, append(append(append(method(60, 50), 1, 56), field("NO_ROUTE")...), 0, 0))
	header := append(method(60, 0), make([]byte, 8)...)
	header = append(append(header, 0x02, 0x00), field(address)...) // flag: reply-to
	sendFrame(c, 2, channel, header)
}

func send(c net.Conn, channel uint16, payload []byte) { sendFrame(c, 1, channel, payload) }

func sendFrame(c net.Conn, kind byte, channel uint16, payload []byte) {
	b := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	_, _ = c.Write(append(append(b, lengthed(payload)...), 0xce))
}

func receive(r *bufio.Reader) (channel uint16, payload []byte, err error) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return binary.BigEndian.Uint16(head[1:]), body[:len(body)-1], nil
}

// declareOK answers queue.declare.
func declareOK(messages, consumers uint32) []byte {
	b := append(method(50, 11), 1, 'q')
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, messages), consumers)
}

// client returns a client of the peer that knows its node's name.
func (p *peer) client(t *testing.T, change func(*Options)) *Client {
	o := Options{Node: "a@h", Address: p.addr(), Vhost: "/", Username: "u", Password: "pw", RequestTimeout: 10 * time.Second}
	if change != nil {
		change(&o)
	}
	c := New(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
