package dispatch

import (
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/dispatch/target"
)

// Headers that the dispatcher adds when it publishes a job again. The endpoint does not see them as headers.
const (
	headerPrefix     = "x-dispatch-"
	headerAttempt    = headerPrefix + "attempt"     // attempts made so far
	headerID         = headerPrefix + "id"          // the idempotency key
	headerExchange   = headerPrefix + "exchange"    // of the first publish
	headerRoutingKey = headerPrefix + "routing-key" // likewise
	headerUserID     = headerPrefix + "user-id"     // likewise: a broker takes only the publisher's own
	headerFirst      = headerPrefix + "first"       // when the first attempt failed, in Unix milliseconds
	headerPublish    = headerPrefix + "publish"     // by which a return is told from others

	// Of dead letters only.
	headerJob    = headerPrefix + "job"
	headerReason = headerPrefix + "reason"
	headerClass  = headerPrefix + "class"
	headerStatus = headerPrefix + "status" // of the last answer; 0 = there was none
	headerFailed = headerPrefix + "failed" // when the last attempt failed, in Unix milliseconds
)

// onlyDead are the headers of dead letters only.
var onlyDead = []string{headerJob, headerReason, headerClass, headerStatus, headerFailed}

// maxAttempts bounds what a message may say of its attempts, so that it can be counted on from there.
const maxAttempts = 1 << 30

// item is a delivery that has not been settled.
type item struct {
	delivery amqp.Delivery
	session  *session // that it came by: it cannot be settled by another
	id       string   // the idempotency key
	attempts int      // made so far
	ours     bool     // the dispatcher has published it before: its headers say where it came from
	keyed    bool     // there is an order to keep, by key
	key      string
}

// newItem reads what the dispatcher has noted in a delivery. due: it came by the due queue, as all that has been tried does. In the job's own queue
// are jobs whose attempts begin, whatever their headers say: new ones, and dead letters that somebody has put back.
func newItem(s *session, d amqp.Delivery, order Order, due bool) *item {
	it := &item{delivery: d, session: s, id: text(d.Headers, headerID), ours: ours(d)}
	if due {
		it.attempts = int(min(number(d.Headers, headerAttempt), maxAttempts))
	}
	if it.id == "" {
		it.id = d.MessageId
	}
	if it.id == "" {
		it.id = rand.Text()
	}
	switch {
	case order.RoutingKey:
		it.keyed, it.key = true, d.RoutingKey
		if it.ours {
			it.key = text(d.Headers, headerRoutingKey)
		}
	case order.Header != "":
		if v, is := d.Headers[order.Header]; is {
			it.keyed, it.key = true, fmt.Sprint(v)
		}
	}
	return it
}

// ours reports whether the dispatcher has published a message before. It publishes through the default exchange, as few others do.
func ours(d amqp.Delivery) bool { return d.Exchange == "" && d.Headers[headerAttempt] != nil }

// text and number read a header; another type than expected is as good as none, since anybody may publish.
func text(h amqp.Table, name string) string {
	s, _ := h[name].(string)
	return s
}

func number(h amqp.Table, name string) int64 {
	switch v := h[name].(type) {
	case int64:
		return max(v, 0)
	case int32:
		return int64(max(v, 0))
	}
	return 0
}

// message is the job as the endpoint is to see it.
func (it *item) message(job *Job) *target.Message {
	d := &it.delivery
	m := &target.Message{
		Job: job.Name, Queue: job.Queue, ID: it.id, Attempt: it.attempts + 1, Body: d.Body,
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo,
		MessageID: d.MessageId, Type: d.Type, AppID: d.AppId, Exchange: d.Exchange, RoutingKey: d.RoutingKey,
		Priority: d.Priority, Timestamp: d.Timestamp, Headers: d.Headers, Redelivered: d.Redelivered,
	}
	if it.ours {
		m.Exchange, m.RoutingKey = text(d.Headers, headerExchange), text(d.Headers, headerRoutingKey)
	}
	if strayed(d.Headers) {
		m.Headers = maps.Clone(d.Headers)
		maps.DeleteFunc(m.Headers, func(name string, _ any) bool { return strings.HasPrefix(name, headerPrefix) })
	}
	return m
}

// strayed reports whether there are headers that the endpoint should not see.
func strayed(h amqp.Table) bool {
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
	}
	return false
}

// again is the message to publish for a further attempt, after so many.
func (it *item) again(attempts int, now time.Time) amqp.Publishing {
	d := &it.delivery
	p := amqp.Publishing{
		Headers: make(amqp.Table, len(d.Headers)+6), ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: amqp.Persistent, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
	maps.Copy(p.Headers, d.Headers)
	// These would send copies elsewhere, and the message past the delay.
	delete(p.Headers, "CC")
	delete(p.Headers, "BCC")
	// Brokers before 4.0 go by what anybody has written here: a message that claims to have been in the due queue already
	// would be dropped after its delay, as one that goes in circles, and one that is malformed ends their queue's process.
	delete(p.Headers, "x-death")
	for _, name := range onlyDead {
		delete(p.Headers, name)
	}
	if !it.ours {
		p.Headers[headerExchange], p.Headers[headerRoutingKey] = d.Exchange, d.RoutingKey
		p.Headers[headerFirst] = now.UnixMilli()
		delete(p.Headers, headerUserID)
		if d.UserId != "" {
			p.Headers[headerUserID] = d.UserId
		}
	}
	p.Headers[headerID] = it.id
	p.Headers[headerAttempt] = int64(attempts)
	return p
}

// dead is the dead letter of a job that has failed for good.
func (it *item) dead(job *Job, attempts int, o target.Outcome, now time.Time) amqp.Publishing {
	p := it.again(attempts, now)
	p.Headers[headerJob] = job.Name
	p.Headers[headerReason] = o.Reason
	p.Headers[headerClass] = string(o.Class)
	p.Headers[headerStatus] = int64(o.Status)
	p.Headers[headerFailed] = now.UnixMilli()
	return p
}

// revive is a dead letter as a job again, without attempts.
func revive(d amqp.Delivery) amqp.Publishing {
	it := item{delivery: d, id: text(d.Headers, headerID), ours: ours(d)}
	return it.again(0, time.Now())
}
