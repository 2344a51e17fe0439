package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// What TestRandomSessions plays against each release, unless the environment says otherwise: RANDOM_STEPS, how much in all; RANDOM_SEED, what
// the steps are made up from; RANDOM_SESSION, one session alone. With RANDOM_CONTROL=1 there is no proxy: what differs then is RabbitMQ's own,
// and the steps must not have it.
const (
	randSteps = 2000
	randSeed  = 1
)

const (
	randSessions = 4   // at once
	randFamilies = 3   // in each, on the same connections
	randLength   = 200 // steps of a family
	randShown    = 60  // lines of a failure
)

// TestRandomSessions plays random sequences of valid methods step by step directly, through a proxy without policies and through one with:
// every answer and every delivery is the same, and so is what the broker holds in the end, messages in their order included.
func TestRandomSessions(t *testing.T) {
	steps, seed := randGiven(t, "RANDOM_STEPS", randSteps), randGiven(t, "RANDOM_SEED", randSeed)
	only, alone := os.LookupEnv("RANDOM_SESSION")
	onVersions(t, func(t *testing.T, version string) {
		b := startDiff(t, version)
		b.makeSharded(t)
		played := 0
		for session := 0; played < int(steps); session += randSessions {
			length := min(randLength, 1+(int(steps)-played)/(randSessions*randFamilies))
			if alone {
				n, err := strconv.Atoi(only)
				require.NoError(t, err)
				b.randBatch(t, seed, n, 1, randLength)
				return
			}
			played += b.randBatch(t, seed, session, randSessions, length)
		}
		t.Logf("%d steps played, RANDOM_SEED=%d", played, seed)
	})
}

func randGiven(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	given := os.Getenv(name)
	if given == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(given, 10, 64)
	require.NoError(t, err, name)
	return n
}

// randSession is one session, with its connections every way, and what is played on them.
type randSession struct {
	number   int
	ways     []*randWay
	families []*randFamily
}

// randBatch plays some sessions at once, compares what the broker holds after them, and removes it. It returns how many steps there were.
func (b *diffBroker) randBatch(t *testing.T, seed uint64, first, n, length int) (played int) {
	t.Helper()
	sessions, errs := make([]*randSession, n), make([]error, n)
	var all sync.WaitGroup
	for i := range sessions {
		s := &randSession{number: first + i, ways: b.openRandWays(t, first+i)}
		sessions[i] = s
		all.Go(func() { errs[i] = s.play(seed, length) })
	}
	all.Wait()
	b.randRequire(t, seed, sessions, errs)
	var where string
	eventually(t, fmt.Sprintf("the same state of the broker after sessions %d to %d of RANDOM_SEED=%d", first, first+n-1, seed), func() string {
		where = b.randDiffers(t, sessions[0].ways)
		return where
	})
	for i, s := range sessions {
		all.Go(func() { errs[i] = s.left() })
	}
	all.Wait()
	b.randRequire(t, seed, sessions, errs)
	b.randForget(t, sessions[0].ways)
	for _, s := range sessions {
		for _, f := range s.families {
			played += f.played
		}
	}
	return played
}

func (b *diffBroker) randRequire(t *testing.T, seed uint64, sessions []*randSession, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Logf("the broker's log:\n%s", b.node.LogTail(40))
			require.FailNow(t, fmt.Sprintf("RANDOM_SEED=%d RANDOM_SESSION=%d", seed, sessions[i].number), "%v", err)
		}
	}
}

// openRandWays opens a session's connections, with frames of one size or another.
func (b *diffBroker) openRandWays(t *testing.T, session int) (ways []*randWay) {
	t.Helper()
	least := uint32(4096)
	if b.native() {
		least = 8192 // from 4.1 on RabbitMQ hangs up at anything less
	}
	for _, w := range b.randWays() {
		at, _ := b.randAt(w)
		ways = append(ways, openRandWay(t, w, at, []uint32{least, 10_000, 100_000}[session%3]))
	}
	return ways
}

// randWays are the ways in which sessions are played.
func (b *diffBroker) randWays() []way {
	if b.native() {
		return []way{direct, bare, sharded, placed}
	}
	return []way{direct, bare, sharded}
}

// randAt returns the URL of a way, and whether a proxy with policies is there.
func (b *diffBroker) randAt(w way) (url string, shards bool) {
	if os.Getenv("RANDOM_CONTROL") != "" {
		return b.node.URL + "/" + w.vhost(), false
	}
	return b.at[w], w == sharded || w == placed
}

// play plays a session. Its families do not know of each other.
func (s *randSession) play(seed uint64, length int) error {
	s.families = make([]*randFamily, randFamilies)
	errs := make([]error, randFamilies)
	var all sync.WaitGroup
	for i := range randFamilies {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(s.number*randFamilies+i)))
			f, err := newRandFamily(rng, fmt.Sprintf("random-%d-%d-", s.number, i), i, s.ways)
			s.families[i] = f
			if i == 0 {
				f.useSharded(s.number)
			}
			if err == nil {
				err = f.play(length)
			}
			if err != nil {
				errs[i] = fmt.Errorf("family %d: %w", i, err)
			}
		})
	}
	all.Wait()
	for _, w := range s.ways {
		errs = append(errs, w.leave(s.number%2 == 0))
	}
	return errors.Join(errs...)
}

// left compares what is left in the queues after the session.
func (s *randSession) left() error {
	for _, f := range s.families {
		for _, ch := range f.model.channels {
			f.model.closed(ch)
		}
		all := make(map[*randLane][]string)
		var mu sync.Mutex
		err := f.each(func(l *randLane) error {
			lines, err := f.left(l)
			mu.Lock()
			defer mu.Unlock()
			all[l] = lines
			return err
		})
		if err != nil {
			return err
		}
		for _, l := range f.lanes[1:] {
			if diff := cmp.Diff(all[f.lanes[0]], all[l]); diff != "" {
				return fmt.Errorf("what is left in the queues: (- directly, + %s)\n%s", l.way, diff)
			}
		}
	}
	return nil
}

// leave ends a way's connections, with a close or without.
func (p *randWay) leave(politely bool) error {
	for i, c := range p.conns {
		if !politely {
			_ = c.conn.Close()
			continue
		}
		if err := p.write(i, method(0, &frames.ConnectionClose{ReplyCode: 200})); err != nil {
			return err
		}
	}
	return nil
}
