package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestStuckIsSaidOnce: however many jobs cannot be handed on, and for however long, there is one line for each kind, and
// one once they are; a trouble after that is said again.
func TestStuckIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		p := NewPool(&Job{Name: "mail"}, nil, nil, 0, zap.New(core))
		var broker atomic.Pointer[connection] // nil: there is none
		s := &session{gone: make(chan struct{}), declared: map[string]bool{"mail.dead": true}, dialAgain: func(context.Context) (*connection, error) {
			if c := broker.Load(); c != nil {
				return c, nil
			}
			return nil, errors.New("refused")
		}}
		lines := func() (all []string) {
			for _, e := range logs.TakeAll() {
				all = append(all, fmt.Sprint(e.Message, " ", e.ContextMap()["jobs"]))
			}
			return all
		}
		var jobs sync.WaitGroup
		publish := func(n int) {
			for range n {
				jobs.Go(func() {
					p.publish(&item{session: s}, job(), func() place { return place{queue: "mail.dead"} })
				})
			}
			time.Sleep(2*confirmLate + time.Millisecond)
		}
		publish(50)
		require.ElementsMatch(t, []string{
			"a job that failed could not be handed on; it is kept and tried again, as are others that fare so <nil>",
			"the broker does not take a job that failed, as when it is short of memory or disk; its executor waits for that <nil>",
		}, lines())
		publish(20)
		require.Empty(t, lines())

		conn, q := dialQuiet(t)
		broker.Store(conn)
		for range 70 {
			require.Empty(t, lines(), "not all are handed on")
			q.confirm(<-q.published)
		}
		jobs.Wait()
		require.Equal(t, []string{"all jobs that had failed and had to wait are handed on 70"}, lines())

		broker.Store(nil)
		s.stopPublishing((*connection).hangUp)
		close(q.answers)
		publish(5) // errGone
		require.Len(t, lines(), 2)
		close(s.gone)
		jobs.Wait()
		require.Empty(t, lines(), "they were not handed on")
		synctest.Wait()
	})
}

// TestStuckKinds: a refusal is of a queue, and is not hidden by what another queue has; what is over with a session is new in the next.
func TestStuckKinds(t *testing.T) {
	refused := fmt.Errorf("declare: %w", &amqp.Error{Code: amqp.PreconditionFailed, Server: true})
	require.Equal(t, "mail.dead", stuckKind(refused, "mail.dead"))
	require.Empty(t, stuckKind(&amqp.Error{Code: amqp.ConnectionForced, Server: true}, "mail.dead"))
	require.Empty(t, stuckKind(errUnconfirmed, "mail.dead"))

	s := &session{}
	a, b, other := s.handingOn(), s.handingOn(), s.handingOn()
	require.True(t, a.waits("mail.dead"))
	require.False(t, a.waits("mail.dead"), "it is tried again")
	require.False(t, b.waits("mail.dead"))
	require.True(t, other.waits("mail.retry.1s"))
	require.Equal(t, 1, other.handedOn("mail.retry.1s"))
	require.Zero(t, a.handedOn("mail.dead"))
	require.Equal(t, 2, b.handedOn("mail.dead"))
	require.Zero(t, s.handingOn().handedOn("mail.dead"), "there was nothing")
	b.end() // after all that, as it is deferred
	require.False(t, b.waits("mail.dead"), "it is over")

	c := s.handingOn()
	require.True(t, c.waits(""))
	c.end()
	require.False(t, s.handingOn().waits(""), "nothing has worked since")
	next := (&session{}).handingOn()
	require.True(t, next.waits(""))
	require.Equal(t, 1, next.handedOn("mail.dead"))
}
