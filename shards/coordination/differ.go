package coordination

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// differing is in what the proxies' configurations of exchanges do not agree, by a
// look that is taken once per Announce. Every proxy has it, for its own Status; the
// leader says so in its log.
type differing struct {
	due time.Duration
	// proxies counts them by exchange, where there are any.
	proxies map[string]int
}

// difference is one thing that some proxies have otherwise.
type difference struct {
	text    string // for the log
	ids     []string
	theirs  string
	others  string
	subject string // what is compared
}

// tickDiffering looks at all exchanges when that is due.
func (c *Core) tickDiffering() {
	if c.now < c.differing.due {
		return
	}
	c.differing.due = c.now + c.t.Announce
	c.differing.proxies = make(map[string]int)
	for _, name := range sortedKeys(c.known.Exchanges) {
		found := c.placedDifferently(name)
		found = append(found, c.contrary(name, &c.known.Exchanges[name].Layout)...)
		if n := countProxies(found); n > 0 {
			c.differing.proxies[name] = n
		}
		if c.leading() {
			c.work(name).warn(c, name, found)
		}
	}
}

// countProxies returns how many proxies differ in something.
func countProxies(found []difference) int {
	var ids []string
	for _, d := range found {
		ids = append(ids, d.ids...)
	}
	slices.Sort(ids)
	return len(slices.Compact(ids))
}

// warn says what is new of the differences: a value that was not there before, or
// more proxies that have it.
func (w *work) warn(c *Core, exchange string, found []difference) {
	said := make(map[string][]string)
	for _, d := range found {
		key := strings.Join([]string{d.subject, d.theirs, d.others}, "\x00")
		said[key] = d.ids
		former := w.warned[key]
		if !slices.ContainsFunc(d.ids, func(id string) bool { return !slices.Contains(former, id) }) {
			continue
		}
		c.emit(Output{Kind: LogOutput, Warn: true, Text: d.text, Fields: []any{
			"exchange", exchange, "proxies", strings.Join(d.ids, ", "), "differs", d.subject, "theirs", d.theirs, "others", d.others,
		}})
	}
	w.warned = said
}

// placedDifferently returns the placements that are not the usual one of an
// exchange: messages of one key go to different shards then.
func (c *Core) placedDifferently(exchange string) []difference {
	by := make(map[string][]string)
	for _, m := range c.live() {
		want := m.report[exchange].Want
		if len(want.Shards) > 0 && want.Placement != "" && c.heardLately(m, c.now) {
			by[want.Placement] = append(by[want.Placement], m.id)
		}
	}
	if len(by) < 2 {
		return nil
	}
	values := sortedKeys(by)
	usual := slices.MaxFunc(values, func(a, b string) int { // the first of several
		return len(by[a]) - len(by[b])
	})
	var found []difference
	for _, value := range values {
		if value != usual {
			found = append(found, difference{
				text: "proxies place messages differently: one routing key may go to several shards",
				ids:  by[value], subject: "placement", theirs: value, others: usual,
			})
		}
	}
	return found
}

// contrary returns in what proxies have for long been wanting an exchange
// otherwise than was adopted.
func (c *Core) contrary(exchange string, l *Layout) []difference {
	by := make(map[string]*difference)
	for _, m := range c.live() {
		r, ok := m.report[exchange]
		if !ok || len(r.Want.Shards) == 0 || m.keys[exchange] == l.Key {
			delete(m.contrary, exchange)
			continue
		}
		since, known := m.contrary[exchange]
		if !known {
			m.contrary[exchange] = c.now
			continue
		}
		if c.now-since <= c.t.Contrary || !c.heardLately(m, c.now) {
			continue
		}
		d := l.against(&r.Want)
		key := d.subject + "\x00" + d.theirs
		if by[key] == nil {
			by[key] = &d
		}
		by[key].ids = append(by[key].ids, m.id)
	}
	var found []difference
	for _, key := range sortedKeys(by) {
		found = append(found, *by[key])
	}
	return found
}

// against says in what a spec is not what was adopted.
func (l *Layout) against(want *Spec) difference {
	adopted := l.Set
	if l.Next != nil {
		adopted = l.Next
	}
	var subjects, theirs, others []string
	add := func(subject, their, other string) {
		subjects, theirs, others = append(subjects, subject), append(theirs, their), append(others, other)
	}
	if !sameShards(adopted, want.Shards) {
		their, other := countText(want.Shards), countText(adopted)
		if their == other {
			their += " by other names, or arranged otherwise"
		}
		add("shards", their, other)
	}
	if l.Ordered != want.Ordered {
		add("max-consumers-per-shard", limitText(want.Ordered), limitText(l.Ordered))
	}
	if l.Barrier != want.Barrier {
		add("order-barrier", fmt.Sprint(want.Barrier), fmt.Sprint(l.Barrier))
	}
	return difference{
		text:    "proxies want an exchange otherwise than it is, by their configuration",
		subject: strings.Join(subjects, ", "), theirs: strings.Join(theirs, ", "), others: strings.Join(others, ", "),
	}
}

// countText says how many shards there are, and on which nodes.
func countText(shards []Shard) string {
	per := make(map[string]int)
	for _, s := range shards {
		per[s.Node]++
	}
	text := fmt.Sprint(len(shards))
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(per)) {
		if node != "" && len(nodes) < 10 {
			nodes = append(nodes, fmt.Sprintf("%d on %s", per[node], node))
		}
	}
	if len(nodes) == 0 {
		return text
	}
	return text + " (" + strings.Join(nodes, ", ") + ")"
}

func limitText(ordered bool) string {
	if ordered {
		return "1"
	}
	return "unlimited"
}

// heardLately reports whether a proxy counts as alive; a leader gives others up
// itself.
func (c *Core) heardLately(m *member, now time.Duration) bool {
	return m == c.self || c.lead != nil || now-m.heard < c.t.Silent+c.t.Announce
}
