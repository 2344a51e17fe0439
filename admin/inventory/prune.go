package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardmq/shardmq/shards"
)

// listenFor is how long proxies are listened to before anything is deleted: those
// that say nothing for so long count as gone among themselves as well.
const listenFor = 3500 * time.Millisecond

// AMQP reply codes that a deletion may be refused with.
const (
	notFound           = 404
	preconditionFailed = 406
	notImplemented     = 540 // replicated queues know no conditions
)

// Action is what becomes of a surplus shard.
type Action string

// The actions.
const (
	Delete  Action = "delete"  // it would be deleted
	Keep    Action = "keep"    // it would be kept
	Deleted Action = "deleted" // it is
	Kept    Action = "kept"    // it was not deleted after all
)

// Verdict is what becomes of one surplus shard, and why.
type Verdict struct {
	Vhost     string `json:"vhost"`
	Exchange  string `json:"exchange"`
	Queue     string `json:"queue"`
	Node      string `json:"node,omitempty"`
	Status    Status `json:"status"`
	Ready     *int64 `json:"ready"`
	Unacked   *int64 `json:"unacked"`
	Consumers *int64 `json:"consumers"`
	Action    Action `json:"action"`
	Reason    string `json:"reason,omitempty"` // why it is kept
}

// PruneOptions say how to remove surplus shards.
type PruneOptions struct {
	Options
	Yes   bool // delete; else only say what would be deleted
	Force bool // delete replicated queues too, which RabbitMQ cannot do under conditions
}

// Pruning is what has become, or would become, of surplus shards.
type Pruning struct {
	Verdicts []Verdict
	Warnings []string // as Listing's
}

// Prune judges every surplus shard of one vhost, and with Yes deletes those that
// nobody misses: not asked for by any configuration, not in the leader's plan,
// without messages and consumers, and nothing unacknowledged at any proxy. With
// Force it has the leader delete what that keeps only because it is replicated,
// consumed as it is, which takes up to LeaderTimeout. Errors are List's.
func Prune(ctx context.Context, o PruneOptions) (*Pruning, error) {
	return prune(ctx, o, listenFor)
}

func prune(ctx context.Context, o PruneOptions, listenFor time.Duration) (*Pruning, error) {
	o.Interval = 0
	l, err := look(ctx, o.Options, listenFor)
	if err != nil {
		return nil, err
	}
	p := &Pruning{Verdicts: []Verdict{}, Warnings: l.Warnings}
	var asked []request
	for i := range l.Exchanges {
		x := &l.Exchanges[i]
		for j := range x.Shards {
			s := &x.Shards[j]
			if s.Status == Active || s.Status == Coming || s.Problem == missing {
				continue
			}
			v := l.judge(x, s, o)
			switch {
			case !o.Yes || v.Action != Delete:
			case l.byLeader(s, o):
				asked = append(asked, request{s, len(p.Verdicts)})
			default:
				v.Action, v.Reason = l.remove(ctx, x, s, o)
			}
			p.Verdicts = append(p.Verdicts, v)
		}
	}
	l.haveRemoved(ctx, o, asked, p.Verdicts)
	return p, nil
}

// judge says whether a surplus shard can go.
func (l *Listing) judge(x *Exchange, s *Shard, o PruneOptions) Verdict {
	v := Verdict{Vhost: l.Vhost, Exchange: x.Name, Queue: s.Queue, Node: s.Node, Status: s.Status,
		Ready: s.Ready, Unacked: s.Unacked, Consumers: s.Consumers, Action: Keep}
	replicated := s.replicated(o.replicated(x.Name))
	switch {
	case s.Problem != "":
		v.Reason = s.Problem
	case l.asked(x.Name, s.Queue):
		v.Reason = "the configuration asks for it"
	case l.view.wanted(x.Name, s.Queue):
		v.Reason = "the configuration of a running proxy asks for it"
	case l.view.Partial:
		v.Reason = "what running proxies say could not be heard and read altogether (see the warnings), and they may hold messages of it"
	case l.blind:
		v.Reason = "the management API, which tells of unacknowledged messages, has not answered (see the warnings)"
	case len(l.view.Silent) > 0:
		v.Reason = "a running proxy has not answered, and may hold messages of it: " + strings.Join(l.view.Silent, ", ")
	case l.view.Led && l.view.Proxies() == 0:
		v.Reason = "proxies run but have not answered (is RabbitMQ blocking publishers?)"
	case l.view.Led && l.view.State == nil:
		v.Reason = "the leader has not told its plan yet"
	case s.Status == Draining && l.view.published(x.Name, s.Queue):
		v.Reason = "proxies may still publish to it"
	case *s.Ready > 0:
		v.Reason = plural(*s.Ready, "message", "messages") + " ready"
	case l.byLeader(s, o):
		v.Action = Delete // once its consumers have acknowledged everything and let go of it
	case s.Status == Draining && l.view.Led && replicated:
		v.Reason = replicatedKept
	case *s.Consumers > 0:
		v.Reason = plural(*s.Consumers, "consumer", "consumers")
	case len(s.seen) > 0:
		ids := slices.Sorted(maps.Keys(s.seen))
		v.Reason = "a consumer or unacknowledged messages at proxy " + strings.Join(ids, ", ")
	case s.Unacked != nil && *s.Unacked > 0:
		v.Reason = plural(*s.Unacked, "message", "messages") + " unacknowledged"
	case replicated && !o.Force:
		v.Reason = replicatedKept
	default:
		v.Action = Delete
	}
	return v
}

