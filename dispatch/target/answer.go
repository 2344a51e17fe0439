package target

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What is read of answers, in octets: further, the connection is closed.
const (
	maxLooked      = 64 << 10  // looked at
	maxLookedBatch = 1 << 20   // likewise, in mode BatchMode
	maxDrained     = 256 << 10 // read, to keep the connection
	maxPreview     = 1 << 10
)

// drainTime is how long what is not looked at may take to be read.
const drainTime = 250 * time.Millisecond

// answer is one answer of the endpoint. Its buffer is used again.
type answer struct {
	status     int // 0 = there was none
	body       []byte
	cut        bool          // the body goes on
	retryAfter time.Duration // as it says, whatever the status
}

var answers = sync.Pool{New: func() any { return &answer{body: make([]byte, 0, 1<<10)} }}

func newAnswer() *answer {
	a := answers.Get().(*answer)
	*a = answer{body: a.body[:0]}
	return a
}

// free gives it back.
func (a *answer) free() {
	if cap(a.body) <= maxLooked {
		answers.Put(a)
	}
}

// read reads a response to the end that is looked at, and closes it. cancel ends the request.
func (a *answer) read(r *http.Response, look int, cancel context.CancelFunc) error {
	defer r.Body.Close()
	a.status = r.StatusCode
	if text := r.Header.Get("Retry-After"); text != "" {
		a.retryAfter = parseRetryAfter(text, time.Now())
	}
	if a.status == http.StatusSwitchingProtocols { // what comes is not HTTP
		return nil
	}
	for len(a.body) < look {
		if len(a.body) == cap(a.body) {
			a.body = append(a.body, 0)[:len(a.body)]
		}
		n, err := r.Body.Read(a.body[len(a.body):min(cap(a.body), look)])
		a.body = a.body[:len(a.body)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	a.cut = true
	if r.ContentLength <= maxDrained {
		defer time.AfterFunc(drainTime, cancel).Stop()
		n, err := io.CopyN(io.Discard, r.Body, max(maxDrained-int64(look), 1))
		a.cut = n > 0 || !errors.Is(err, io.EOF)
	}
	return nil
}

// finish adds to an outcome what an answer has besides.
func (a *answer) finish(o *Outcome) {
	if o.Verdict != Done {
		o.Preview = bytes.Clone(a.body[:min(len(a.body), maxPreview)])
	}
	if o.Status == http.StatusTooManyRequests || o.Status == http.StatusServiceUnavailable {
		o.RetryAfter = a.retryAfter
	}
}

// maxRetryAfter bounds what an endpoint may ask for, so that it can be reckoned with.
const maxRetryAfter = 365 * 24 * time.Hour

// parseRetryAfter reads seconds or a date (RFC 9110, section 10.2.3); 0 = neither, or nothing to wait for.
func parseRetryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(maxRetryAfter/time.Second) { // more digits than can be read
			return maxRetryAfter
		}
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
