package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// spy hears what the leader of a vhost's proxies decides on one exchange.
type spy struct {
	t        *testing.T
	exchange string

	mu     sync.Mutex
	last   *coordination.Entry
	states int
	phases []string // all that shards of former sets have ever been, "QUEUE PHASE", in order
}

// newSpy listens at the broker until the test ends. The proxies have made their exchange by then.
func newSpy(t *testing.T, url, exchange string) *spy {
	t.Helper()
	s := &spy{t: t, exchange: exchange}
	deliveries := hearMembers(t, url)
	go func() {
		for d := range deliveries {
			s.hear(d.Body)
		}
	}()
	return s
}

// hearMembers returns what proxies tell each other, until the test ends. Their exchange must be there.
func hearMembers(t *testing.T, url string) <-chan amqp.Delivery {
	t.Helper()
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	ch := channel(t, conn)
	q, err := ch.QueueDeclare("", false, true, true, false, amqp.Table{"x-queue-type": "classic"})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(q.Name, "", coordination.MembersExchange, false, nil))
	deliveries, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return deliveries
}

func (s *spy) hear(body []byte) {
	m, err := coordination.DecodeMessage(body)
	if err != nil || m.Kind != coordination.StateKind || m.State.Exchanges[s.exchange] == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = m.State.Exchanges[s.exchange]
	s.states++
	for _, old := range s.last.Old {
		if at := fmt.Sprint(old.Queue, " ", old.Phase); !slices.Contains(s.phases, at) {
			s.phases = append(s.phases, at)
		}
	}
}

// await waits until the leader's last decision has nothing wrong.
func (s *spy) await(what string, wrong func(*coordination.Entry) string) {
	s.t.Helper()
	eventually(s.t, what, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last == nil {
			return "nothing has been heard"
		}
		return wrong(s.last)
	})
}

// been returns what shards of former sets have ever been, and how many decisions were heard.
func (s *spy) been() (phases []string, states int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.phases), s.states
}
