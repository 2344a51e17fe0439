package proxy

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// Whoever ends a connection that is parked ends it as any other.
func TestParkedConnectionsEnd(t *testing.T) {
	for name, end := range map[string]struct {
		how   func(r *rig, client, broker *peer)
		cause string
	}{
		"client goes": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, client.Close())
			broker.eof()
			require.NoError(r.t, broker.Close())
		}, "client: EOF"},
		"client resets": {func(r *rig, client, broker *peer) {
			client.reset()
			broker.eof()
			require.NoError(r.t, broker.Close())
		}, "client: read: connection reset by peer"},
		"client goes, broker says nothing": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, client.Close())
			broker.eof()
			r.ended(1)
		}, "client: EOF"},
		"broker goes": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, broker.Close())
			require.EqualValues(r.t, frames.ConnectionForced, closeOk(client).ReplyCode)
			client.eof()
			require.NoError(r.t, client.Close())
		}, "upstream connection lost: EOF"},
		"broker resets": {func(r *rig, client, broker *peer) {
			broker.reset()
			require.EqualValues(r.t, frames.ConnectionForced, closeOk(client).ReplyCode)
			client.eof()
			require.NoError(r.t, client.Close())
		}, "upstream connection lost: read: connection reset by peer"},
		"broker goes, client says nothing": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, broker.Close())
			require.EqualValues(r.t, frames.ConnectionForced, expect(client, &frames.ConnectionClose{}).ReplyCode)
			client.eof()
			r.ended(1)
		}, "upstream connection lost: EOF"},
		"cut": {func(r *rig, client, broker *peer) {
			r.session().cut(errDrained)
			client.eof()
			require.NoError(r.t, client.Close())
			require.NoError(r.t, broker.Close())
		}, errDrained.Error()},
		"panic": {func(r *rig, client, broker *peer) {
			r.session().help(func() { panic(errors.New("boom")) })
			client.dies()
			broker.dies()
		}, "panic in session"},
		"proxy stops": {func(r *rig, client, broker *peer) {
			r.cancel()
			require.EqualValues(r.t, frames.ConnectionForced, closeOk(client).ReplyCode)
			require.NoError(r.t, client.Close())
			require.NoError(r.t, broker.Close())
		}, errGoing.Error()},
		"proxy stops, nobody says anything": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, <-r.stop())
			client.dies()
			broker.dies()
		}, errGoing.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := startParking(t, func(o *Options) {
				if name == "proxy stops, nobody says anything" {
					o.DrainTimeout = time.Millisecond
				}
			})
			client, broker := r.openChannel(0)
			r.parked()
			end.how(r, client, broker)
			require.Contains(t, r.cause(), end.cause)
			require.Zero(t, r.srv.parked.Load())
		})
	}
}

// Parking changes nothing about when a peer counts as gone.
func TestSilentPeersOfParkedConnections(t *testing.T) {
	for name, silent := range map[string]struct {
		speaks func(client, broker *peer) *peer
		cause  error
	}{
		"client": {func(_, broker *peer) *peer { return broker }, errClientSilent},
		"broker": {func(client, _ *peer) *peer { return client }, errBrokerSilent},
		"both":   {func(_, _ *peer) *peer { return nil }, errClientSilent},
	} {
		t.Run(name, func(t *testing.T) {
			r := startPrepared(t, nil, func(s *server) { s.parkEvery, s.second = time.Millisecond, fastSecond })
			client, broker := r.openChannel(0)
			r.parked()
			began := time.Now()
			if p := silent.speaks(client, broker); p != nil {
				defer p.beats()()
			}
			if silent.cause == errBrokerSilent { //nolint:errorlint // the very value
				closeOk(client)
			}
			broker.dies()
			require.GreaterOrEqual(t, time.Since(began), 3*interval/2, "that was no silence yet")
			require.NoError(t, client.Close())
			require.Equal(t, silent.cause.Error(), r.cause())
		})
	}
}

// A deadline for the end of a session outlasts whoever wants to park it at the same time.
func TestParkingDoesNotUndoADeadline(t *testing.T) {
	r := startParking(t, nil)
	for i := range 50 {
		client, broker := r.openChannel(0)
		s := r.session()
		both := s.relays.Load()
		var kicking sync.WaitGroup
		stop := make(chan struct{})
		kicking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.kick(both[1])
				}
			}
		})
		s.mu.Lock()
		s.readUntil(both[1], time.Unix(1, 0))
		s.mu.Unlock()
		require.EqualValues(t, frames.ConnectionForced, closeOk(client).ReplyCode)
		client.eof()
		require.NoError(t, client.Close())
		require.NoError(t, broker.Close())
		close(stop)
		kicking.Wait()
		r.ended(i + 1)
		require.Eventually(t, func() bool { return r.srv.Status().Connections == 0 }, time.Minute, time.Millisecond)
	}
}

// When sockets cannot be watched connections are served all the same, and one line says so.
func TestUnparkable(t *testing.T) {
	for name, make := range map[string]func() (*parker, error){
		"no parker": func() (*parker, error) { return nil, syscall.EMFILE },
		"cannot watch": func() (*parker, error) {
			p, err := newParker()
			if err == nil {
				p.fd = -1
			}
			return p, err
		},
		"cannot wait": func() (*parker, error) {
			p, err := newParker()
			if err == nil {
				err = broken(p)
			}
			return p, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := startPrepared(t, nil, func(s *server) { s.parkEvery, s.newParker = time.Millisecond, make })
			for range 3 {
				client, broker := r.openChannel(0)
				if name != "no parker" {
					for _, d := range newest(r.srv).relays.Load() {
						require.Eventually(t, func() bool {
							d.s.mu.Lock()
							defer d.s.mu.Unlock()
							return d.unfit
						}, time.Minute, time.Millisecond)
					}
				}
				roundTrip(client, broker)
			}
			require.Zero(t, r.srv.parked.Load())
			require.Len(t, r.logs.FilterMessage("idle connections keep their goroutines").All(), 1)
		})
	}
}

// newest is the session that was begun last.
func newest(s *server) (last *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for each := range s.sessions {
		if last == nil || each.id > last.id {
			last = each
		}
	}
	return last
}

// broken puts something that is no epoll instance in the place of the parker's.
func broken(p *parker) error {
	pipe := [2]int{}
	if err := syscall.Pipe(pipe[:]); err != nil {
		return err
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	return syscall.Dup3(pipe[0], p.fd, syscall.O_CLOEXEC)
}

// A parker that fails lets go of everybody that it has.
func TestParkerFailsLater(t *testing.T) {
	r := startParking(t, nil)
	client, broker := r.openChannel(0)
	s := r.parked()
	r.srv.parker.release()
	roundTrip(client, broker)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		both := s.relays.Load()
		return both[0].unfit && both[1].unfit
	}, time.Minute, time.Millisecond)
	roundTrip(client, broker)
}

func TestNewParkerWithoutDescriptors(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max}))
	p, err := newParker()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	require.ErrorIs(t, err, syscall.EMFILE)
	require.Nil(t, p)
}
