package shards

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// firstTargetWait bounds how long Join waits for other proxies to give shards up,
// so that most consumers begin with all they are to have.
const firstTargetWait = 500 * time.Millisecond

// Join adds a consumer and returns what it shall consume. That may be nothing as
// yet, for the shards it is to have may still be held by others, or be fewer than
// there are consumers; Notify tells when it gets any. The member must Leave in
// the end.
//
// Errors: *BrokerError 404 when the exchange has no shards; *BrokerError 403 when
// an exclusive consumer is there, or for an exclusive one when anybody is; the
// context's error; for an exclusive consumer also what kept the broker's counts
// from being read. Others go by the last known counts then.
func (g *Group) Join(ctx context.Context, spec JoinSpec) (*Member, Target, error) {
	if err := ctx.Err(); err != nil {
		return nil, Target{}, g.joinError(err)
	}
	m := &Member{g: g, spec: spec, joining: true, attached: make(map[string]int)}
	err := g.knock(m)
	if err == nil {
		err = g.consult(ctx, m)
	}
	if err == nil {
		err = g.enter(m)
	}
	if err != nil {
		g.giveUp(m)
		return nil, Target{}, err
	}
	if !m.one() {
		g.changed()
		if err := g.awaitFirst(ctx, m); err != nil {
			m.Leave()
			return nil, Target{}, err
		}
	}
	return m, g.joined(m), nil
}

func (g *Group) joinError(err error) error {
	return fmt.Errorf("join consumers of '%s': %w", g.x.Name, err)
}

// knock checks whether m may join, and shuts the door behind an exclusive one.
func (g *Group) knock(m *Member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.adoptSet()
	if err := g.admit(m); err != nil {
		return err
	}
	if m.spec.Exclusive {
		g.exclusive = m
	}
	return nil
}

// consult reads the broker's counts where they matter.
func (g *Group) consult(ctx context.Context, m *Member) error {
	if m.spec.Exclusive {
		return g.requireUnused(ctx)
	}
	if !m.one() {
		return nil
	}
	g.refreshExternal(ctx)
	if err := ctx.Err(); err != nil {
		return g.joinError(err)
	}
	return nil
}

// enter adds m, unless someone has claimed the shards meanwhile.
func (g *Group) enter(m *Member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.admit(m); err != nil {
		return err
	}
	g.adoptSet()
	g.lastID++
	m.id = g.lastID
	g.members = append(g.members, m)
	if m.one() {
		g.aim(m, []string{g.leastConsumed(m.spec.Node)}, false)
		return nil
	}
	m.first = make(chan struct{})
	g.reported.stale = true
	return nil
}

// awaitFirst waits, for a while, until m has shards, or is known to get none.
func (g *Group) awaitFirst(ctx context.Context, m *Member) error {
	if !g.seat.alone {
		timer := time.NewTimer(firstTargetWait)
		defer timer.Stop()
		select {
		case <-m.first:
		case <-timer.C:
		case <-ctx.Done():
			return g.joinError(ctx.Err())
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken() {
		return g.inExclusiveUse()
	}
	return nil
}

// joined returns the target m begins with; later ones it is notified of.
func (g *Group) joined(m *Member) Target {
	g.mu.Lock()
	defer g.mu.Unlock()
	m.joining = false
	if m.target.Version == 0 { // nothing has been decided on it yet
		m.target = Target{Version: 1, Ordered: !m.one() && g.ordered()}
	}
	return m.target
}

// giveUp undoes knock.
func (g *Group) giveUp(m *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exclusive == m {
		g.exclusive = nil
	}
}

// admit reports why m may not join, nil if it may.
func (g *Group) admit(m *Member) error {
	if g.set == nil {
		return &BrokerError{
			Code: uint16(frames.NotFound), Op: "consume",
			Text: fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '%s'", g.x.Name, g.x.Vhost),
		}
	}
	if g.exclusive != nil && g.exclusive != m || m.spec.Exclusive && len(g.members) > 0 || g.taken() {
		return g.inExclusiveUse()
	}
	return nil
}

// taken reports whether an exclusive consumer of another proxy shuts others out.
func (g *Group) taken() bool { return g.plan != nil && g.plan.Taken }

func (g *Group) inExclusiveUse() error {
	return &BrokerError{
		Code: uint16(frames.AccessRefused), Op: "consume",
		Text: fmt.Sprintf("ACCESS_REFUSED - queue '%s' in vhost '%s' in exclusive use", g.x.Name, g.x.Vhost),
	}
}

// Leave removes the consumer; its shards go to those that stay, each when the
// member does not hold it any more: what it claimed is to be released as ever.
// Its attachments count as its own until they are reported ended (see Attached).
// A second call does nothing.
func (m *Member) Leave() {
	g := m.g
	g.mu.Lock()
	if m.left {
		g.mu.Unlock()
		return
	}
	g.remove(m)
	g.mu.Unlock()
	if !m.one() {
		g.changed()
	}
}

func (g *Group) remove(m *Member) {
	g.tally.all(m, -1)
	m.left = true
	g.members = slices.DeleteFunc(g.members, func(o *Member) bool { return o == m })
	if g.exclusive == m {
		g.exclusive = nil
	}
	if len(m.attached) > 0 {
		g.leaving[m] = time.Now()
		g.tally.all(m, 1)
	}
	m.granted, m.holds.former = nil, nil
	if len(m.holds.claims) > 0 {
		g.gone[m] = true
	}
	g.touch(m)
}
