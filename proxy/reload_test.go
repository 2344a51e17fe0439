package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
)

func TestSetupOfListedAndFoundNodes(t *testing.T) {
	listed := []Node{{Name: "rabbit@a", Address: "a:1", Zone: "east"}}
	first := newSetup(nil, listed, nil, nil)
	require.Len(t, first.nodes, 1)
	first.nodes[0].clients.Store(7)

	found := []Node{{Name: "rabbit@a", Address: "10.0.0.1:1"}, {Name: "rabbit@b", Address: "b:1"}, {Name: "rabbit@aa", Address: "a:1"}}
	second := newSetup(first, listed, found, nil)
	var got []Node
	for _, n := range second.nodes {
		got = append(got, n.Node)
	}
	require.Equal(t, []Node{listed[0], found[1]}, got, "what is listed as well is not found anew")
	require.EqualValues(t, 7, second.nodes[0].clients.Load())

	third := newSetup(second, []Node{{Name: "rabbit@a", Address: "a:1", Zone: "west"}}, found, nil)
	require.Equal(t, "west", third.nodes[0].Zone)
	third.nodes[0].clients.Add(-1)
	require.EqualValues(t, 6, first.nodes[0].clients.Load(), "sessions of the old setup count in the new one")
	require.Same(t, second.nodes[1].usage, third.nodes[1].usage)

	require.Len(t, newSetup(nil, []Node{{Address: "a:1"}, {Address: "b:1"}}, nil, nil).nodes, 2, "without names")
}

// A connection that was there before its vhost had a policy goes by the policy.
func TestPolicyForAVhostWithConnections(t *testing.T) {
	s := newServer(Options{Nodes: []Node{deadNode(t)}, Updates: make(chan Update)})
	defer s.closeTopologies()
	d := s.open("/")
	require.NotNil(t, d)
	require.Nil(t, d.Lookup([]byte(testExchange)))
	require.Nil(t, s.topology("/"), "looking makes none")

	p, err := shards.NewPolicy("p", "other", "^"+testExchange+"$", 0, shards.Definition{ShardsPerNode: 1})
	require.NoError(t, err)
	s.update(t.Context(), func(now *setup) *setup {
		return newSetup(now, now.listed, nil, shards.NewPolicies([]*shards.Policy{p}))
	})
	require.Nil(t, d.Lookup([]byte(testExchange)), "another vhost's")

	s.update(t.Context(), func(now *setup) *setup { return newSetup(now, now.listed, nil, testPolicies(t)) })
	r := d.Lookup([]byte(testExchange))
	require.NotNil(t, r)
	require.NotNil(t, r.Exchange)
	require.Same(t, r, s.topology("/").Lookup([]byte(testExchange)))

	// Without policies again the topology stays: it may have shards to look after.
	s.update(t.Context(), func(now *setup) *setup { return newSetup(now, now.listed, nil, shards.NewPolicies(nil)) })
	require.NotNil(t, s.topology("/"))
}

// Without reloads a vhost without policies costs no look-ups.
func TestNoDirectoryWithoutReloads(t *testing.T) {
	s := newServer(Options{Nodes: []Node{deadNode(t)}})
	require.Nil(t, s.open("/"))
}

func TestUpdatesAreFollowed(t *testing.T) {
	updates := make(chan Update)
	r := startRig(t, func(o *Options) { o.Updates = updates })
	b := listenBroker(t)
	applied := make(chan struct{})
	updates <- Update{Nodes: []Node{{Address: b.addr()}}, Policies: shards.NewPolicies(nil), Applied: func() { close(applied) }}
	<-applied
	require.Equal(t, b.addr(), r.srv.upstreams()[0].Address)
	r.broker = b
	r.open(0) // a client gets to the new node
}
