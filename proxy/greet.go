package proxy

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// healthHeader is what "shardmq healthcheck" sends: a version that does not exist, answered with the one that does, and not logged.
var healthHeader = [8]byte{'A', 'M', 'Q', 'P'}

// nineHeader is that of AMQP 0-9, which RabbitMQ takes for 0-9-1 and answers alike: what Perl's Net::AMQP sends.
var nineHeader = [8]byte{'A', 'M', 'Q', 'P', 1, 1, 0, 9}

// greet reads the client's protocol header, connects to a node and passes the header on. It reports whether the session can start.
func (s *session) greet() bool {
	within := s.srv.o.HandshakeTimeout
	if s.excess {
		within = min(within, toldWithin)
	}
	_ = s.client.SetDeadline(s.started.Add(within))
	if !s.originate() || !s.secure() {
		return false
	}
	var header [8]byte
	if n, err := io.ReadFull(s.client, header[:]); err != nil {
		if n == 0 {
			s.quiet() // a port probe
		} else {
			s.cause(fmt.Errorf("protocol header: %w%s", err, s.spoken(header[:n])))
		}
		return false
	}
	if header == healthHeader {
		s.answerHealth()
		return false
	}
	if header != frames.ProtocolHeader && header != nineHeader {
		s.cause(fmt.Errorf("not AMQP 0-9-1: the connection begins with %q%s", header[:], s.spoken(header[:])))
		_, _ = s.client.Write(frames.ProtocolHeader[:]) // AMQP 0-9-1, 4.2.2: the version the server speaks
		s.linger()
		return false
	}
	as, err := s.speakFor()
	if err != nil {
		s.cause(err)
		return false
	}
	if s.excess {
		s.quiet()
		s.srv.full()
		s.turnAway(as, "shardmq has no room for more connections")
		return false
	}
	in, n, err := s.srv.dial(s.ctx, as)
	if err != nil {
		s.cause(err)
		s.srv.refused.Add(1)
		s.turnAway(as, "shardmq cannot reach the broker")
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in, s.broker, s.node = in, in.conn, n
	s.rt.Present(as.certificate(n))
	s.up = outlet{conn: in.conn, take: s.rt.TakeUp, size: s.rt.PendingUp}
	return s.ctx.Err() == nil
}

// answerHealth answers healthHeader.
func (s *session) answerHealth() {
	s.quiet()
	_, _ = s.client.Write(frames.ProtocolHeader[:])
}

// spoken guesses what a peer speaks that does not speak AMQP 0-9-1.
func spoken(header []byte) string {
	switch {
	case header[0] == tlsHandshakeRecord:
		return " (TLS on a plain listener)"
	case bytes.HasPrefix(header, []byte("GET ")), bytes.HasPrefix(header, []byte("POST")), bytes.HasPrefix(header, []byte("HEAD")):
		return " (HTTP)"
	case isProxyHeader(header):
		return " (a PROXY protocol header, which this listener does not take from this peer: see listeners[].proxy-protocol)"
	case bytes.Equal(header, frames.ProtocolHeader[:]), bytes.Equal(header, nineHeader[:]):
		return " (AMQP 0-9-1)" // in place of something else
	case bytes.HasPrefix(header, []byte("AMQP")) && !bytes.HasPrefix(frames.ProtocolHeader[:], header): // else it has not said which
		return " (another AMQP version)"
	}
	return ""
}

// turnAway tells a client why it cannot be served. Clients show a close text only once they have sent start-ok, so the
// proxy gives them a start of its own first. Who could have logged in by EXTERNAL is offered it: some clients do not answer without.
func (s *session) turnAway(as upstreamAs, text string) {
	caps := frames.AppendBool(nil, "authentication_failure_close", true)
	mechanisms := "PLAIN AMQPLAIN"
	if as.client {
		mechanisms += " EXTERNAL"
	}
	start := &frames.ConnectionStart{VersionMinor: 9, Mechanisms: []byte(mechanisms), Locales: []byte("en_US"),
		ServerProperties: frames.AppendTable(frames.AppendString(nil, "product", "shardmq"), "capabilities", caps)}
	_ = s.client.SetDeadline(time.Now().Add(closeOkWait))
	if _, err := s.client.Write(frames.AppendMethod(nil, 0, start)); err != nil {
		return
	}
	if err := s.readMethod(); err != nil {
		return
	}
	e := frames.Exception{Code: frames.ConnectionForced, Text: text}
	if _, err := s.client.Write(frames.AppendMethod(nil, 0, &frames.ConnectionClose{ReplyCode: uint16(e.Code), ReplyText: e.ReplyText()})); err != nil {
		return
	}
	s.linger()
}

// readMethod reads one frame of the client's, start-ok, and drops it.
func (s *session) readMethod() error {
	var head [frames.HeadSize]byte
	if _, err := io.ReadFull(s.client, head[:]); err != nil {
		return err
	}
	h := frames.ParseHead(head[:])
	if err := h.Check(handshakeFrameMax); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, s.client, int64(h.Size)+1)
	return err
}
