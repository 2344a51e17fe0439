package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClusterOperator: an operator deletes a shard, then the exchange, then takes the proxies' rights away and gives
// them back. Clients go on, and every confirmed message is consumed.
func TestClusterOperator(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	user := "operator-of-" + e.vhost
	if e.vhost == "/" {
		user = "operator"
	}
	e.ctl("add_user", user, "secret")
	grant := func(right string) { e.ctl("set_permissions", "-p", e.vhost, user, right, right, right) }
	grant(".*")
	const shards = 4
	f := e.fleet(fleetOptions{proxies: 2, exchange: "images", fixed: shards, control: user})
	w := f.watch(e.url, f.shards(shards, 0))
	l := newLedger()
	c := f.crowd(l, 1)
	for i := range 3 {
		c.join(i%2, 50, prompt{})
	}
	w.await("owners", even(3))
	w.wanted.Store(true)
	p := f.pump(l, pumpOptions{publishers: 2, keys: 10, every: 100 * time.Millisecond, declare: true})
	p.everyKey(3)
	operator := open(t, e.url)

	for _, shard := range f.shards(shards, 0)[:2] { // the catch-all's too
		p.hold()
		l.awaitConsumed(t) // what lies in a queue that is deleted is the operator's to lose
		f.faulty.Store(true)
		_, err := operator.QueueDelete(shard, false, false, false)
		require.NoError(t, err)
		p.release()
		w.settle(3)
		p.everyKey(5)
		f.faulty.Store(false)
	}
	require.Empty(t, l.problems)

	f.faulty.Store(true) // publishers get 404 until somebody declares it again, as they do without a proxy
	require.NoError(t, operator.ExchangeDelete("images", false, false))
	p.everyKey(5)
	w.settle(3)
	p.everyKey(1)
	f.faulty.Store(false)

	grant("^$")
	c.here[0].leave(byConnection)
	p.everyKey(10)
	grant(".*")
	eventually(t, "a leader again", func() string {
		if f.metric("shardmq_leader") != 1 {
			return "there is none"
		}
		return ""
	})
	c.join(1, 0, prompt{})
	w.settle(3)
	requireNoMoves(t, f, w)
	p.everyKey(3)
	p.stop()
	l.awaitConsumed(t)
	eventually(t, "empty shards", func() string { return messagesLeft(e, w.shards) })
	l.require(f, w)
}
