package inventory

import (
	"cmp"
	"slices"
)

// complete fills in what counts alone do not tell.
func (x *Exchange) complete(view *View, stats map[string]Stats) {
	x.Shards = slices.DeleteFunc(x.Shards, func(s Shard) bool { return s.Status == Surplus && s.Problem == missing })
	for i := range x.Shards {
		s := &x.Shards[i]
		stat, known := stats[s.Queue]
		if known {
			s.Node, s.Type = cmp.Or(stat.Node, s.Node), stat.Type
		}
		if !s.present {
			continue
		}
		if known {
			s.Unacked, s.Publish, s.Deliver = stat.Unacked, new(stat.Publish), new(stat.Deliver)
		}
		if s.Unacked == nil && view.Proxies() > 0 && !view.Partial && len(s.seen) == 0 && *s.Consumers == 0 {
			// Proxies tell whether they hold anything of a shard, not how much.
			s.Unacked = new(int64)
		}
		if s.Unacked != nil {
			s.Messages = new(*s.Ready + *s.Unacked)
		}
	}
	x.skew()
	x.total()
}

// skew relates the active shards' ready messages to their mean.
func (x *Exchange) skew() {
	var sum, n int64
	for i := range x.Shards {
		if s := &x.Shards[i]; s.present && s.Status == Active {
			sum += *s.Ready
			n++
		}
	}
	if sum == 0 {
		return // nothing to compare
	}
	mean := float64(sum) / float64(n)
	for i := range x.Shards {
		if s := &x.Shards[i]; s.present && s.Status == Active {
			s.Skew = new(float64(*s.Ready) / mean)
		}
	}
}

// total adds up the shards that are there and answer. What is not known of one of
// them is not known of the sum.
func (x *Exchange) total() {
	var t Numbers
	first := true
	for i := range x.Shards {
		s := &x.Shards[i]
		if !s.present {
			continue
		}
		if first {
			t, first = s.Numbers, false
			continue
		}
		t.Messages, t.Ready = add(t.Messages, s.Messages), add(t.Ready, s.Ready)
		t.Unacked, t.Consumers = add(t.Unacked, s.Unacked), add(t.Consumers, s.Consumers)
		t.Rate, t.Publish, t.Deliver = add(t.Rate, s.Rate), add(t.Publish, s.Publish), add(t.Deliver, s.Deliver)
		if t.Skew == nil || s.Skew != nil && *s.Skew > *t.Skew {
			t.Skew = s.Skew
		}
	}
	x.Total = t
}

func add[N int64 | float64](a, b *N) *N {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}
