package integration

import (
	"slices"
	"strings"
)

type randBinding struct {
	source, key string
	queue       string // one of them is set
	exchange    string
	arguments   string
}

// route returns the queues that a message reaches. keys are its routing key and those in CC and BCC.
func (m *randModel) route(exchange string, keys []string, label string) []string {
	found := map[string]bool{}
	if exchange == "" {
		for _, k := range keys {
			found[k] = true // if it is there once the message comes
		}
	}
	seen := map[string]bool{exchange: true}
	for work := []string{exchange}; len(work) > 0; work = work[1:] {
		x := m.exchanges[work[0]]
		if x == nil {
			continue
		}
		matched := false
		to := func(name string) {
			if !seen[name] {
				seen[name] = true
				work = append(work, name)
			}
		}
		for _, b := range m.bindings {
			if b.source != x.declared.Exchange || !b.matches(x.declared.Type, keys, label) {
				continue
			}
			matched = true
			if b.queue != "" {
				found[b.queue] = true
			} else {
				to(b.exchange)
			}
		}
		if !matched && x.alternate != "" {
			to(x.alternate)
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (b randBinding) matches(kind string, keys []string, label string) bool {
	switch kind {
	case "fanout":
		return true
	case "headers":
		return b.arguments == "" || b.arguments == label
	case "topic":
		return slices.ContainsFunc(keys, func(k string) bool { return topicMatches(strings.Split(b.key, "."), strings.Split(k, ".")) })
	}
	return slices.Contains(keys, b.key)
}

func topicMatches(pattern, words []string) bool {
	switch {
	case len(pattern) == 0:
		return len(words) == 0
	case pattern[0] == "#":
		return topicMatches(pattern[1:], words) || len(words) > 0 && topicMatches(pattern, words[1:])
	case len(words) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == words[0]) && topicMatches(pattern[1:], words[1:])
}

// awaited reports whether a transaction has a message for a queue of that name.
func (m *randModel) awaited(queue string) bool {
	return slices.ContainsFunc(m.channels, func(ch *randChannel) bool {
		return slices.ContainsFunc(ch.pending, func(queues []string) bool { return slices.Contains(queues, queue) })
	})
}

// arrive puts a message into those of the queues that are there.
func (m *randModel) arrive(queues []string) {
	for _, name := range queues {
		q := m.queues[name]
		if q == nil {
			continue
		}
		m.dirty[q] = true
		if q.refuses && q.most > 0 && q.ready() >= q.most {
			continue
		}
		q.total++
		q.trim()
	}
}

func (m *randModel) deleteQueue(q *randQueue) {
	q.gone = true
	delete(m.queues, q.declared.Queue)
	m.past[q.declared.Queue] = true
	delete(m.dirty, q)
	for _, c := range q.consumers {
		c.ch.consumers = slices.DeleteFunc(c.ch.consumers, func(o *randConsumer) bool { return o == c })
		m.cancels++
	}
	q.consumers = nil
	m.unbind(func(b randBinding) bool { return b.queue == q.declared.Queue })
}

func (m *randModel) deleteExchange(name string) {
	delete(m.exchanges, name)
	m.bindings = slices.DeleteFunc(m.bindings, func(b randBinding) bool { return b.source == name })
	m.unbind(func(b randBinding) bool { return b.exchange == name })
}

// unbind removes bindings, and the exchanges that go with their last one.
func (m *randModel) unbind(which func(randBinding) bool) {
	var sources []string
	m.bindings = slices.DeleteFunc(m.bindings, func(b randBinding) bool {
		if which(b) {
			sources = append(sources, b.source)
		}
		return which(b)
	})
	for _, name := range sources {
		if x := m.exchanges[name]; x != nil && x.declared.AutoDelete && !m.bound(name) {
			m.deleteExchange(name)
		}
	}
}

func (m *randModel) bound(source string) bool {
	return slices.ContainsFunc(m.bindings, func(b randBinding) bool { return b.source == source })
}

func (m *randModel) bind(b randBinding) {
	if !slices.Contains(m.bindings, b) {
		m.bindings = append(m.bindings, b)
	}
}
