package shards

import (
	"bufio"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectorLines returns the non-empty lines of a file in testdata.
func vectorLines(t *testing.T, name string) []string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if line := scanner.Text(); line != "" {
			lines = append(lines, line)
		}
	}
	require.NoError(t, scanner.Err())
	return lines
}

// Values of erlang:phash2/2 read off a real Erlang runtime.
func TestPhash2Vectors(t *testing.T) {
	lines := vectorLines(t, "phash2_vectors.txt")
	require.Len(t, lines, 1000)
	for n, line := range lines {
		// A list of one empty key has nothing before the blank.
		hexKeys, sum, ok := strings.Cut(line, " ")
		require.True(t, ok)
		want, err := strconv.ParseUint(sum, 10, 32)
		require.NoError(t, err)
		var keys [][]byte
		for _, h := range strings.Split(hexKeys, ",") {
			key, err := hex.DecodeString(h)
			require.NoError(t, err)
			keys = append(keys, key)
		}
		require.Equal(t, uint32(want), Phash2(keys...), "line %d: %s", n+1, line)
	}
}

// Shard indices read off a real broker with the sharding plugin.
func TestModulusHashVectors(t *testing.T) {
	lines := vectorLines(t, "modulus_hash_vectors.tsv")
	require.Equal(t, "key\tshards\tshard_index", lines[0])
	require.Len(t, lines[1:], 300, "100 keys each for 2, 3 and 4 shards")
	for _, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		require.Len(t, fields, 3)
		n, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		want, err := strconv.Atoi(fields[2])
		require.NoError(t, err)
		set := NewSet("x", []string{"rabbit@a"}, n)
		require.Equal(t, want, set.Pick(uint64(Phash2([]byte(fields[0])))), line)
	}
}

// Where the plugin put k0 to k99, in numbers per shard.
func TestPhash2LandingCounts(t *testing.T) {
	for _, want := range [][]int{{49, 51}, {31, 36, 33}, {18, 31, 31, 20}, {9, 7, 19, 10, 9, 24, 12, 10}} {
		set := NewSet("x", []string{"rabbit@a"}, len(want))
		got := make([]int, len(want))
		for i := range 100 {
			got[set.Pick(uint64(Phash2([]byte("k"+strconv.Itoa(i)))))]++
		}
		require.Equal(t, want, got)
	}
}

func TestPhash2Known(t *testing.T) {
	tests := []struct {
		keys []string
		want uint32
	}{
		{[]string{"k0"}, 91343558},
		{[]string{"k1"}, 21317394},
		{[]string{"k99"}, 127683568},
		{[]string{""}, 38220213},
		{[]string{"order.123"}, 106050165},
		{[]string{"k0", "cc1"}, 63032887},
		{nil, 3468870702 % (1 << 27)},
	}
	for _, tt := range tests {
		var state PhashState
		var keys [][]byte
		for _, k := range tt.keys {
			state = state.Add([]byte(k))
			keys = append(keys, []byte(k))
		}
		require.Equal(t, tt.want, Phash2(keys...), "%q", tt.keys)
		require.Equal(t, tt.want, state.Sum(), "incremental %q", tt.keys)
	}
}

func TestHashesDoNotAllocate(t *testing.T) {
	key, cc, bcc := []byte("order.123.created"), []byte("audit"), []byte("copy")
	var sink uint64
	require.Zero(t, testing.AllocsPerRun(100, func() {
		sink += uint64(PhashState(0).Add(key).Add(cc).Add(bcc).Sum())
		sink += uint64(Phash2(key))
		sink += uint64(Phash2(key, cc, bcc))
		sink += XXHash(key)
	}))
	require.NotZero(t, sink)
}

// Published XXH64 values with seed 0.
func TestXXHashKnown(t *testing.T) {
	require.Equal(t, uint64(0xef46db3751d8e999), XXHash(nil))
	require.Equal(t, uint64(0xd24ec4f1a98c6e5b), XXHash([]byte("a")))
	require.Equal(t, uint64(0x44bc2cf5ad770999), XXHash([]byte("abc")))
}

func BenchmarkPhash2(b *testing.B) {
	key := []byte("order.123.created")
	b.ReportAllocs()
	for b.Loop() {
		PhashState(0).Add(key).Sum()
	}
}

func BenchmarkXXHash(b *testing.B) {
	key := []byte("order.123.created")
	b.ReportAllocs()
	for b.Loop() {
		XXHash(key)
	}
}
