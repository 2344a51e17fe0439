package router_test

import (
	"slices"
	"strings"

	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// ledger checks what the router tells the consumers' groups: every claim is within the target, is given back once, and is neither kept longer nor
// given back earlier than the broker has something of it.
type ledger struct {
	fail     func(format string, args ...any)
	accounts map[uint64]*account // by the router's number of the consumer
	members  map[*shards.Member]*account
	gets     map[string]int // not acknowledged, by queue
}

// account is one consumer's.
type account struct {
	target      shards.Target
	aimed       uint64
	known, left bool
	plain, lent map[string]int // claims, by queue
	attached    map[string]int
}

func newLedger(fail func(string, ...any)) *ledger {
	return &ledger{fail: fail, accounts: map[uint64]*account{}, members: map[*shards.Member]*account{}, gets: map[string]int{}}
}

func (l *ledger) account(consumer uint64) *account {
	acc := l.accounts[consumer]
	if acc == nil {
		acc = &account{plain: map[string]int{}, lent: map[string]int{}, attached: map[string]int{}}
		l.accounts[consumer] = acc
	}
	return acc
}

// heard notes a target that the router is about to be told.
func (acc *account) heard(t shards.Target) {
	if t.Version > acc.target.Version {
		acc.target = t
	}
}

func (acc *account) covers(queue string) bool { return slices.Contains(acc.target.Shards, queue) }

// joined notes the answer to a join that the router is about to get.
func (l *ledger) joined(consumer uint64, r router.Answer) {
	if r.Member != nil {
		acc := l.account(consumer)
		acc.known = true
		acc.heard(r.Target)
		l.members[r.Member] = acc
	}
}

// aimed checks that the group has heard of the target that the router was told, and of what was lent and is the consumer's own now.
func (l *ledger) aimed(consumer uint64) {
	acc := l.account(consumer)
	if !acc.known || acc.left {
		return
	}
	if acc.aimed != acc.target.Version {
		l.fail("consumer %d goes by version %d, has said %d", consumer, acc.target.Version, acc.aimed)
	}
	for q, n := range acc.attached {
		if acc.covers(q) && n > acc.plain[q] {
			l.fail("consumer %d is on %s, which is its own, as on another's", consumer, q)
		}
	}
}

// told checks one report.
func (l *ledger) told(a router.Ask) {
	switch a.Kind {
	case router.AskUnsettled:
		if l.gets[a.Queue] += a.Delta; l.gets[a.Queue] < 0 {
			l.fail("more gets settled than there were on %s", a.Queue)
		}
		return
	case router.AskLog:
		return
	}
	acc := l.members[a.Member]
	claims := acc.plain
	if a.Lent {
		claims = acc.lent
	}
	switch a.Kind {
	case router.AskLeave:
		if acc.left {
			l.fail("left twice")
		}
		acc.left = true
	case router.AskAimed:
		if acc.left || a.Version <= acc.aimed || a.Version != acc.target.Version {
			l.fail("goes by version %d after %d, of %d", a.Version, acc.aimed, acc.target.Version)
		}
		acc.aimed = a.Version
	case router.AskClaim:
		if acc.left || a.Lent && acc.target.Ordered || a.Lent == acc.covers(a.Queue) {
			l.fail("claims %s, lent %t, left %t, target %v", a.Queue, a.Lent, acc.left, acc.target)
		}
		claims[a.Queue]++
	case router.AskReleased:
		if claims[a.Queue]--; claims[a.Queue] < 0 || claims[a.Queue]+acc.other(a) < acc.attached[a.Queue] {
			l.fail("releases %s, lent %t", a.Queue, a.Lent)
		}
	case router.AskAttached:
		if acc.attached[a.Queue] += a.Delta; acc.attached[a.Queue] < 0 || acc.attached[a.Queue] > acc.claims(a.Queue) {
			l.fail("attached %d times to %s", acc.attached[a.Queue], a.Queue)
		}
	}
}

func (acc *account) claims(queue string) int { return acc.plain[queue] + acc.lent[queue] }

// other counts the claims of the other kind than the report is about.
func (acc *account) other(a router.Ask) int {
	if a.Lent {
		return acc.plain[a.Queue]
	}
	return acc.lent[a.Queue]
}

// claims counts all, by queue; those that are none any more are left out.
func (l *ledger) claims() map[string]int {
	n := map[string]int{}
	for _, acc := range l.accounts {
		for _, claims := range []map[string]int{acc.plain, acc.lent} {
			for q, v := range claims {
				if n[q] += v; n[q] == 0 {
					delete(n, q)
				}
			}
		}
	}
	return n
}

// balance compares with what the broker has, when nothing is on its way: consumers, or what ended ones were given and have not settled.
func (l *ledger) balance(b *modelBroker) {
	type part struct {
		id uint16
		k  *modelConsumer
	}
	there := map[part]bool{}
	gets := map[string]int{}
	for id, ch := range b.chans {
		for _, k := range ch.consumers {
			there[part{id, k}] = true
		}
		for _, d := range ch.unacked {
			if d.of != nil {
				there[part{id, d.of}] = true
			} else if strings.HasPrefix(d.queue, "sharding: ") {
				gets[d.queue]++
			}
		}
	}
	want := map[string]int{}
	for p := range there {
		if strings.HasPrefix(p.k.tag, tagPrefix) {
			want[p.k.queue]++
		}
	}
	l.equal("claims", l.claims(), want)
	l.equal("gets", l.gets, gets)
}

func (l *ledger) equal(what string, got, want map[string]int) {
	for _, side := range []map[string]int{got, want} {
		for q := range side {
			if got[q] != want[q] {
				l.fail("%s on %s: %d, the broker has %d", what, q, got[q], want[q])
			}
		}
	}
}
