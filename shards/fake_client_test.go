package shards

import (
	"context"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
)

// fakeClient is a session's consumer: it attaches to what its target says and
// reports it as the router does.
type fakeClient struct {
	broker *fakeCounts
	manual bool // attach only when asked to
	slow   bool // what it gives up is settled only when asked to

	mu       sync.Mutex
	member   *Member
	latest   Target
	aimed    uint64
	working  bool
	attached []string
	unsettle []string // ended, not released
}

func (c *fakeClient) join(t require.TestingT, g *Group, spec JoinSpec) *fakeClient {
	require.NoError(t, c.tryJoin(g, spec))
	return c
}

func (c *fakeClient) tryJoin(g *Group, spec JoinSpec) error {
	spec.Notify = c.notify
	m, target, err := g.Join(context.Background(), spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.member = m
	c.mu.Unlock()
	c.notify(target)
	return nil
}

func (c *fakeClient) notify(target Target) {
	c.mu.Lock()
	if target.Version > c.latest.Version {
		c.latest = target
	}
	manual := c.manual
	c.mu.Unlock()
	if !manual {
		c.work()
	}
}

// work goes over to the latest target, however often that changes meanwhile.
func (c *fakeClient) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working || c.member == nil {
		return
	}
	c.working = true
	for c.member != nil && (c.aimed < c.latest.Version || !slices.Equal(c.attached, c.latest.Shards)) {
		target := c.latest
		begin, end := without(target.Shards, c.attached), without(c.attached, target.Shards)
		c.attached, c.aimed = target.Shards, target.Version
		c.unlocked(func(m *Member) {
			m.Aimed(target.Version)
			c.move(m, begin, end)
		})
	}
	c.working = false
}

func (c *fakeClient) unlocked(fn func(*Member)) {
	m := c.member
	c.mu.Unlock()
	defer c.mu.Lock()
	fn(m)
}

func (c *fakeClient) move(m *Member, begin, end []string) {
	for _, queue := range begin {
		m.Claim(queue, false)
		c.broker.add(queue, 1)
		m.Attached(queue, 1)
	}
	for _, queue := range end {
		c.broker.add(queue, -1)
		m.Attached(queue, -1)
		if c.slow {
			c.mu.Lock()
			c.unsettle = append(c.unsettle, queue)
			c.mu.Unlock()
		} else {
			m.Released(queue, false)
		}
	}
}

// settle acknowledges everything of the consumers that have ended.
func (c *fakeClient) settle(m *Member) {
	c.mu.Lock()
	queues := c.unsettle
	c.unsettle = nil
	c.mu.Unlock()
	for _, queue := range queues {
		m.Released(queue, false)
	}
}

func (c *fakeClient) leave() {
	c.mu.Lock()
	m, attached := c.member, c.attached
	c.member, c.attached = nil, nil
	c.mu.Unlock()
	m.Leave()
	c.move(m, nil, attached)
}

func (c *fakeClient) shards() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest.Shards
}
