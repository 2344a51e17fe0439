package shards

import (
	"fmt"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func regexpOf(expr string) *regexp.Regexp { return regexp.MustCompile(expr) }

func TestHashNeed(t *testing.T) {
	for _, tt := range []struct {
		def  Definition
		want HashNeed
	}{
		{Definition{}, NeedNothing},
		{Definition{Hash: HashPhash2}, NeedKeys},
		{Definition{Hash: HashPhash2, HashOn: HashOn{Source: OnCapture, Re: regexpOf("(a)")}}, NeedNothing},
		{Definition{HashOn: HashOn{Source: OnHeader, Header: "user"}}, NeedHeader},
		{Definition{Hash: HashPhash2, HashOn: HashOn{Source: OnMessageID}}, NeedMessageID},
		{Definition{HashOn: HashOn{Source: OnCorrelationID}}, NeedCorrelationID},
	} {
		require.Equal(t, tt.want, policy(t, "^x$", tt.def).HashNeed())
	}
}

func TestHashKey(t *testing.T) {
	user := HashOn{Source: OnCapture, Re: regexpOf(`^user\.(?:vip\.)?(\d*)`)}
	for _, hash := range []Hash{HashXX, HashPhash2} {
		one := func(s string) uint64 {
			if hash == HashPhash2 {
				return uint64(Phash2([]byte(s)))
			}
			return XXHash([]byte(s))
		}
		plain := policy(t, "^x$", Definition{Hash: hash})
		part := policy(t, "^x$", Definition{Hash: hash, HashOn: user})
		require.Equal(t, one("user.17.paid"), plain.HashKey([]byte("user.17.paid")))
		for range 2 { // and again, remembered
			require.Equal(t, one("17"), part.HashKey([]byte("user.17.paid")))
			require.Equal(t, one("17"), part.HashKey([]byte("user.vip.17")))
			require.Equal(t, one(""), part.HashKey([]byte("user.x")), "an empty capture is one")
			require.Equal(t, one("order.17"), part.HashKey([]byte("order.17")), "without it the key counts")
			require.Equal(t, one(""), part.HashKey(nil))
		}
		require.Equal(t, one("abc"), part.HashValue([]byte("abc")))
	}
	optional := policy(t, "^x$", Definition{HashOn: HashOn{Source: OnCapture, Re: regexpOf(`^a(b)?`)}})
	require.Equal(t, XXHash([]byte("ac")), optional.HashKey([]byte("ac")), "a group that took no part is no capture")
}

// The caller's octets change after the call; what is remembered must not.
func TestHashKeyKeepsNoReference(t *testing.T) {
	p := policy(t, "^x$", Definition{HashOn: HashOn{Source: OnCapture, Re: regexpOf(`^(.)`)}})
	key := []byte("a1")
	first := p.HashKey(key)
	copy(key, "b1")
	require.Equal(t, XXHash([]byte("b")), p.HashKey(key))
	copy(key, "a1")
	require.Equal(t, first, p.HashKey(key))
}

func TestHashKeyIsConcurrentAndBounded(t *testing.T) {
	p := policy(t, "^x$", Definition{HashOn: HashOn{Source: OnCapture, Re: regexpOf(`-(.)`)}})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range captureCacheSize {
				if got := p.HashKey(fmt.Appendf(nil, "%d%d-%c", g, i, 'a'+i%3)); got != XXHash([]byte{byte('a' + i%3)}) {
					t.Errorf("hash of key %d", i)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, captureCacheSize, p.captures.Len())
}
