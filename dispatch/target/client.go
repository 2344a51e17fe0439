package target

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/text/encoding"
)

// Client asks one endpoint. It is safe for concurrent use.
type Client struct {
	o             Options
	request       *http.Request // copied for each
	static        http.Header   // of each; not changed
	marks         bool
	allProperties bool
	properties    []string
	charset       encoding.Encoding // nil: UTF-8
	render        func(*Message, *headers) ([]byte, error)
	signer        signer
	rules         rules
	look          int // how much of an answer is looked at, in octets
	headers       int // about how many there are besides the static ones
	wire          *wire
}

// defaultConnections bounds connections if Options does not.
const defaultConnections = 100

// New returns a client of an endpoint. The error is of type Problems if Check finds any.
func New(o Options, r Rules) (*Client, error) {
	if ps := Check(o, r); ps != nil {
		return nil, ps
	}
	o.Method = cmp.Or(o.Method, http.MethodPost)
	o.Mode = cmp.Or(o.Mode, Raw)
	o.Connections = cmp.Or(o.Connections, defaultConnections)
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	c := &Client{o: o, rules: newRules(r), look: maxLooked, static: staticHeaders(o, u),
		marks: o.Marks == Always || o.Marks == Usual && o.Mode != Form}
	c.properties = slices.DeleteFunc(slices.Clone(o.Properties), func(name string) bool {
		c.allProperties = c.allProperties || name == "*"
		return name == "*"
	})
	if c.charset, err = newCharset(o.Encoding); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	if c.signer, err = newSigner(o.SigningSecrets); err != nil {
		return nil, fmt.Errorf("signing-secrets: %w", err)
	}
	u.User = nil
	if c.request, err = http.NewRequest(o.Method, u.String(), nil); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	c.request.Host = cmp.Or(o.Host, c.request.Host)
	if c.wire, err = newWire(o, c.request.URL); err != nil {
		return nil, err
	}
	c.chooseMode()
	return c, nil
}

func (c *Client) chooseMode() {
	c.headers = 2 + len(c.properties) + 3*min(len(c.signer), 1)
	if c.marks {
		c.headers += 4
	}
	switch c.o.Mode {
	case Form:
		c.render = func(m *Message, h *headers) ([]byte, error) {
			h.set("Content-Type", formType)
			h.table(c.allProperties, c.properties, m.Headers)
			return c.form(m), nil
		}
	case Raw:
		c.headers += 4
		c.render = func(m *Message, h *headers) ([]byte, error) {
			content(h, m)
			properties(h, m)
			h.table(c.allProperties, c.properties, m.Headers)
			return m.Body, nil
		}
	case CloudEvent:
		c.headers += 6
		c.render = c.binary
	case CloudStructured:
		c.render = c.structured
	case BatchMode:
		c.look = maxLookedBatch
	}
}

// staticHeaders are those that every request has.
func staticHeaders(o Options, u *url.URL) http.Header {
	h := http.Header{"User-Agent": {"shardmq"}}
	user, password := o.Auth.Username, string(o.Auth.Password)
	if u.User != nil {
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	switch {
	case o.Auth.Bearer != "":
		h["Authorization"] = []string{"Bearer " + string(o.Auth.Bearer)}
	case user != "" || password != "":
		h["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
	}
	for name, value := range o.Headers {
		h[spelling(name)] = []string{value}
	}
	return h
}

// Do asks the endpoint to do a job, and tells what came of it. It returns within the timeout, or when ctx ends.
func (c *Client) Do(ctx context.Context, m *Message) Outcome {
	if c.o.Mode == BatchMode {
		return c.DoBatch(ctx, []*Message{m})[0]
	}
	begun := time.Now()
	a := newAnswer()
	defer a.free()
	o := c.do(ctx, m, a, begun)
	o.Took = time.Since(begun)
	return o
}

func (c *Client) do(ctx context.Context, m *Message, a *answer, begun time.Time) Outcome {
	h := newHeaders(c.static, c.headers)
	body, err := c.render(m, h)
	if err == nil {
		err = c.signer.sign(h, m.ID, begun, body)
	}
	if err != nil {
		return invalid(err)
	}
	if c.marks {
		h.setText(idempotencyKey, m.ID)
		h.setText(dispatchJob, m.Job)
		h.set(dispatchAttempt, strconv.Itoa(m.Attempt))
		parent, state := trace(m)
		h.set(traceparent, parent)
		h.set(tracestate, state)
	}
	if failure := c.exchange(ctx, h.Header, body, a); failure != nil {
		return *failure
	}
	o := c.rules.judge(a.status, a.body, a.cut)
	a.finish(&o)
	return o
}

// exchange sends a request and reads the answer into a. It returns how that failed, or nil.
func (c *Client) exchange(parent context.Context, h http.Header, body []byte, a *answer) *Outcome {
	ctx, cancel := context.WithTimeout(parent, c.o.Timeout)
	defer cancel()
	r := c.request.WithContext(ctx)
	r.Header = h
	if len(body) > 0 {
		p := &payload{data: body}
		r.Body, r.GetBody, r.ContentLength = p.open(), func() (io.ReadCloser, error) { return p.open(), nil }, int64(len(body))
	} else {
		r.Body = http.NoBody
	}
	response, err := c.wire.roundTrip(r)
	if err == nil {
		err = a.read(response, c.look, cancel)
	}
	if err == nil {
		return nil
	}
	switch {
	case parent.Err() != nil:
		return &Outcome{Verdict: Again, Class: Cancelled, Status: a.status, Reason: "cut off by the dispatcher"}
	case ctx.Err() != nil:
		return &Outcome{Verdict: Again, Class: Timeout, Status: a.status, Reason: "no whole answer within " + c.o.Timeout.String()}
	}
	o := c.wire.failure(err)
	o.Status = a.status
	return &o
}

// payload is a request's body.
type payload struct{ data []byte }

type payloadReader struct{ bytes.Reader }

func (*payloadReader) Close() error { return nil }

func (p *payload) open() io.ReadCloser {
	r := &payloadReader{}
	r.Reset(p.data)
	return r
}

func invalid(err error) Outcome { return Outcome{Verdict: Dead, Class: Invalid, Reason: err.Error()} }

// Close closes the connections that are idle, and the others when they are. Do is not to be called any more.
func (c *Client) Close() { c.wire.close() }
