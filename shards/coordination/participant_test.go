package coordination

import (
	"maps"
	"slices"
	"sync"
)

// fakeParticipant is a proxy whose consumers attach to what they are granted, and
// let go of what is taken from them, when the test says so.
type fakeParticipant struct {
	mu    sync.Mutex
	want  map[string]Spec
	plans map[string]*Plan
	held  map[string]map[uint64]map[string]bool // what was attached and not let go of
	in    map[string][]ConsumerReport
	route map[string]uint64
	calls int // of Apply
}

func newFakeParticipant(want map[string]Spec) *fakeParticipant {
	return &fakeParticipant{
		want: want, plans: make(map[string]*Plan), held: make(map[string]map[uint64]map[string]bool),
		in: make(map[string][]ConsumerReport), route: make(map[string]uint64),
	}
}

func (f *fakeParticipant) Report() map[string]ExchangeReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	reports := make(map[string]ExchangeReport)
	for x, want := range f.want {
		r := ExchangeReport{Want: want, Routing: f.route[x]}
		if p := f.plans[x]; p != nil {
			r.Prepared = p.Generation
			if p.Next != nil {
				r.Prepared++
			}
		}
		for _, c := range f.in[x] {
			held := maps.Clone(f.held[x][c.ID])
			if held == nil {
				held = make(map[string]bool)
			}
			if p := f.plans[x]; p != nil && !c.Left {
				for _, queue := range p.Targets[c.ID] {
					held[queue] = true
				}
			}
			if c.Left && len(held) == 0 {
				continue
			}
			c.Held = sortedKeys(held)
			r.Consumers = append(r.Consumers, c)
		}
		reports[x] = r
	}
	return reports
}

func (f *fakeParticipant) Apply(exchange string, p *Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.plans[exchange] = p
	f.route[exchange] = p.Generation
	for id, queues := range p.Targets {
		for _, queue := range queues {
			f.attach(exchange, id, queue)
		}
	}
}

// attach notes that a consumer holds a queue. mu is held.
func (f *fakeParticipant) attach(exchange string, id uint64, queue string) {
	if f.held[exchange] == nil {
		f.held[exchange] = make(map[uint64]map[string]bool)
	}
	if f.held[exchange][id] == nil {
		f.held[exchange][id] = make(map[string]bool)
	}
	f.held[exchange][id][queue] = true
}

func (f *fakeParticipant) join(exchange string, c ConsumerReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.in[exchange] = append(f.in[exchange], c)
}

func (f *fakeParticipant) leave(exchange string, id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.in[exchange] {
		if f.in[exchange][i].ID == id {
			f.in[exchange][i].Left = true
		}
	}
}

// release lets every consumer let go of what it has no target for, and reports
// whether any had something.
func (f *fakeParticipant) release(exchange string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	any := false
	for _, c := range f.in[exchange] {
		for queue := range f.held[exchange][c.ID] {
			if c.Left || !slices.Contains(f.plans[exchange].Targets[c.ID], queue) {
				delete(f.held[exchange][c.ID], queue)
				any = true
			}
		}
	}
	return any
}

func (f *fakeParticipant) targets(exchange string, id uint64) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plans[exchange] == nil {
		return nil
	}
	return f.plans[exchange].Targets[id]
}
