package integration

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// randModel is what a broker holds after the steps played so far, as far as it takes to make further valid steps, and to know what there is to
// wait for. What the answers are it does not say: RabbitMQ does.
type randModel struct {
	exchanges map[string]*randExchange
	queues    map[string]*randQueue
	bindings  []randBinding
	channels  []*randChannel
	cancels   int          // consumers that have been told that their queue is gone
	leaving   []*randQueue // deleted by RabbitMQ in its own time
	dirty     map[*randQueue]bool
	past      map[string]bool // queues that are gone
}

type randExchange struct {
	declared  frames.ExchangeDeclare
	alternate string
	sharded   bool
}

type randQueue struct {
	declared  frames.QueueDeclare
	owner     int    // connection, for an exclusive one
	total     int    // messages, those that are held included
	held      int    // messages that are with clients
	most      int    // messages that it keeps, not counting those held; 0: any number
	refuses   bool   // what is above that, rather than dropping the oldest
	deadTo    string // queue for rejected messages; "": they go nowhere
	consumers []*randConsumer
	gone      bool
	sharded   randSharded
}

type randConsumer struct {
	tag    string
	ch     *randChannel
	q      *randQueue
	limit  int // 0: none
	noAck  bool
	only   bool
	unsent int // deliveries not settled
}

type randDelivery struct {
	tag      uint64
	q        *randQueue
	consumer *randConsumer // nil: by basic.get
}

type randChannel struct {
	conn, number    int
	confirm, tx     bool
	published       int // since confirm.select
	prefetch, limit int // per consumer, and for all of the channel; 0: none
	tag             uint64
	unacked         []randDelivery
	consumers       []*randConsumer
	last            string     // queue that was declared last
	named           int        // how often it was meant since
	pending         [][]string // what has been published in the transaction: names of queues
	settled         []randSettled
}

// randSettled are deliveries settled in a transaction.
type randSettled struct {
	deliveries []randDelivery
	requeue    bool
	drop       bool
}

func (q *randQueue) ready() int { return q.total - q.held }

// trim drops what a queue does not keep.
func (q *randQueue) trim() {
	if q.most > 0 && !q.refuses && q.ready() > q.most {
		q.total = q.held + q.most
	}
}

// expected is how many messages the queue gives to its consumers before it has nothing left or they take no more.
func (q *randQueue) expected() int {
	room := 0
	for _, c := range q.consumers {
		switch {
		case c.limit == 0 || c.noAck:
			room = q.ready()
		default:
			room += max(0, c.limit-c.unsent)
		}
		if limit := c.ch.limit; limit > 0 && !c.noAck {
			room = min(room, max(0, limit-c.unsent)) // its only consumer
		}
	}
	return min(room, q.ready())
}

// settle takes deliveries off the clients' hands.
func (m *randModel) settle(of []randDelivery, requeue, drop bool) {
	touched := map[*randQueue]bool{}
	for _, d := range of {
		if d.consumer != nil {
			d.consumer.unsent--
		}
		if d.q.gone {
			continue
		}
		m.dirty[d.q] = true
		touched[d.q] = true
		d.q.held--
		if !requeue {
			d.q.total--
			if drop && d.q.deadTo != "" {
				m.arrive([]string{d.q.deadTo})
			}
		}
	}
	for q := range touched {
		q.trim()
	}
}

// take removes the deliveries from the channel's that an acknowledgement is about.
func (ch *randChannel) take(tag uint64, multiple bool) (taken []randDelivery) {
	ch.unacked = slices.DeleteFunc(ch.unacked, func(d randDelivery) bool {
		hit := d.tag == tag || multiple && (tag == 0 || d.tag < tag)
		if hit {
			taken = append(taken, d)
		}
		return hit
	})
	return taken
}

// consumes reports whether the channel has consumers, or deliveries that consumers were given.
func (ch *randChannel) consumes() bool {
	return len(ch.consumers) > 0 || slices.ContainsFunc(ch.all(), func(d randDelivery) bool { return d.consumer != nil })
}

// holdsGenerated reports whether one of these consumers has its tag from the broker, or from shardmq. RabbitMQ requeues by consumer, in the order of tags: beside
// a tag that is chance there must be no other.
func (ch *randChannel) holdsGenerated() bool {
	generated := func(c *randConsumer) bool {
		return c != nil && (strings.HasPrefix(c.tag, "{") || c.q.sharded != unsharded)
	}
	return slices.ContainsFunc(ch.consumers, generated) || slices.ContainsFunc(ch.all(), func(d randDelivery) bool { return generated(d.consumer) })
}

// all is what the client has been given and the broker has not taken off it.
func (ch *randChannel) all() []randDelivery {
	all := slices.Clone(ch.unacked)
	for _, s := range ch.settled {
		all = append(all, s.deliveries...)
	}
	return all
}

// finish is a settlement by the client, which a transaction puts off.
func (m *randModel) finish(ch *randChannel, of []randDelivery, requeue, drop bool) {
	if ch.tx {
		ch.settled = append(ch.settled, randSettled{of, requeue, drop})
		return
	}
	m.settle(of, requeue, drop)
}

// closed is the end of a channel: everything that it has goes back. It is as new then.
func (m *randModel) closed(ch *randChannel) {
	for _, c := range slices.Clone(ch.consumers) {
		m.leave(c)
	}
	m.settle(ch.all(), true, false)
	*ch = randChannel{conn: ch.conn, number: ch.number}
}

// leave takes a consumer off its queue.
func (m *randModel) leave(c *randConsumer) {
	c.ch.consumers = slices.DeleteFunc(c.ch.consumers, func(o *randConsumer) bool { return o == c })
	c.q.consumers = slices.DeleteFunc(c.q.consumers, func(o *randConsumer) bool { return o == c })
	m.dirty[c.q] = true
	if c.q.declared.AutoDelete && len(c.q.consumers) == 0 && !c.q.gone {
		m.deleteQueue(c.q)
		m.leaving = append(m.leaving, c.q)
	}
}

func sortDeliveries(all []randDelivery) {
	slices.SortFunc(all, func(a, b randDelivery) int { return cmp.Compare(a.tag, b.tag) })
}
