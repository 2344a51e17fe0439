package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

const (
	// lookEvery is the time between two looks, more if there are so many shards that asking for all of them this often
	// would keep the broker busy.
	lookEvery    = 100 * time.Millisecond
	lookPerShard = 8 * time.Millisecond
	// takenWithin is how long a shard may be without a consumer while there is one.
	takenWithin = 5 * time.Second
)

// watch looks at the consumers of shards at the broker, many times a second, and keeps what it sees.
type watch struct {
	t      *testing.T
	url    string
	shards []string
	every  time.Duration // between two looks
	wanted atomic.Bool   // somebody consumes, so that every shard should be consumed

	mu        sync.Mutex
	looks     int
	clock     time.Duration   // time looked at
	counts    []int           // consumers at the last look; -1: the broker did not tell, or has no such queue
	alone     []time.Duration // since when each shard is without a consumer
	longest   time.Duration   // the longest time that any was
	most      int             // the most consumers that any shard ever had
	unchanged int             // looks since counts changed
	timeline  []string
}

// watch begins to look, over connections to url, until the test ends.
func (f *fleet) watch(url string, shards []string) *watch {
	f.t.Helper()
	w := &watch{t: f.t, url: url, shards: shards, every: max(lookEvery, time.Duration(len(shards))*lookPerShard),
		counts: make([]int, len(shards)), alone: make([]time.Duration, len(shards))}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		w.run(stop)
	}()
	f.t.Cleanup(func() {
		close(stop)
		<-done
		f.t.Logf("consumers per shard over time:\n%s", w.history())
	})
	return w
}

func (w *watch) run(stop <-chan struct{}) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	var conn *amqp.Connection
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	var ch *amqp.Channel
	last := time.Now()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		counts := make([]int, len(w.shards))
		for i, name := range w.shards {
			if counts[i] = -1; ch == nil || ch.IsClosed() {
				if conn, ch = reopen(w.url, conn); ch == nil {
					continue
				}
			}
			if q, err := ch.QueueDeclarePassive(name, false, false, false, false, nil); err == nil {
				counts[i] = q.Consumers
			}
		}
		now := time.Now()
		// One look counts for two at most. Where the machine is too busy even to look, what is looked at gets no
		// processor either.
		w.seen(counts, min(now.Sub(last), 2*w.every))
		last = now
	}
}

// reopen returns a new channel, on the same connection if there still is one.
func reopen(url string, conn *amqp.Connection) (*amqp.Connection, *amqp.Channel) {
	if conn == nil || conn.IsClosed() {
		var err error
		if conn, err = amqp.Dial(url); err != nil {
			return nil, nil
		}
	}
	ch, err := conn.Channel()
	if err != nil {
		return conn, nil
	}
	return conn, ch
}

// seen takes one look's counts, after so much time.
func (w *watch) seen(counts []int, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.clock += after
	w.unchanged++
	if !slices.Equal(counts, w.counts) || w.looks == 1 {
		w.unchanged = 0
		w.timeline = append(w.timeline, fmt.Sprintf("%7.2fs %v", w.clock.Seconds(), counts))
	}
	w.counts = counts
	for i, n := range counts {
		w.most = max(w.most, n)
		if n > 0 || !w.wanted.Load() {
			w.alone[i] = 0
			continue
		}
		w.alone[i] += after
		w.longest = max(w.longest, w.alone[i])
	}
}

// history is the timeline, of a long one the beginning and the end.
func (w *watch) history() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.timeline
	const most = 120
	if n := len(lines); n > most {
		lines = slices.Concat(lines[:most/2], []string{fmt.Sprintf("   (%d changes)", n-most)}, lines[n-most/2:])
	}
	return strings.Join(lines, "\n")
}

// now returns the last look's counts.
func (w *watch) now() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.counts)
}

// elapsed is the time looked at so far.
func (w *watch) elapsed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

// longestAlone is the longest time that a shard was without a consumer while it was wanted.
func (w *watch) longestAlone() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.longest
}

func (w *watch) mostAtOnce() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// await waits until a look finds nothing wrong, and returns how long that took.
func (w *watch) await(what string, wrong func(counts []int) string) time.Duration {
	w.t.Helper()
	start := w.elapsed()
	w.more(1)
	eventually(w.t, what, func() string { return wrong(w.now()) })
	return w.elapsed() - start
}

// settle waits until so many consumers share the shards evenly and nothing has changed for two seconds, and returns how
// long it took until it was so.
func (w *watch) settle(consumers int) time.Duration {
	w.t.Helper()
	const still = 2 * time.Second
	wrong := even(consumers)
	took := w.await(fmt.Sprintf("even shares of %d consumers", consumers), func(counts []int) string {
		if said := wrong(counts); said != "" {
			return said
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if since := time.Duration(w.unchanged) * w.every; since < still {
			return fmt.Sprintf("it is so for %s only", since)
		}
		return ""
	})
	return max(took-still, 0)
}

// goOn looks for so long.
func (w *watch) goOn(d time.Duration) {
	w.t.Helper()
	w.more(int(d / w.every))
}

// more waits for n further looks.
func (w *watch) more(n int) {
	w.t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.looks
	}
	for until := count() + n; count() < until; {
		next := min(count()+20, until) // a wait for many looks may take as long as it takes
		eventually(w.t, fmt.Sprintf("%d looks", n), func() string {
			if c := count(); c < next {
				return fmt.Sprintf("%d are to come", until-c)
			}
			return ""
		})
	}
}

// requireStill checks that for so long all looks see the same counts as the first of them.
func (w *watch) requireStill(d time.Duration) {
	w.t.Helper()
	before := w.now()
	n := int(d / w.every)
	w.more(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.t, before, w.counts, "consumers per shard, when nobody comes or goes")
	require.GreaterOrEqual(w.t, w.unchanged, n-1, "looks without a change, when nobody comes or goes")
}

// even tells what is wrong with the counts when so many consumers share the shards: each shard is to have one at least,
// each consumer as well, and no shard two more than another.
func even(consumers int) func([]int) string {
	return func(counts []int) string {
		want := max(consumers, len(counts))
		if consumers == 0 {
			want = 0
		}
		if len(counts) == 0 || sum(counts) != want || slices.Max(counts)-slices.Min(counts) > 1 {
			return fmt.Sprintf("%d consumers are %v on the shards", consumers, counts)
		}
		return ""
	}
}

// covered tells what is wrong unless every shard has a consumer.
func covered(counts []int) string {
	if slices.Min(counts) < 1 {
		return fmt.Sprintf("they are %v", counts)
	}
	return ""
}

// attachments are the broker's consumers of shards: queue, channel, tag, sorted; and how many each channel has.
func (e *env) attachments(prefix string) (all []string, perChannel map[string]int) {
	e.t.Helper()
	perChannel = map[string]int{}
	for line := range strings.Lines(e.ctl("list_consumers", "-p", e.vhost, "--silent", "--no-table-headers", "queue_name", "channel_pid", "consumer_tag")) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) < 3 || !strings.HasPrefix(fields[0], prefix) {
			continue
		}
		all = append(all, strings.TrimSpace(line))
		perChannel[fields[1]]++
	}
	slices.Sort(all)
	return all, perChannel
}
