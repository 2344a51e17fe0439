package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestChurn: consumers come and go in every way while messages flow. Nothing is lost or stuck.
func TestChurn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			images := e.name("images")
			p := e.proxy(map[string]int{images: 4})
			publisher := confirming(t, p.URL)
			declareSharded(t, publisher, images)
			c := churn{t: t, p: p, queue: images, rng: rand.New(rand.NewPCG(seed, 0))}
			var sent []string
			for round := range 60 {
				c.step()
				batch := keys(fmt.Sprintf("round-%d", round), 50)
				publishKeys(t, publisher, images, batch)
				sent = append(sent, batch...)
			}
			last := consume(t, p.URL, images, 10)
			for len(c.here) > 0 {
				c.leave()
			}
			c.gone = append(c.gone, last)
			eventually(t, "the arrival of every message", func() string { return c.missing(sent) })
			e.probe(images, 4).waitConsumers(1, 1, 1, 1)
			e.probe(images, 4).waitMessages(0)
		})
	}
}

// churn is a crowd of consumers.
type churn struct {
	t     *testing.T
	p     *rig.Proxy
	queue string
	rng   *rand.Rand
	here  []*consumer
	gone  []*consumer // what they have received still counts
	conns map[*consumer]net.Conn
}

// step lets one consumer come or go; the more are here, the likelier one goes.
func (c *churn) step() {
	if c.rng.IntN(6) >= len(c.here) {
		c.come()
	} else {
		c.leave()
	}
}

func (c *churn) come() {
	c.t.Helper()
	var tcp net.Conn
	conn, err := amqp.DialConfig(c.p.URL, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		var err error
		tcp, err = net.Dial(network, address)
		return tcp, err
	}})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	x := &consumer{conn: conn, ch: channel(c.t, conn), tag: "churn", done: make(chan struct{})}
	require.NoError(c.t, x.ch.Qos([]int{0, 1, 3, 20}[c.rng.IntN(4)], 0, false))
	deliveries, err := x.ch.Consume(c.queue, x.tag, false, false, false, false, nil)
	require.NoError(c.t, err)
	go x.collect(deliveries)
	if c.conns == nil {
		c.conns = map[*consumer]net.Conn{}
	}
	c.conns[x] = tcp
	c.here = append(c.here, x)
}

// leave ends one consumer by basic.cancel, channel.close, connection.close or a broken connection.
func (c *churn) leave() {
	c.t.Helper()
	i := c.rng.IntN(len(c.here))
	x := c.here[i]
	c.here = slices.Delete(c.here, i, i+1)
	c.gone = append(c.gone, x)
	switch c.rng.IntN(4) {
	case 0:
		require.NoError(c.t, x.ch.Cancel(x.tag, false))
	case 1:
		require.NoError(c.t, x.ch.Close())
	case 2:
		require.NoError(c.t, x.conn.Close())
	case 3:
		require.NoError(c.t, c.conns[x].Close())
	}
}

// missing says how many of the sent messages nobody has received.
func (c *churn) missing(sent []string) string {
	seen := map[string]bool{}
	for _, x := range append(slices.Clone(c.here), c.gone...) {
		for _, d := range x.received() {
			seen[string(d.Body)] = true
		}
	}
	var lost []string
	for _, s := range sent {
		if !seen[s] {
			lost = append(lost, s)
		}
	}
	if len(lost) > 0 {
		return fmt.Sprintf("%d of %d are missing, such as %v", len(lost), len(sent), lost[:min(5, len(lost))])
	}
	return ""
}
