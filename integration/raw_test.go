package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// raw is a client that writes exactly the octets it is told to, in one write each time, and sees every frame.
type raw struct {
	t    *testing.T
	conn net.Conn
	buf  []byte // read and not yet taken
	tune frames.ConnectionTune
}

// rawTCP connects and says nothing.
func rawTCP(t *testing.T, url string) *raw {
	t.Helper()
	u, err := amqp.ParseURI(url)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", net.JoinHostPort(u.Host, fmt.Sprint(u.Port)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &raw{t: t, conn: conn}
}

// rawOpen connects, logs in without heartbeats and opens channel 1.
func rawOpen(t *testing.T, url string) *raw {
	t.Helper()
	r := rawTCP(t, url)
	r.login(url, nil)
	r.write(method(1, &frames.ChannelOpen{}))
	r.expect(1, &frames.ChannelOpenOk{})
	return r
}

// login goes through the handshake up to open-ok. adjust, if any, changes the tune-ok before it is sent.
func (r *raw) login(url string, adjust func(*frames.ConnectionTuneOk)) {
	r.t.Helper()
	r.authenticate(url)
	r.open(url, adjust)
}

// loginAs is login for a client that announces all capabilities, or none.
func (r *raw) loginAs(url string, capable bool) {
	r.t.Helper()
	r.authenticateAs(url, capable)
	r.open(url, nil)
}

// open goes from connection.tune to open-ok.
func (r *raw) open(url string, adjust func(*frames.ConnectionTuneOk)) {
	r.t.Helper()
	r.expect(0, &r.tune)
	ok := frames.ConnectionTuneOk{ChannelMax: r.tune.ChannelMax, FrameMax: r.tune.FrameMax}
	if adjust != nil {
		adjust(&ok)
	}
	u, err := amqp.ParseURI(url)
	require.NoError(r.t, err)
	r.write(method(0, &ok), method(0, &frames.ConnectionOpen{VirtualHost: u.Vhost}))
	r.expect(0, &frames.ConnectionOpenOk{})
}

// authenticate sends the protocol header and, after connection.start, a start-ok with the URL's user.
func (r *raw) authenticate(url string) {
	r.t.Helper()
	r.authenticateAs(url, true)
}

func (r *raw) authenticateAs(url string, capable bool) {
	r.t.Helper()
	u, err := amqp.ParseURI(url)
	require.NoError(r.t, err)
	r.write(frames.ProtocolHeader[:])
	r.expect(0, &frames.ConnectionStart{})
	r.write(method(0, startOk(u.Username, u.Password, capable)))
}

// startOk logs in with mechanism PLAIN and announces all capabilities, or none.
func startOk(user, password string, capable bool) *frames.ConnectionStartOk {
	m := &frames.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00" + user + "\x00" + password), Locale: "en_US"}
	if capable {
		var all frames.Table
		for _, name := range []string{"authentication_failure_close", "consumer_cancel_notify", "connection.blocked"} {
			all = frames.AppendBool(all, name, true)
		}
		m.ClientProperties = frames.AppendTable(nil, "capabilities", all)
	}
	return m
}

// write sends everything in one write.
func (r *raw) write(pieces ...[]byte) {
	r.t.Helper()
	require.NoError(r.t, r.conn.SetWriteDeadline(time.Now().Add(patience)))
	_, err := r.conn.Write(slices.Concat(pieces...))
	require.NoError(r.t, err)
}

// next returns the next frame, or io.EOF (also for a reset) when the peer has closed the connection.
func (r *raw) next() (frames.Frame, error) {
	r.t.Helper()
	require.NoError(r.t, r.conn.SetReadDeadline(time.Now().Add(patience)))
	for {
		f, err := frames.Next(r.buf, 0)
		if err == nil {
			r.buf = r.buf[len(f):]
			return f, nil
		}
		if !errors.Is(err, frames.ErrShort) {
			return nil, fmt.Errorf("received %q: %w", head(r.buf, 100), err)
		}
		piece := make([]byte, 64<<10)
		n, err := r.conn.Read(piece)
		r.buf = append(slices.Clone(r.buf), piece[:n]...)
		var timeout net.Error
		if n == 0 && errors.As(err, &timeout) && timeout.Timeout() {
			require.FailNow(r.t, "no frame came", "left over: %q", head(r.buf, 100))
		}
		if n == 0 && err != nil {
			return nil, io.EOF
		}
	}
}

// expect reads the next frame, which must be the given method on that channel, and decodes it into m.
func (r *raw) expect(channel uint16, m frames.Method) {
	r.t.Helper()
	f, err := r.next()
	require.NoError(r.t, err, "waiting for %s", m.ID())
	require.Equal(r.t, m.ID().String(), f.Method().String(), "channel %d: %q", f.Channel(), head(f, 300))
	require.Equal(r.t, channel, f.Channel(), "channel of %s", m.ID())
	require.NoError(r.t, m.Decode(f.Args()))
}

// content reads a content's header and body frames.
func (r *raw) content(channel uint16) (header frames.ContentHeader, body []byte) {
	r.t.Helper()
	f, err := r.next()
	require.NoError(r.t, err)
	require.Equal(r.t, frames.TypeHeader, f.Type(), "%q", head(f, 300))
	require.Equal(r.t, channel, f.Channel())
	header, ok := frames.ParseContentHeader(f.Payload())
	require.True(r.t, ok)
	for uint64(len(body)) < header.BodySize {
		f, err := r.next()
		require.NoError(r.t, err)
		require.Equal(r.t, frames.TypeBody, f.Type(), "%q", head(f, 300))
		require.Equal(r.t, channel, f.Channel())
		body = append(body, f.Payload()...)
	}
	return header, body
}

func head(b []byte, n int) []byte { return b[:min(n, len(b))] }

func method(channel uint16, m frames.Method) []byte { return frames.AppendMethod(nil, channel, m) }

func bodyFrame(channel uint16, payload string) []byte {
	return frames.AppendFrame(nil, frames.TypeBody, channel, []byte(payload))
}

// headerFrame is a content header of class basic: the flags word and the encoded properties are taken as they are.
func headerFrame(channel uint16, size int, flags uint16, properties []byte) []byte {
	payload := binary.BigEndian.AppendUint16(nil, 60)
	payload = binary.BigEndian.AppendUint16(payload, 0)
	payload = binary.BigEndian.AppendUint64(payload, uint64(size))
	payload = binary.BigEndian.AppendUint16(payload, flags)
	return frames.AppendFrame(nil, frames.TypeHeader, channel, append(payload, properties...))
}

// message is a whole publish without properties: method, header and, unless it is empty, one body frame.
func message(channel uint16, exchange, key, body string) []byte {
	m := method(channel, &frames.BasicPublish{Exchange: exchange, RoutingKey: key})
	m = append(m, headerFrame(channel, len(body), 0, nil)...)
	if body != "" {
		m = append(m, bodyFrame(channel, body)...)
	}
	return m
}
