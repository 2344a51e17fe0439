package shards

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookup(t *testing.T) {
	top, _, _, _ := topology(t, 1,
		policy(t, "^images$", Definition{FedBy: []string{"feed", "videos"}}),
		policy(t, "^videos$", Definition{FedBy: []string{"feed"}}))
	images, videos := exchangeOf(t, top, "images"), exchangeOf(t, top, "videos")
	require.Same(t, images, exchangeOf(t, top, "images"))
	require.Equal(t, &Route{Exchange: images}, top.Lookup([]byte("images")))
	require.Equal(t, &Route{Exchange: videos, Feeds: []*Exchange{images}}, top.Lookup([]byte("videos")))
	require.Equal(t, &Route{Feeds: []*Exchange{images, videos}}, top.Lookup([]byte("feed")))
	for _, name := range []string{"", "other", "amq.direct", "images.unsharded"} {
		require.Nil(t, top.Lookup([]byte(name)), name)
	}
	require.Nil(t, top.routes.cache.Load(), "literal policies need to remember no names")
}

func TestLookupPatterns(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^p", Definition{FedBy: []string{"feed", "pfeed"}}), policy(t, "^lit$", Definition{}))
	require.Nil(t, top.Lookup([]byte("feed")))
	p := exchangeOf(t, top, "p1")
	require.Same(t, p, exchangeOf(t, top, "p1"))
	_, err := top.Resolve(t.Context(), p, false)
	require.NoError(t, err)
	require.Nil(t, top.Lookup([]byte("feed")), "nothing feeds an exchange that does not exist")

	cluster.exchanges["p1"] = ExchangeSpec{Name: "p1", Type: "topic"}
	feeding := exchangeOf(t, top, "pfeed")
	_, err = top.Resolve(t.Context(), p, true)
	require.NoError(t, err)
	require.Same(t, p, exchangeOf(t, top, "p1"))
	require.Equal(t, []*Exchange{p}, top.Lookup([]byte("feed")).Feeds)
	require.Equal(t, &Route{Exchange: feeding, Feeds: []*Exchange{p}}, top.Lookup([]byte("pfeed")))

	delete(cluster.exchanges, "p1")
	top.Forget(t.Context(), p)
	require.Nil(t, top.Lookup([]byte("feed")))
	require.Empty(t, top.Lookup([]byte("pfeed")).Feeds)
	require.Same(t, p, exchangeOf(t, top, "p1"))
}

func TestLookupIsBounded(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^p", Definition{}))
	cluster.exchanges["pin"] = ExchangeSpec{Name: "pin", Type: "topic"}
	pinned, grouped, used := exchangeOf(t, top, "pin"), exchangeOf(t, top, "pgroup"), exchangeOf(t, top, "pused")
	_, err := top.Resolve(t.Context(), pinned, false)
	require.NoError(t, err)
	group := top.Group(grouped)
	for i := range 3 * cacheSize {
		require.Nil(t, top.Lookup(fmt.Appendf(nil, "q%d", i)))
		require.NotNil(t, top.Lookup(fmt.Appendf(nil, "p%d", i)))
		require.Same(t, used, exchangeOf(t, top, "pused"), "what is in use stays")
	}
	require.Equal(t, cacheSize, top.routes.cache.Load().Len())
	require.Len(t, *top.routes.known.Load(), 2)
	require.Same(t, pinned, exchangeOf(t, top, "pin"))
	require.Same(t, group, top.Group(exchangeOf(t, top, "pgroup")))
}

func TestLookupIsConcurrent(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^p", Definition{}))
	for i := range 8 {
		name := fmt.Sprint("p", i)
		cluster.exchanges[name] = ExchangeSpec{Name: name, Type: "topic"}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 64 {
				x := top.Lookup(fmt.Appendf(nil, "p%d", (i+g)%8)).Exchange
				if state, err := top.Resolve(t.Context(), x, i%8 == g); err != nil || state.Mode != Plain {
					t.Errorf("%s: %v, %v", x.Name, state, err)
				}
				if i%16 == 0 {
					top.Lookup(fmt.Appendf(nil, "n%d", i))
				}
			}
		})
	}
	wg.Wait()
}

func TestLookupDoesNotAllocate(t *testing.T) {
	literal, _, _, _ := topology(t, 1, policy(t, "^an-exchange-with-quite-a-long-name-for-a-name$", Definition{}))
	pattern, _, _, _ := topology(t, 1, policy(t, "^an", Definition{}))
	known, other := []byte("an-exchange-with-quite-a-long-name-for-a-name"), []byte("quite-another-name-that-no-policy-matches-at-all")
	for _, top := range []*Topology{literal, pattern} {
		require.NotNil(t, top.Lookup(known))
		require.Nil(t, top.Lookup(other))
		require.Zero(t, testing.AllocsPerRun(100, func() {
			top.Lookup(known)
			top.Lookup(other)
		}))
	}
}
