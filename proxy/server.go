package proxy

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// countsMaxAge is how old message counts may be that only steer the rotation of attachments.
const countsMaxAge = 150 * time.Millisecond

// server is a running proxy.
type server struct {
	o         Options
	log       *zap.Logger
	tagPrefix string
	current   atomic.Pointer[setup]
	updating  sync.Mutex // held while one setup replaces another
	choosing  sync.Mutex // held while a node is chosen for a client

	mu       sync.Mutex // nothing else of the proxy's is locked under it
	sessions map[*session]struct{}
	vhosts   map[string]*vhost // nil once closed
	closing  bool
	excess   int // of the sessions: those beyond the limit, which only say so
	crowd    crowd

	refused      atomic.Uint64 // clients that no node could be reached for
	turnedAway   atomic.Uint64 // clients beyond the limit
	acceptErrors atomic.Uint64

	running sync.WaitGroup // sessions
	nextID  atomic.Uint64

	nextFence atomic.Uint64

	parker       *parker // nil until it runs
	crew         *crew
	newParker    func() (*parker, error)
	parkEvery    time.Duration // tests make it shorter
	parked       atomic.Int64  // relays at the moment
	unparkedOnce sync.Once

	began  time.Time
	second time.Duration // what heartbeat intervals are counted in; tests make it shorter
}

// Run serves until ctx is cancelled, then drains: it stops accepting, sends every client connection.close 320, and
// cuts those that are still there after the drain time. It returns nil after a clean stop, *ListenError when an address
// cannot be listened on.
func Run(ctx context.Context, o Options) error {
	if len(o.Nodes) == 0 && o.Discovery == nil {
		return errors.New("no upstream node configured")
	}
	return newServer(o).run(ctx)
}

func newServer(o Options) *server {
	o.defaults()
	s := &server{began: time.Now(), o: o, log: o.Log, sessions: map[*session]struct{}{}, vhosts: map[string]*vhost{}, crew: newCrew(), second: time.Second, newParker: newParker, parkEvery: parkEvery}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	s.tagPrefix = "shardmq-" + hex.EncodeToString(random[:]) + "-"
	s.current.Store(newSetup(nil, o.Nodes, nil, o.Policies))
	return s
}

func (s *server) run(ctx context.Context) error {
	if most := room(); most < s.o.MaxConnections {
		s.log.Warn("the limit on open files allows for fewer connections than max-connections", zap.Int("max_connections", s.o.MaxConnections), zap.Int("allowed_for", most))
	}
	listeners, err := listen(ctx, s.o.Listeners...)
	if err != nil {
		return err
	}
	stopAdmin, err := s.serveAdmin(ctx)
	if err != nil {
		closeAll(listeners)
		return err
	}
	defer stopAdmin()
	var background sync.WaitGroup
	s.discover(ctx, &background)
	s.startTopologies(ctx)
	background.Go(func() { s.follow(ctx) })
	s.startParking(ctx, &background)
	var accepting sync.WaitGroup
	addrs := make([]net.Addr, len(listeners))
	for i, l := range listeners {
		addrs[i] = l.Addr()
		accepting.Go(func() { s.accept(ctx, l, s.o.Listeners[i]) })
	}
	if s.o.Ready != nil {
		s.o.Ready(addrs)
	}
	<-ctx.Done()
	closeAll(listeners)
	accepting.Wait()
	s.drain()
	if s.parker != nil {
		s.parker.close()
	}
	background.Wait()
	close(s.crew.over)
	s.closeTopologies()
	return nil
}

// drain tells every client that the proxy goes, and waits for them, but not for ever.
func (s *server) drain() {
	s.mu.Lock()
	s.closing = true
	open := make([]*session, 0, len(s.sessions))
	for each := range s.sessions {
		open = append(open, each)
	}
	s.mu.Unlock()
	s.log.Info("draining", zap.Int("connections", len(open)), zap.Duration("at_most", s.o.DrainTimeout))
	for _, each := range open {
		each.goAway()
	}
	timer := time.AfterFunc(s.o.DrainTimeout, func() {
		for _, each := range open {
			each.cut(errDrained)
		}
	})
	s.running.Wait()
	timer.Stop()
}

func serverTag() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}