const replicatedKept = "a replicated queue, which RabbitMQ deletes with whatever arrives meanwhile; --force deletes it all the same"

// replicated reports whether a shard is a replicated queue: as the management API
// says, or the leader's plan, which has no node for one; or else what is likely.
func (s *Shard) replicated(likely bool) bool {
	switch {
	case s.Type != "":
		return s.Type == "quorum"
	case s.planned:
		return s.home == ""
	}
	return likely
}

// replicated reports whether the policy makes replicated queues.
func (o *Options) replicated(exchange string) bool {
	p := o.Policies.Match(o.Vhost, exchange)
	return p != nil && p.Definition.Replicated()
}

// asked reports whether this configuration asks for a shard that the leader has
// given up already.
func (l *Listing) asked(exchange, queue string) bool {
	p := l.found.o.Policies.Match(l.Vhost, exchange)
	return p != nil && slices.ContainsFunc(shards.ShardsFor(exchange, &p.Definition, l.found.nodes, nil),
		func(s shards.Shard) bool { return s.Queue == queue })
}

// remove unbinds a shard, looks again, and deletes it under the broker's own
// conditions.
func (l *Listing) remove(ctx context.Context, x *Exchange, s *Shard, o PruneOptions) (Action, string) {
	b := l.found.broker(s.home)
	if b == nil {
		return Kept, nodeDown
	}
	if err := l.unbind(ctx, b, x, s); err != nil {
		return Kept, err.Error()
	}
	counts, err := b.QueueCounts(ctx, []string{s.Queue})
	switch {
	case err != nil:
		return Kept, err.Error()
	case counts[0].Dormant:
		return Kept, dormant
	case counts[0].Messages > 0:
		return Kept, "a message has arrived meanwhile; it is unbound now, so no more will"
	case counts[0].Consumers > 0:
		return Kept, "a consumer has come meanwhile"
	}
	return del(ctx, b, s, o.Force)
}

// unbind undoes all bindings that proxies make, so that nothing new arrives while
// the shard is deleted.
func (l *Listing) unbind(ctx context.Context, b Broker, x *Exchange, s *Shard) error {
	set := shards.SetOf(x.Name, 0, []shards.Shard{{Queue: s.Queue, Node: s.home, Index: s.Index}})
	keys := []string{""} // the plugin's, and the policies' default
	if p := l.found.o.Policies.Match(l.Vhost, x.Name); p != nil && p.Definition.RoutingKey != "" {
		keys = append(keys, p.Definition.RoutingKey)
	}
	for words := 1; words <= shards.MaxWords; words++ {
		keys = append(keys, set.Key(0, words))
	}
	for _, key := range keys {
		if err := b.UnbindQueue(ctx, s.Queue, key, x.Name); refusedWith(err, notFound) {
			return nil // the exchange is gone, and its bindings with it
		} else if err != nil {
			return err
		}
	}
	err := b.UnbindQueue(ctx, s.Queue, "", shards.Unsharded(x.Name))
	if refusedWith(err, notFound) {
		return nil
	}
	return err
}

// del deletes a queue that has just been seen empty and unused. RabbitMQ closes the
// connection on which a replicated one is to be deleted on a condition, so that is
// tried only with what may be another.
func del(ctx context.Context, b Broker, s *Shard, force bool) (Action, string) {
	certain := s.Type != "" || s.planned
	conditions := !(force && certain && s.replicated(false))
	n, err := b.DeleteQueue(ctx, s.Queue, conditions, conditions)
	if refusedWith(err, notImplemented) {
		if !force {
			return Kept, replicatedKept
		}
		n, err = b.DeleteQueue(ctx, s.Queue, false, false)
	}
	switch {
	case refusedWith(err, preconditionFailed):
		return Kept, "a message or a consumer has come meanwhile"
	case err != nil:
		return Kept, err.Error()
	case n > 0:
		return Deleted, plural(int64(n), "message", "messages") + " went with it"
	}
	return Deleted, ""
}

func refusedWith(err error, code uint16) bool {
	refused, ok := errors.AsType[*shards.BrokerError](err)
	return ok && refused.Code == code
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
