package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/frames"
)

// healthcheckCmd is "shardmq healthcheck", for containers without a shell.
type healthcheckCmd struct {
	Address    string        `default:"127.0.0.1:5673" placeholder:"ADDR" help:"Address of the proxy. (default: ${default})"`
	Ready      bool          `help:"Also fail when the proxy reaches no RabbitMQ node."`
	TLS        bool          `name:"tls" help:"The address is that of a listener with TLS."`
	CA         string        `name:"ca" placeholder:"FILE" help:"With --tls: PEM file with the CAs that sign the listener's certificate. (default: whom the system trusts)"`
	Cert       string        `placeholder:"FILE" help:"With --tls: PEM file with a certificate to show."`
	Key        string        `placeholder:"FILE" help:"With --tls: PEM file with its key."`
	ServerName string        `placeholder:"NAME" help:"With --tls: the name that the listener's certificate is for. (default: the host of --address)"`
	NoVerify   bool          `help:"With --tls: take any certificate."`
	Timeout    time.Duration `default:"8s" placeholder:"DURATION" help:"Give up after this time. (default: ${default})"`
}

// Run fails unless the proxy answers.
//
// An AMQP header with a version that nobody speaks is answered with the right
// one (AMQP 0-9-1 section 4.2.2): the proxy is alive, and RabbitMQ's log is
// spared a broken handshake per check. With Ready the right header is sent,
// and a connection.start of the broker's must follow.
func (c *healthcheckCmd) Run(ctx context.Context, a *app) error {
	if err := config.CheckNode(c.Address); err != nil {
		return usagef("--address: %w", err)
	}
	if c.Timeout <= 0 {
		return usagef("--timeout: is %s; give a duration above zero, e.g. 8s", c.Timeout)
	}
	secure, err := c.secure()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("not healthy: %w", err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("not healthy: %w", err)
	}
	if secure != nil {
		over := tls.Client(conn, secure)
		defer over.Close()
		conn = over
	}
	check := alive
	if c.Ready {
		check = ready
	}
	server := &heard{ReadWriter: conn}
	if err := check(server); err != nil {
		return fmt.Errorf("not healthy: %s: %w%s", c.Address, err, c.hint(err, server.octets))
	}
	_, err = fmt.Fprintln(a.stdout, "healthy")
	return err
}

// secure returns how TLS is spoken; nil for not at all.
func (c *healthcheckCmd) secure() (*tls.Config, error) {
	o := certs.ClientOptions{CA: c.CA, Cert: c.Cert, Key: c.Key, ServerName: c.ServerName, NoVerify: c.NoVerify}
	if !c.TLS {
		if o != (certs.ClientOptions{}) {
			return nil, usagef("--tls: is missing; --ca, --cert, --key, --server-name and --no-verify have no effect without it")
		}
		return nil, nil
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, usagef("--cert: give both of --cert and --key, or neither")
	}
	if c.ServerName != "" {
		if err := config.CheckServerName(c.ServerName); err != nil {
			return nil, usagef("--server-name: %w", err)
		}
	}
	loaded, found := certs.LoadClient(o)
	if found.Fatal() {
		return nil, usagef("--%w", found)
	}
	host, _, _ := net.SplitHostPort(c.Address)
	return loaded.Client(host), nil
}

// tlsAlert is how the answer of a TLS server to plain AMQP begins, if it gives one.
const tlsAlert = 0x15

var errAnswersTLS = errors.New("what answers speaks TLS")

// heard counts what is read.
type heard struct {
	io.ReadWriter
	octets int
}

// Read implements io.Reader.
func (h *heard) Read(b []byte) (int, error) {
	n, err := h.ReadWriter.Read(b)
	h.octets += n
	return n, err
}

// hint says what to try when the two sides may not speak the same: a listener with TLS just closes a connection that does not speak it.
func (c *healthcheckCmd) hint(err error, octets int) string {
	switch {
	case c.TLS && errors.As(err, new(tls.RecordHeaderError)):
		return "; if it is a listener without TLS, leave --tls out"
	case c.TLS:
		return ""
	case errors.Is(err, errAnswersTLS):
		return "; add --tls"
	case octets == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return "; if it is a listener with TLS, add --tls"
	}
	return ""
}

func alive(conn io.ReadWriter) error {
	if _, err := conn.Write([]byte{'A', 'M', 'Q', 'P', 0, 0, 0, 0}); err != nil {
		return err
	}
	var answer [len(frames.ProtocolHeader)]byte
	n, err := io.ReadFull(conn, answer[:])
	switch {
	case n > 0 && answer[0] == tlsAlert:
		return errAnswersTLS
	case err != nil:
		return fmt.Errorf("no answer: %w", err)
	case answer != frames.ProtocolHeader:
		return errors.New("what answers is no AMQP 0-9-1 server")
	}
	return nil
}

// ready waits for connection.start. Without a node the proxy sends one of its
// own, because a client cannot be told more before its start-ok, and closes
// then: answering it brings the reason.
func ready(conn io.ReadWriter) error {
	if _, err := conn.Write(frames.ProtocolHeader[:]); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	var start frames.ConnectionStart
	if err := expect(r, &start); err != nil {
		return err
	}
	if product, _ := start.ServerProperties.LookupString("product"); string(product) != "shardmq" {
		return nil // the broker's
	}
	ok := &frames.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00\x00"), Locale: "en_US"}
	if _, err := conn.Write(frames.AppendMethod(nil, 0, ok)); err != nil {
		return err
	}
	var reason frames.ConnectionClose
	if err := expect(r, &reason); err != nil {
		return err
	}
	return fmt.Errorf("the proxy answers %d %s", reason.ReplyCode, reason.ReplyText)
}

// expect reads one method.
func expect(r io.Reader, m frames.Method) error {
	frame, err := readFrame(r)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if frame.Method() != m.ID() {
		return errors.New("what answers is no AMQP 0-9-1 server")
	}
	return m.Decode(frame.Args())
}

// readFrame reads one frame of at most the size that any peer must accept.
func readFrame(r io.Reader) (frames.Frame, error) {
	head := make([]byte, frames.HeadSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	if head[0] == tlsAlert {
		return nil, errAnswersTLS
	}
	size := binary.BigEndian.Uint32(head[3:])
	if bytes.HasPrefix(head, frames.ProtocolHeader[:4]) || size > frames.MinFrameMax*16 {
		return nil, errors.New("what answers is no AMQP 0-9-1 server")
	}
	frame := append(head, make([]byte, int(size)+1)...)
	if _, err := io.ReadFull(r, frame[frames.HeadSize:]); err != nil {
		return nil, err
	}
	return frames.Next(frame, 0)
}
