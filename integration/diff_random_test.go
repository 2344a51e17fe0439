package integration

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// randSize is how many steps TestRandomSessions plays against each release, and randSeed what they are made up from, unless the
// environment variables RANDOM_STEPS and RANDOM_SEED say otherwise.
const randSize = 2000

const (
	randSessions = 4   // at once
	randFamilies = 3   // in each, on the same connections
	randLength   = 200 // steps of a family
)

// TestRandomSessions plays random sequences of valid methods step by step directly and through the proxy, with no shard and with a sharded
// exchange of another name: every answer and every delivery is the same, and so is what the broker holds in the end.
func TestRandomSessions(t *testing.T) {
	steps, seed := randGiven(t, "RANDOM_STEPS", randSize), randGiven(t, "RANDOM_SEED", rand.Uint64())
	onVersions(t, func(t *testing.T, version string) {
		b := startDiff(t, version)
		played := 0
		for session := 0; played < int(steps); session += randSessions {
			played += b.randBatch(t, seed, session, min(randLength, 1+(int(steps)-played)/(randSessions*randFamilies)))
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

// randBatch plays some sessions at once, compares what the broker holds after them, and removes it. It returns how many steps there were.
func (b *diffBroker) randBatch(t *testing.T, seed uint64, first, length int) (played int) {
	t.Helper()
	errs := make([]error, randSessions)
	counts := make([]int, randSessions)
	var all sync.WaitGroup
	for i := range randSessions {
		ways := b.openRandWays(t, []uint32{4096, 8192, 100_000}[(first+i)%3])
		all.Go(func() {
			counts[i], errs[i] = randSession(ways, seed, first+i, length)
			for _, w := range ways {
				errs[i] = errors.Join(errs[i], w.leave(i%2 == 0))
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		played += counts[i]
		if err != nil {
			t.Logf("the broker's log:\n%s", b.node.LogTail(40))
			require.FailNow(t, fmt.Sprintf("session %d of RANDOM_SEED=%d", first+i, seed), "%v", err)
		}
	}
	eventually(t, fmt.Sprintf("the same state of the broker after sessions %d to %d of RANDOM_SEED=%d", first, first+randSessions-1, seed), func() string {
		return b.randDiffers(t)
	})
	b.randForget(t)
	return played
}

func (b *diffBroker) openRandWays(t *testing.T, frameMax uint32) (ways []*randWay) {
	t.Helper()
	for _, w := range []way{direct, bare, sharded} {
		ways = append(ways, openRandWay(t, w, b.at[w], frameMax))
	}
	return ways
}

// randSession plays one session. Its families do not know of each other.
func randSession(ways []*randWay, seed uint64, number, length int) (played int, err error) {
	errs, counts := make([]error, randFamilies), make([]int, randFamilies)
	var all sync.WaitGroup
	for i := range randFamilies {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(number*randFamilies+i)))
			f, err := newRandFamily(rng, fmt.Sprintf("random-%d-%d-", number, i), i, ways)
			if err == nil {
				err = f.play(length)
				counts[i] = f.played
			}
			if err != nil {
				errs[i] = fmt.Errorf("family %d: %w", i, err)
			}
		})
	}
	all.Wait()
	for _, n := range counts {
		played += n
	}
	return played, errors.Join(errs...)
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

// randDump is an Erlang expression for all that the sessions have made in a vhost, one thing a line, sorted.
const randDump = `begin
	Mine = fun({resource, _, _, N}) -> lists:prefix("random-", binary_to_list(N)) orelse lists:prefix("amq.gen-", binary_to_list(N)) end,
	Name = fun({resource, _, K, N}) -> {K, case lists:prefix("amq.gen-", binary_to_list(N)) of true -> generated; false -> N end} end,
	Queues = fun(V) -> [begin I = rabbit_amqqueue:info(Q, [name, durable, auto_delete, arguments, messages_ready, messages_unacknowledged, consumers, type]),
		{Name(proplists:get_value(name, I)), tl(I)} end || Q <- rabbit_amqqueue:list(V), Mine(amqqueue:get_name(Q))] end,
	Exchanges = fun(V) -> [{Name(proplists:get_value(name, X)), tl(X)} || X <- rabbit_exchange:info_all(V, [name, type, durable, auto_delete, internal, arguments]),
		Mine(proplists:get_value(name, X))] end,
	Bindings = fun(V) -> [{Name(S), Name(D), case Mine(S) of true -> K; false -> default end, A} || {binding, S, K, D, A} <- rabbit_binding:list(V), Mine(D)] end,
	[io:format("~s ~tw~n", [V, L]) || V <- [%s], L <- lists:sort(Queues(V) ++ Exchanges(V) ++ Bindings(V))], ok end.`

// randDiffers says how the vhosts of the ways differ from the one that was used directly; "": not at all.
func (b *diffBroker) randDiffers(t *testing.T) string {
	t.Helper()
	ways := []way{direct, bare, sharded}
	out, err := b.node.Ctl(t.Context(), "eval", fmt.Sprintf(randDump, erlangVhosts(ways)))
	require.NoError(t, err)
	held := map[way][]string{}
	for line := range strings.Lines(out) {
		for _, w := range ways {
			if rest, ok := strings.CutPrefix(line, w.vhost()+" "); ok {
				held[w] = append(held[w], strings.ReplaceAll(rest, w.vhost(), "V"))
			}
		}
	}
	if len(held[direct]) == 0 {
		return "there is nothing at all:\n" + out
	}
	for _, w := range ways[1:] {
		if only, lacks := without(held[w], held[direct]), without(held[direct], held[w]); len(only)+len(lacks) > 0 {
			return fmt.Sprintf("%s, only there:\n%s\nonly directly:\n%s", w, strings.Join(only, ""), strings.Join(lacks, ""))
		}
	}
	return ""
}

// without returns the lines of a that are not in b, counted.
func without(a, b []string) (rest []string) {
	count := map[string]int{}
	for _, line := range b {
		count[line]++
	}
	for _, line := range a {
		if count[line]--; count[line] < 0 {
			rest = append(rest, line)
		}
	}
	return rest
}

func erlangVhosts(ways []way) string {
	var all []string
	for _, w := range slices.Sorted(slices.Values(ways)) {
		all = append(all, `<<"`+w.vhost()+`">>`)
	}
	return strings.Join(all, ", ")
}

// randForget removes everything that the sessions have made.
func (b *diffBroker) randForget(t *testing.T) {
	t.Helper()
	_, err := b.node.Ctl(t.Context(), "eval", fmt.Sprintf(`begin
		Mine = fun(N) -> lists:prefix("random-", binary_to_list(N)) orelse lists:prefix("amq.gen-", binary_to_list(N)) end,
		[begin
			[rabbit_amqqueue:delete(Q, false, false, <<"rig">>) || Q <- rabbit_amqqueue:list(V), Mine(element(4, amqqueue:get_name(Q)))],
			[rabbit_exchange:delete(N, false, <<"rig">>) || [{name, N = {resource, _, _, B}}] <- rabbit_exchange:info_all(V, [name]), Mine(B)]
		end || V <- [%s]], ok end.`, erlangVhosts(slices.Collect(maps.Keys(map[way]bool{direct: true, bare: true, sharded: true})))))
	require.NoError(t, err)
}
