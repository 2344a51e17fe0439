package integration

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// vectors are what RabbitMQ's own plugin did: for each number of shards, the index of the shard a key went to.
func vectors(t *testing.T) map[int]map[string]int {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "shards", "testdata", "modulus_hash_vectors.tsv"))
	require.NoError(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = '\t'
	lines, err := r.ReadAll()
	require.NoError(t, err)
	all := map[int]map[string]int{}
	for _, line := range lines[1:] {
		n, err := strconv.Atoi(line[1])
		require.NoError(t, err)
		index, err := strconv.Atoi(line[2])
		require.NoError(t, err)
		if all[n] == nil {
			all[n] = map[string]int{}
		}
		all[n][line[0]] = index
	}
	return all
}

// requirePlacement checks that each key lies in the shard that the vectors say.
func requirePlacement(t *testing.T, shards *probe, want map[string]int) {
	t.Helper()
	placed := 0
	for index, messages := range shards.drain() {
		for _, m := range messages {
			require.Equal(t, want[m.RoutingKey], index, "shard of key %q", m.RoutingKey)
			placed++
		}
	}
	require.Equal(t, len(want), placed, "keys placed")
}

// TestPhash2Placement: with hash: phash2 every key goes where the plugin put it.
func TestPhash2Placement(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	all := vectors(t)
	require.Len(t, all, 3)
	names := map[int]string{8: e.name("mh8")}
	for n := range all {
		names[n] = e.name(fmt.Sprintf("mh%d", n))
	}
	var policies string
	for n, name := range names {
		policies += e.policy(name, n, ", hash: phash2")
	}
	ch := confirming(t, e.proxyWith(policies).URL)
	placed := map[int]*probe{}
	for n, name := range names {
		declareSharded(t, ch, name)
		for key := range all[4] {
			publish(t, ch, name, key, text(key))
		}
		placed[n] = e.probe(name, n)
	}
	// What the plugin's 8 queues held of the same keys; and 8 shards split each of 4 in two.
	require.Equal(t, []int{9, 7, 19, 10, 9, 24, 12, 10}, placed[8].load().messages)
	for index, messages := range placed[8].drain() {
		for _, m := range messages {
			require.Equal(t, all[4][m.RoutingKey], index%4, "shard of key %q modulo 4", m.RoutingKey)
		}
	}
	for n, want := range all {
		requirePlacement(t, placed[n], want)
	}
}

// TestXXHashPlacement: a key's shard is XXH64 modulo the number of shards in name order ("10" before "2"), in every
// proxy process, after a restart too.
func TestXXHashPlacement(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	const n = 12
	want := map[string]int{}
	for _, key := range append(keys("key", 60), "", ".", "a.b", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t") {
		want[key] = int(xxhash.Sum64String(key) % n)
	}
	for range 2 {
		p := e.proxy(map[string]int{images: n})
		ch := confirming(t, p.URL)
		declareSharded(t, ch, images)
		for key := range want {
			publish(t, ch, images, key, text(key))
		}
		code, err := p.Stop()
		require.NoError(t, err)
		require.Zero(t, code)
		requirePlacement(t, e.probe(images, n), want)
	}
}
