package integration

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// ledger keeps what was published and what was received. A message is KEY/NUMBER, numbers counting up in each key; a
// publisher that gets no confirm publishes a further copy of it, KEY/NUMBER/COPY, which is the body.
type ledger struct {
	mu         sync.Mutex
	confirmed  map[string]bool      // messages
	done       map[string]bool      // messages that a client has acknowledged
	taken      map[string][]*taking // copies
	perKey     map[string]int       // confirmed messages of each key
	last       map[string]int       // key: the highest number of those delivered for the first time
	inversions []string
	problems   []string
	reconnects int
	nodeFaults bool // a node may lose acknowledgements of clients that keep their connections
	ahead      int  // confirmed messages that nobody has acknowledged yet
	clock      int  // numbers deliveries and acknowledgements
}

// taking is one delivery of a copy to a client.
type taking struct {
	copy        string
	session     *session
	redelivered bool
	at          int // when it was delivered
	acked       int // when it was acknowledged, 0 = never
}

// session is one connection of a client.
type session struct {
	broken bool // it ended otherwise than in order: whether its last acknowledgements arrived is not known
}

func newLedger() *ledger {
	return &ledger{confirmed: map[string]bool{}, done: map[string]bool{}, taken: map[string][]*taking{}, last: map[string]int{}, perKey: map[string]int{}}
}

// messageOf returns the message, key and number of a copy.
func messageOf(copied string) (message, key string, number int) {
	message = copied[:strings.LastIndexByte(copied, '/')]
	key, n, _ := strings.Cut(message, "/")
	number, _ = strconv.Atoi(n)
	return message, key, number
}

func (l *ledger) confirm(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.confirmed[message] {
		l.confirmed[message] = true
		if !l.done[message] {
			l.ahead++
		}
		key, _, _ := strings.Cut(message, "/")
		l.perKey[key]++
	}
}

// backlog is how many confirmed messages nobody has acknowledged yet.
func (l *ledger) backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ahead
}

func (l *ledger) confirmsOf(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.perKey[key]
}

func (l *ledger) confirms() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.confirmed)
}

// take notes a delivery.
func (l *ledger) take(copied string, s *session, redelivered bool) *taking {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	k := &taking{copy: copied, session: s, redelivered: redelivered, at: l.clock}
	l.taken[copied] = append(l.taken[copied], k)
	if !redelivered {
		_, key, number := messageOf(copied)
		if last := l.last[key]; number < last {
			l.inversions = append(l.inversions, fmt.Sprintf("%s after number %d", copied, last))
		}
		l.last[key] = max(l.last[key], number)
	}
	return k
}

// ack notes an acknowledgement that has been sent.
func (l *ledger) ack(all ...*taking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range all {
		l.clock++
		k.acked = l.clock
		message, _, _ := messageOf(k.copy)
		if !l.done[message] && l.confirmed[message] {
			l.ahead--
		}
		l.done[message] = true
	}
}

func (l *ledger) end(s *session, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.broken = broken
}

// problem notes what a client should not have seen.
func (l *ledger) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *ledger) reconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reconnects++
}

// progress waits until n more messages are confirmed: the load is the clock of what happens meanwhile.
func (l *ledger) progress(t *testing.T, n int) {
	t.Helper()
	until := l.confirms() + n
	eventually(t, fmt.Sprintf("%d more confirmed messages", n), func() string {
		if c := l.confirms(); c < until {
			return fmt.Sprintf("%d are missing", until-c)
		}
		return ""
	})
}

// lost returns the confirmed messages that nobody has acknowledged.
func (l *ledger) lost() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []string
	for message := range l.confirmed {
		if !l.done[message] {
			lost = append(lost, message)
		}
	}
	return lost
}

// awaitConsumed waits until every confirmed message is acknowledged.
func (l *ledger) awaitConsumed(t *testing.T) {
	t.Helper()
	eventually(t, "the consumption of every confirmed message", func() string {
		if lost := l.lost(); len(lost) > 0 {
			return fmt.Sprintf("%d of %d are missing, such as %s", len(lost), l.confirms(), l.story(lost[:min(8, len(lost))]))
		}
		return ""
	})
}

// story tells what became of messages.
func (l *ledger) story(messages []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, message := range messages {
		fmt.Fprintf(&b, "%s:", message)
		for copied := range 5 {
			for _, k := range l.taken[fmt.Sprintf("%s/%d", message, copied)] {
				fmt.Fprintf(&b, " copy %d (again: %t, session broken: %t, acknowledged at %d of %d)", copied, k.redelivered, k.session.broken, k.acked, l.clock)
			}
		}
		b.WriteString("; ")
	}
	return b.String()
}

// duplicates counts the deliveries beyond the first of each copy, and lists those that should not have been: the broker
// marks what it delivers again, and never delivers what was acknowledged.
func (l *ledger) duplicates() (n int, wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, all := range l.taken {
		n += len(all) - 1
		firsts, settled := 0, 0
		for _, k := range all {
			if !k.redelivered {
				firsts++
			}
			if settled > 0 && k.at > settled {
				wrong = append(wrong, name+" was delivered after its acknowledgement")
			}
			if k.acked > 0 && !k.session.broken && !l.nodeFaults {
				settled = k.acked
			}
		}
		if firsts > 1 {
			wrong = append(wrong, fmt.Sprintf("%s was delivered %d times as if for the first time", name, firsts))
		}
	}
	return n, wrong
}

// require checks the whole ledger and prints the summary.
func (l *ledger) require(f *fleet, w *watch) {
	f.t.Helper()
	duplicates, wrong := l.duplicates()
	lost := l.lost()
	moves := f.moves()
	l.mu.Lock()
	defer l.mu.Unlock()
	f.t.Logf("summary: %d messages confirmed, moves %d, longest uncovered time %s, duplicates %d, inversions %d, reconnects %d, losses %d",
		len(l.confirmed), moves, w.longestAlone().Round(lookEvery), duplicates, len(l.inversions), l.reconnects, len(lost))
	require.Empty(f.t, lost, "confirmed and never consumed")
	require.Empty(f.t, wrong, "duplicates that the broker would not make")
	require.Empty(f.t, l.problems, "what clients saw")
}
