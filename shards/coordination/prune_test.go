package coordination

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pruneRecorder is a Topologist that notes what it is asked to remove.
type pruneRecorder struct {
	Topologist
	asked []string
}

func (p *pruneRecorder) Prune(exchange string, queues []string) {
	p.asked = append(p.asked, exchange+": "+strings.Join(queues, ", "))
}

func TestPruneMessages(t *testing.T) {
	body := Prune("x", []string{"q", "r"})
	_, err := DecodeMessage(body)
	require.ErrorIs(t, err, ErrKind, "proxies that do not know it pass over it")
	m, err := decodePrune(body)
	require.NoError(t, err)
	require.Equal(t, &pruneMessage{V: wireVersion, Kind: PruneKind, Exchange: "x", Queues: []string{"q", "r"}}, m)
	for n := range body {
		_, err := decodePrune(body[:n])
		require.Error(t, err, "%d octets", n)
	}
	change := func(fn func(m *pruneMessage)) []byte {
		m := pruneMessage{V: wireVersion, Kind: PruneKind, Exchange: "x", Queues: []string{"q"}}
		fn(&m)
		body, err := json.Marshal(m)
		require.NoError(t, err)
		return body
	}
	for name, c := range map[string]struct {
		body []byte
		want error
	}{
		"version":   {change(func(m *pruneMessage) { m.V++ }), ErrVersion},
		"kind":      {change(func(m *pruneMessage) { m.Kind = BeatKind }), ErrKind},
		"nothing":   {change(func(m *pruneMessage) { m.Queues = nil }), errNoPruning},
		"too many":  {change(func(m *pruneMessage) { m.Queues = make([]string, maxShards+1) }), errNoPruning},
		"too large": {make([]byte, MaxMessage+1), ErrTooLarge},
	} {
		_, err := decodePrune(c.body)
		require.ErrorIs(t, err, c.want, name)
	}
}

// The topologist of every proxy hears of a request, and nobody else's message becomes one.
func TestNodePassesPruneRequestsOn(t *testing.T) {
	log := &warned{}
	topologist := &pruneRecorder{}
	n := NewNode(NodeOptions{Participant: nobody{}, Topologist: topologist, Log: log})
	defer n.Close()
	n.event(Event{Kind: Received, Body: Prune("x", []string{"q", "r"})})
	require.Equal(t, []string{"x: q, r"}, topologist.asked)
	for _, body := range []string{`{"v":1,"kind":"other","exchange":"x","queues":["q"]}`, `{"v":1,"kind":"prune","exchange":"x"}`} {
		n.event(Event{Kind: Received, Body: []byte(body)})
	}
	require.Empty(t, log.texts, "what is not known is not worth a line")
	n.event(Event{Kind: Received, Body: []byte("garbage")})
	require.Len(t, log.texts, 1)
	require.Len(t, topologist.asked, 1)

	without := NewNode(NodeOptions{Participant: nobody{}, Log: log})
	defer without.Close()
	without.event(Event{Kind: Received, Body: Prune("x", []string{"q"})})
	require.Len(t, log.texts, 1)
}

// nobody is a Participant with nothing to report.
type nobody struct{}

func (nobody) Report() map[string]ExchangeReport { return nil }
func (nobody) Apply(string, *Plan)               {}

// warned is a Logger that keeps what it is warned of.
type warned struct{ texts []string }

func (w *warned) Info(string, ...any)        {}
func (w *warned) Warn(text string, _ ...any) { w.texts = append(w.texts, text) }
