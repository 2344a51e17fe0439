package dispatch

import (
	"time"

	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/dispatch/target"
)

// Values that hold where a job and the defaults say nothing.
const (
	DefaultExecutors       = 2
	DefaultTimeout         = 30 * time.Second
	DefaultAttempts        = 10
	DefaultBackoffFirst    = time.Second
	DefaultBackoffMost     = 5 * time.Minute
	DefaultRetryAfterMost  = 10 * time.Minute
	DefaultBreakerFailures = 5
	DefaultBreakerOpen     = 30 * time.Second
	// MaxExecutors bounds the executors of a job: each is a consumer at the broker and may be a request at the endpoint.
	MaxExecutors = 1000
)

// Server is a virtual host of a RabbitMQ, or of shardmq in front of it.
type Server struct {
	Name string
	URL  secret.String // amqp:// or amqps://, with user and password
	CA   string        // the path of a PEM file with CA certificates; "" = whom the system trusts
}

// Job is the settings of one job. It is not changed once a Pool has it.
type Job struct {
	Name      string // of at most 200 octets; with the server's name, unique
	Server    Server
	Queue     string   // a queue, or the name of a sharded exchange where Server is shardmq
	Declare   *Declare // nil: the queue has to be there
	Quorum    bool     // the queue is a quorum queue, so that those beside it are; implied by Declare
	Executors int      // at the start; 0 = none, until told otherwise
	// Total bounds the executors of all processes that work on the job at this server; each takes a share, up to its own
	// Executors. 0 = each has its own. Not with Auto.
	Total    int
	Auto     *Auto // nil: the number of executors is changed by hand only
	Prefetch int   // deliveries that may be unacknowledged over all executors; 0 = one for each
	Order    Order
	Paused   bool // at the start

	Target  target.Options
	Answers target.Rules
	Retry   Retry
	Breaker Breaker
}

// Declare is what is declared at the start: a durable exchange, a durable queue and a binding.
type Declare struct {
	Exchange  string // "" = the queue alone
	Type      string // of the exchange
	Key       string // of the binding
	Arguments map[string]any
}

// Auto has the number of executors follow the endpoint's latency, its errors and the backlog.
type Auto struct{ Min, Max int }

// Order says which jobs wait for one another: those with equal keys are done one after the other, in the order of the
// queue, also when one has to be tried again. The zero value is none.
type Order struct {
	RoutingKey bool
	Header     string // whose value is the key; "" = not by a header
}

// By reports whether there is an order to keep.
func (o Order) By() bool { return o.RoutingKey || o.Header != "" }

// Retry says what becomes of a job that the endpoint has not done.
type Retry struct {
	Attempts       int           // how often the endpoint is asked in all; 0 = without end
	First, Most    time.Duration // the delay after the first attempt, which doubles up to Most
	RetryAfterMost time.Duration // the most that an answer's Retry-After is honoured
	Then           Then
}

// Then is what happens after the last attempt.
type Then string

// Dropped jobs are acknowledged and gone.
const (
	DeadLetter Then = "dead-letter" // into the job's dead-letter queue, with the reasons
	Drop       Then = "drop"
)

// Breaker stops fetching jobs while the endpoint fails.
type Breaker struct {
	Failures int           // in a row, that open it; 0 = never
	Open     time.Duration // until one job is tried again
}
