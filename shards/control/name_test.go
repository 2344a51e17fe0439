package control

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
)

// unnamed makes the client learn its node's name.
func unnamed(o *Options) { o.Node = "" }

func TestLearnsName(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*peer)
		want   string
	}{
		{"by its hash", func(p *peer) { p.node = "r@a" }, "r@a"},
		{"by its hash, without rights on the proxies' exchange", func(p *peer) { p.node, p.denied = "r@a", true }, "r@a"},
		{"unlikely", func(p *peer) { p.node = "other@elsewhere" }, "r@a.example"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t)
			tt.change(p)
			p.answer = func(uint16, uint16, []byte) []byte { return declareOK(1, 0) }
			logs := make(logChannel, 100)
			c := p.client(t, func(o *Options) { unnamed(o); o.Log = logs })
			c.learnTimeout = time.Hour // it is told, not waited for
			name, err := c.NodeName(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, name)
			_, err = c.QueueCount(t.Context(), "q")
			require.NoError(t, err, "the connection itself has published nothing")
			if tt.want == "r@a.example" {
				require.Contains(t, <-logs, "node name not certain")
			}
		})
	}
}

// A guess could be another name than the one other proxies have learned, and would make a second set of shards.
func TestDoesNotGuessTheName(t *testing.T) {
	for text, change := range map[string]func(*peer){
		"memory or disk alarm":   func(p *peer) { p.alarm = true },
		"return the question in": func(*peer) {},
	} {
		t.Run(text, func(t *testing.T) {
			p := newPeer(t)
			change(p)
			c := p.client(t, unnamed)
			c.learnTimeout = 20 * time.Millisecond
			_, err := c.NodeName(t.Context())
			require.ErrorIs(t, err, shards.ErrUnreachable)
			require.ErrorContains(t, err, text)
			require.ErrorContains(t, err, "in the configuration")
			require.Empty(t, c.Node())
		})
	}
}

// A configured name needs no asking: no second connection, no publish.
func TestKnowsName(t *testing.T) {
	p := newPeer(t)
	p.alarm = true
	_, err := p.client(t, nil).Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, p.accepted)
}

func TestAnotherNodeAnswers(t *testing.T) {
	p := newPeer(t)
	p.node = "r@a"
	logs := make(logChannel, 100)
	c := p.client(t, func(o *Options) { unnamed(o); o.Log = logs })
	again := make(chan struct{}, 10)
	c.OnReconnect(func() { again <- struct{}{} })
	name, err := c.NodeName(t.Context())
	require.NoError(t, err)
	require.Equal(t, "r@a", name)
	require.Equal(t, "control connection open", <-logs)
	require.Empty(t, again, "the first connection is none after a lost one")

	p.drop()
	require.Equal(t, "control connection lost", <-logs)
	require.Equal(t, "control connection open", <-logs)
	<-again
	p.set(func() { p.node = "r@localhost" })
	p.drop()
	for msg := ""; !strings.HasPrefix(msg, "the broker at this address has another node name"); msg = <-logs {
		require.NotContains(t, msg, "not certain")
	}
	<-again
	require.Equal(t, "r@a", c.Node())
}

// TestAtomHash compares with erlang:phash2/1 of atoms on Erlang/OTP 25.
func TestAtomHash(t *testing.T) {
	for name, want := range map[string]uint32{
		"topo1@localhost": 107469972, "rabbit@my-host": 55245140, "rabbit@a-long-host-name.example.com": 59280269,
	} {
		require.Equal(t, want, atomHash(name), name)
	}
}

func TestParseReplyTo(t *testing.T) {
	term := func(b ...byte) string {
		return replyTo + "." + base64.StdEncoding.EncodeToString(append(b, 0, 0, 2, 203)) + ".key=="
	}
	node := []byte("reply@107469972")
	short, long := []byte{131, 88, 119, byte(len(node))}, []byte{131, 103, 100, 0, byte(len(node))}
	for address, want := range map[string]uint32{
		replyTo + ".g1h2AA9yZXBseUAxMDc0Njk5NzIAAALLAAAAAGsNWfM=.aeBBwBOYap2gmD8e4YTmZQ==": 107469972,
		term(append(short, node...)...):                             107469972,
		term(append(long, node...)...):                              107469972,
		term(131, 88, 118, 0, 200, 'r'):                             unknownHash,
		term(131, 88, 118, 0, 7, 'r', 'e', 'p', 'l', 'y', '@', 'x'): unknownHash,
		term(131, 97, 1):                                            unknownHash,
		"":                                                          unknownHash,
		replyTo:                                                     unknownHash,
		replyTo + ".%%.k":                                           unknownHash,
	} {
		require.Equal(t, want, parseReplyTo(address), address)
	}
}

func TestLikelyNames(t *testing.T) {
	require.Contains(t, likelyNames("r@a.example", "b.example:5672"), "r@a")
	require.Contains(t, likelyNames("r@a.example", "b.example:5672"), "r@a.example")
	require.Contains(t, likelyNames("r@a.example", "b.example:5672"), "r@b")
	require.Contains(t, likelyNames("r@a", "127.0.0.1:5672"), "r@localhost")
	require.Contains(t, likelyNames("production", "b:5672"), "rabbit@b")
}
