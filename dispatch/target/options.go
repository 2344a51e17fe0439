package target

import (
	"time"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/config/secret"
)

// Options is an endpoint and how it is asked.
type Options struct {
	URL     string // http:// or https://; a user and password in it are as good as Auth's
	Host    string // the Host header; "" = that of URL, which TLS goes by in any case
	Method  string // POST, PUT, PATCH or DELETE; "" = POST
	Headers map[string]string
	Auth    Auth
	TLS     TLS
	Timeout time.Duration // of all of an attempt: connecting, the request and the whole answer
	Mode    Mode          // "" = Raw
	// Encoding is the character set of bodies in mode Form, by its IANA name; "" = utf-8.
	Encoding string
	// Properties are the AMQP headers that are passed on, by name; "*" is all of them. See the package's comment.
	Properties []string
	// Marks says whether the headers that tell of the job are there: see the package's comment.
	Marks Marks
	Event Event
	Batch Batch // of mode BatchMode
	// SigningSecrets sign requests as Standard Webhooks has it, each with a signature of its own; none: unsigned.
	// Each is "whsec_" and the base64 of 24 to 64 octets.
	SigningSecrets []secret.String
	// Connections bounds the connections to the endpoint, idle ones included; 0 = 100. The pool sets it to the executors
	// there can be.
	Connections int
}

// Mode is the form of a request.
type Mode string

// The forms of a request.
const (
	Form            Mode = "form"                   // queueName and bodyData, as of Consumer Dispatcher
	Raw             Mode = "raw"                    // the body as it is
	CloudEvent      Mode = "cloudevents"            // binary content mode
	CloudStructured Mode = "cloudevents-structured" // structured content mode, JSON
	BatchMode       Mode = "batch"                  // a JSON array of several jobs
)

// Marks says whether Idempotency-Key, Dispatch-Job, Dispatch-Attempt, traceparent and tracestate are sent.
type Marks string

// The zero value is Usual.
const (
	Usual  Marks = ""       // in all modes but Form, whose requests are those of Consumer Dispatcher
	Always Marks = "always" // in mode Form as well
	Never  Marks = "never"
)

// Event is what CloudEvents say that messages do not, unless they are CloudEvents already.
type Event struct {
	Source string // a URI reference; "" = /queues/ and the queue's name
	Type   string // of messages without a type; "" = shardmq.job
}

// Values that hold where nothing is said, and a bound of Batch.
const (
	DefaultBatchSize = 100
	DefaultBatchWait = 100 * time.Millisecond
	MaxBatchWait     = time.Minute
)

// Batch bounds what is put into one request.
type Batch struct {
	Size int           // 1 to MaxBatch
	Wait time.Duration // the first job of a batch waits for others no longer
}

// MaxBatch bounds Batch.Size.
const MaxBatch = 1000

// Auth is what a request is authorised with: nothing, a user and password, or a token.
type Auth struct {
	Username         string
	Password, Bearer secret.String
}

// TLS is how an endpoint with https:// is verified and what it is shown. The files are looked at again every ten
// seconds: connections that are made then go by what is in them, and by what was in them while they are unusable.
type TLS = certs.ClientOptions
