package router

import "github.com/shardmq/shardmq/shards"

// AskKind names a question to the proxy.
type AskKind uint8

const (
	// AskResolve: what is this exchange, and make its shards. Force skips what is remembered.
	AskResolve AskKind = iota + 1
	// AskBindWords: bind shard keys of Words words on every shard.
	AskBindWords
	// AskPrepareDeclare: how must the client's exchange.declare (Spec) be sent.
	AskPrepareDeclare
	// AskCounts: messages and consumers of every shard, after making those that are missing.
	AskCounts
	// AskForget: the exchange is gone.
	AskForget
	// AskJoin: a client's consumer joins the exchange's group.
	AskJoin
	// AskLeave: Member leaves its group. Not answered.
	AskLeave
	// AskAttached: Member's attachments on Queue changed by Delta. Not answered.
	AskAttached
	// AskClaim: Member is about to consume Queue, if Lent only to help out there. Not answered.
	AskClaim
	// AskReleased: an attachment that was claimed has ended, and all it was given is settled. Not answered.
	AskReleased
	// AskAimed: Member goes by its target of Version from now on. Not answered.
	AskAimed
	// AskUnsettled: deliveries of basic.get on Queue that are not settled changed by Delta. Not answered.
	AskUnsettled
	// AskOpen: may publishes to the exchange, which pause, go on; answered when they may, however late.
	AskOpen
	// AskFenced: a channel has completed Fence. Not answered.
	AskFenced
	// AskLog: a finding for the operator (Text). Not answered.
	AskLog
)

// Ask is a question to the proxy, answered by Conn.Answer unless its kind says otherwise.
type Ask struct {
	Kind     AskKind
	Channel  uint16
	Op       uint64 // which composition asks; 0: none
	Exchange *shards.Exchange
	Force    bool
	Words    int
	Spec     shards.ExchangeSpec
	Consumer uint64 // AskJoin: names the consumer in later Retarget calls
	Tag      string // AskJoin: its consumer tag, as the client knows it
	Exclude  bool   // AskJoin: exclusive
	Member   *shards.Member
	Queue    string
	Delta    int
	Lent     bool
	Late     bool // AskReleased: the broker may not have noticed yet, for the connection was lost
	Version  uint64
	Fence    uint64 // AskFenced: what Fence was called with
	Text     string
}

// TellMember passes on what an Ask says to its Member, and reports whether that is all there is to it.
func (a Ask) TellMember() bool {
	switch a.Kind {
	case AskLeave:
		a.Member.Leave()
	case AskAttached:
		a.Member.Attached(a.Queue, a.Delta)
	case AskClaim:
		a.Member.Claim(a.Queue, a.Lent)
	case AskReleased:
		a.Member.Released(a.Queue, a.Lent)
	case AskAimed:
		a.Member.Aimed(a.Version)
	default:
		return false
	}
	return true
}

// Answer is the reply to an Ask.
type Answer struct {
	State  *shards.State
	Counts []shards.Count // in the order of State.Covered()
	Node   string         // the node this client's upstream connection goes to, "" when its name is not known
	Plan   shards.DeclarePlan
	Member *shards.Member
	Target shards.Target
	Err    error
}

// Answer hands the router the reply to a question. A late answer (its channel closed, its composition timed out)
// changes nothing, save that a membership it brings is given back.
func (c *Conn) Answer(a Ask, r Answer) {
	ch := c.channel(a.Channel)
	if a.Kind == AskOpen {
		if ch != nil && ch.shut == a.Op {
			c.opened(ch, r.Err)
		}
		return
	}
	if ch == nil || ch.op == nil || ch.op.id != a.Op || ch.op.answer == nil {
		if a.Op == 0 && ch != nil && a.Kind == AskResolve {
			c.healed(ch, a.Exchange, r)
		}
		if r.Member != nil {
			c.asks = append(c.asks, Ask{Kind: AskLeave, Member: r.Member})
		}
		return
	}
	o := ch.op
	if r.Err != nil {
		if r.Member != nil {
			c.asks = append(c.asks, Ask{Kind: AskLeave, Member: r.Member})
		}
		if o.method == 0 {
			c.moved(ch) // no client waits for it: made when the topology answers again
			return
		}
		if o.optional {
			ch.unsure = a.Exchange
			c.again(ch, a.Exchange)
			ch.unsure = nil
			return
		}
		c.raise(ch, exceptionOf(r.Err, o.method))
		return
	}
	if (a.Kind == AskCounts || a.Kind == AskJoin) && o.frame != nil && (r.State == nil || r.State.Set == nil) {
		c.lost(ch, a.Exchange)
		return
	}
	if a.Kind == AskCounts && o.frame != nil && r.Counts == nil {
		c.ask(ch, o, a) // the shards changed while they were counted: what the client is told would not be true
		return
	}
	o.answer(r)
}
