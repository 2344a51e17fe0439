package shards

import (
	"context"
	"maps"

	"github.com/shardmq/shardmq/shards/coordination"
)

// Coordinate has the topology decide together with the other proxies of tr. It
// is to be called before Start, Resolve and Group; without it the proxy decides
// for itself alone. Close closes tr.
func (t *Topology) Coordinate(tr coordination.Transport) {
	if t.node != nil {
		_ = t.node.Close() // the one that was alone: it has done nothing yet
	}
	t.alone = tr == nil
	t.node = coordination.NewNode(coordination.NodeOptions{
		Transport: tr, Participant: participant{t}, Topologist: t, Log: vhostLog{t.log, t.vhost},
	})
}

// participant is the Topology as its coordination sees it.
type participant struct{ t *Topology }

// Report implements coordination.Participant.
func (p participant) Report() map[string]coordination.ExchangeReport { return p.t.report() }

// ReportOn implements coordination.ExchangeReporter.
func (p participant) ReportOn(exchange string) (coordination.ExchangeReport, bool) {
	return p.t.reportOn(exchange)
}

// Apply implements coordination.Participant.
func (p participant) Apply(exchange string, plan *coordination.Plan) { p.t.apply(exchange, plan) }

// Seen says that another proxy has come to report an exchange. If it is missing
// here it has just been declared there. It does not block.
func (p participant) Seen(exchange string) { p.t.seen(exchange) }

func (t *Topology) seen(exchange string) {
	route := t.routes.lookup([]byte(exchange))
	if route == nil || route.Exchange == nil {
		return
	}
	if x := route.Exchange; x.State().Mode == Missing {
		t.spawn(func() { t.finish(t.ctx, x) })
	}
}

// restate says that what this proxy has or wants of an exchange has changed. No
// lock may be held but an exchange's turn and a session's.
func (t *Topology) restate(x *Exchange) {
	t.list(x)
	t.node.Changed(x.Name)
}

// list has an exchange reported from now on.
func (t *Topology) list(x *Exchange) {
	t.listMu.Lock()
	defer t.listMu.Unlock()
	t.listed[x.Name] = x
}

// report returns what there is to say of each exchange.
func (t *Topology) report() map[string]coordination.ExchangeReport {
	t.listMu.Lock()
	defer t.listMu.Unlock()
	reports := make(map[string]coordination.ExchangeReport, len(t.listed))
	for name := range t.listed {
		if report, matters := t.reportListed(name); matters {
			reports[name] = report
		}
	}
	return reports
}

// reportOn is report for one exchange.
func (t *Topology) reportOn(exchange string) (coordination.ExchangeReport, bool) {
	t.listMu.Lock()
	defer t.listMu.Unlock()
	return t.reportListed(exchange)
}

// reportListed returns what there is to say of a listed exchange. One that is gone
// and has no consumers here is forgotten. listMu is held.
func (t *Topology) reportListed(name string) (coordination.ExchangeReport, bool) {
	x := t.listed[name]
	if x == nil {
		return coordination.ExchangeReport{}, false
	}
	report, matters := t.routes.canonical(x).report()
	if !matters {
		delete(t.listed, name)
	}
	return report, matters
}

// report returns what there is to say of the exchange, and whether it matters.
func (x *Exchange) report() (coordination.ExchangeReport, bool) {
	var r coordination.ExchangeReport
	if g := x.group.Load(); g != nil {
		r.Consumers, r.Unsettled = g.report()
	}
	w := &x.work
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &w.accord
	r.Want = a.want
	r.Prepared, r.Routing = a.progress()
	r.Fenced = a.pause.fenced
	r.Found = w.surplus.report(a.plan)
	if len(a.unsettled) > 0 {
		r.Unsettled = maps.Clone(r.Unsettled)
		if r.Unsettled == nil {
			r.Unsettled = make(map[string]int)
		}
		for queue, n := range a.unsettled {
			add(r.Unsettled, queue, n)
		}
	}
	return r, a.wanted || len(r.Consumers) > 0 || len(r.Unsettled) > 0
}

// apply takes over what has been decided on an exchange. The coordination's lock
// is held.
func (t *Topology) apply(exchange string, p *coordination.Plan) {
	t.listMu.Lock()
	x := t.listed[exchange]
	t.listMu.Unlock()
	if x == nil {
		route := t.routes.lookup([]byte(exchange))
		if route == nil || route.Exchange == nil {
			return // none of ours, or not any more
		}
		x = route.Exchange
	}
	x = t.routes.canonical(x)
	x.work.mu.Lock()
	x.work.accord.take(p)
	x.work.mu.Unlock()
	t.obey(x)
	if g := x.group.Load(); g != nil {
		g.apply(p)
	}
	t.follow(x)
}

// groupOf returns the exchange's consumer group, made on first use.
func (t *Topology) groupOf(x *Exchange) *Group {
	if g := x.group.Load(); g != nil {
		return g
	}
	g := newGroup(x, seat{
		counts:    func(ctx context.Context) ([]Count, error) { return t.Counts(ctx, x) },
		changed:   func() { t.restate(x) },
		spawn:     t.spawn,
		elsewhere: func() int { return t.node.Elsewhere(x.Name) },
		alone:     t.alone,
	})
	if x.group.CompareAndSwap(nil, g) {
		g.begin(x.work.planned()) // apply did not see it yet
	}
	return x.group.Load()
}

// leads reports whether this proxy decides for all of the vhost.
func (t *Topology) leads() bool { return t.node.Status().Leads }

// Unsettled reports that deliveries of basic.get on a shard queue that await
// their acknowledgement have become more or fewer by delta.
func (t *Topology) Unsettled(x *Exchange, queue string, delta int) {
	w := &t.routes.canonical(x).work
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accord.unsettled == nil {
		w.accord.unsettled = make(map[string]int)
	}
	add(w.accord.unsettled, queue, delta)
}
