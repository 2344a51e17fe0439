package target

import "time"

// Message is a job to be done. Nothing of it is changed or kept after Do returns.
type Message struct {
	Job         string // its name
	Queue       string
	ID          string // the same for every attempt: the idempotency key
	Attempt     int    // from 1
	Body        []byte
	ContentType string // as published; "" = none, as are the others
	ContentEncoding,
	CorrelationID, ReplyTo, MessageID, Type, AppID string
	Exchange, RoutingKey string // as published at first
	Priority             uint8
	Timestamp            time.Time
	Headers              map[string]any
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
	Reason  string // in short, for people: neither a body nor a secret
	Preview []byte // the beginning of the answer's body, of at most 1 KiB
	// RetryAfter is how long the endpoint asked to be left alone, with 429 and 503; 0 = it did not.
	RetryAfter time.Duration
	Took       time.Duration
}

// Class is a bounded set of reasons, for metrics.
type Class string

// Classes are all there are.
var Classes = []Class{OK, Refused, Status4xx, Status5xx, Timeout, Unreachable, Broken, Invalid}

// The classes.
const (
	OK          Class = "ok"
	Refused     Class = "refused" // an answer that is not what ack-when wants, below 400
	Status4xx   Class = "4xx"
	Status5xx   Class = "5xx"
	Timeout     Class = "timeout"
	Unreachable Class = "unreachable" // no connection
	Broken      Class = "broken"      // the connection ended before the answer was whole
	Invalid     Class = "invalid"     // no request can be made of this job, such as a body that does not decode
)
