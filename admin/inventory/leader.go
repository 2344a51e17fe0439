package inventory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	// LeaderTimeout is how long the leader has to remove shards that it is asked to
	// remove: they have to be unbound for a minute, and what was delivered of them has
	// to be acknowledged.
	LeaderTimeout = 90 * time.Second
	// lookEvery is how often it is looked whether it has.
	lookEvery = 500 * time.Millisecond
)

// request is that the leader remove a shard; at is its verdict's place.
type request struct {
	*Shard
	at int
}

// byLeader reports whether the removal of a shard is left to the leader: it has
// the proxies let go of the shard first, which nobody else can.
func (l *Listing) byLeader(s *Shard, o PruneOptions) bool {
	return o.Force && o.Insist != nil && s.Status == Draining && l.view.Led
}

// haveRemoved asks the leader to remove shards, waits until it has, and completes
// their verdicts.
func (l *Listing) haveRemoved(ctx context.Context, o PruneOptions, asked []request, verdicts []Verdict) {
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, LeaderTimeout)
	defer cancel()
	failed := make(chan error, 1)
	messages := pruneMessages(asked, verdicts)
	go func() { failed <- o.Insist(ctx, messages...) }()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var err error
	over := false
	for len(asked) > 0 && !over {
		select {
		case <-look.C:
			asked = slices.DeleteFunc(asked, func(r request) bool { return l.isGone(ctx, r, verdicts) })
		case err = <-failed:
			over = true
		}
	}
	if cancel(); !over {
		<-failed
	}
	for _, r := range asked {
		v := &verdicts[r.at]
		v.Action, v.Reason = Kept, notRemoved
		if err != nil {
			v.Reason = err.Error()
		}
	}
}

var notRemoved = fmt.Sprintf("the leader has not removed it within %s: it has to be unbound for a minute, "+
	"and everything delivered of it to be acknowledged; run again", LeaderTimeout)

// isGone notes that a shard is gone, and reports whether it is.
func (l *Listing) isGone(ctx context.Context, r request, verdicts []Verdict) bool {
	counts, errs := l.found.counts(ctx, r.home, []string{r.Queue})
	if errs[0] != nil || counts[0].Exists || counts[0].Dormant {
		return false
	}
	verdicts[r.at].Action = Deleted
	return true
}

// pruneMessages returns what to say, a message for each exchange.
func pruneMessages(asked []request, verdicts []Verdict) (messages [][]byte) {
	var exchanges []string
	queues := map[string][]string{}
	for _, r := range asked {
		exchange := verdicts[r.at].Exchange
		if queues[exchange] == nil {
			exchanges = append(exchanges, exchange)
		}
		queues[exchange] = append(queues[exchange], r.Queue)
	}
	for _, exchange := range exchanges {
		messages = append(messages, coordination.Prune(exchange, queues[exchange]))
	}
	return messages
}
