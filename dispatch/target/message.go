package target

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Message is a job to be done. Nothing of it is changed. Its Body may still be read after Do has returned, if the
// endpoint has answered before it had all of it: it must not be written to again.
type Message struct {
	Job         string // its name
	Queue       string
	ID          string // not empty; the same for every attempt: the idempotency key
	Attempt     int    // from 1
	Body        []byte
	ContentType string // as published; "" = none, as are the others
	ContentEncoding,
	CorrelationID, ReplyTo, MessageID, Type, AppID string
	Exchange, RoutingKey string // as published at first
	Priority             uint8
	Timestamp            time.Time
	Headers              map[string]any // as published; the types are those of AMQP tables in Go
	Redelivered          bool
}

// Verdict is what an answer means for the job.
type Verdict int

// The verdicts.
const (
	Done  Verdict = iota // acknowledge
	Again                // try again later
	Drop                 // acknowledge, though it was not done
	Dead                 // no further attempt; into the dead-letter queue
)

// Outcome is how an attempt went.
type Outcome struct {
	Verdict Verdict
	Class   Class
	Status  int    // of the answer; 0 = there was none
	Reason  string // in short, for people: neither a body nor a secret; "" = Done
	Preview []byte // the beginning of the answer's body, of at most 1 KiB; none if Done
	// RetryAfter is how long the endpoint asked to be left alone, with 429 and 503; 0 = it did not. It may be very long.
	RetryAfter time.Duration
	Took       time.Duration
}

// Class is a bounded set of reasons, for metrics.
type Class string

// The classes.
const (
	OK          Class = "ok"
	Refused     Class = "refused" // an answer that is not what ack-when wants, below 400
	Status4xx   Class = "4xx"
	Status5xx   Class = "5xx"
	Timeout     Class = "timeout"
	Unreachable Class = "unreachable" // no connection, or none that the TLS settings allow
	Broken      Class = "broken"      // the connection ended before the answer was whole, or it was no HTTP
	Invalid     Class = "invalid"     // no request can be made of this job: a CloudEvent that is none. Verdict Dead
	Cancelled   Class = "cancelled"   // the caller's context ended first: nothing is known of the job
)

// Classes are all of them.
func Classes() []Class {
	return []Class{OK, Refused, Status4xx, Status5xx, Timeout, Unreachable, Broken, Invalid, Cancelled}
}

// classOf is the class of an answer that does not say that the job is done.
func classOf(status int) Class {
	switch {
	case status >= 500:
		return Status5xx
	case status >= 400:
		return Status4xx
	}
	return Refused
}

// valueText is the text of an AMQP header's value. ok: it is text or a number, a time or a truth value.
func valueText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), utf8.Valid(v)
	case bool:
		return strconv.FormatBool(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	n, ok := integer(v)
	return strconv.FormatInt(n, 10), ok
}

// integer is an AMQP header's value if it is a whole number. (There are none above 63 bits in AMQP.)
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	case int:
		return int64(v), true
	}
	return 0, false
}
