package coordination

import (
	"encoding/json"
	"errors"
	"fmt"
)

// PruneKind: a tool asks that shards of former sets go which would stay otherwise.
// It is no Message, for it is nothing to the Core: what it changes is what the
// leader's Topologist says of such a shard.
const PruneKind Kind = "prune"

// Pruner is a Topologist that can be asked to remove shards which it keeps.
type Pruner interface {
	// Prune asks that these shards of an exchange be removed once they are empty,
	// should they be surplus. Asking lasts for some seconds, and every proxy is asked,
	// for one that leads a moment later has to know. It must not block.
	Prune(exchange string, queues []string)
}

// pruneMessage is how that is asked for over the fanout exchange.
type pruneMessage struct {
	V        int      `json:"v"`
	Kind     Kind     `json:"kind"`
	Exchange string   `json:"exchange"`
	Queues   []string `json:"queues"`
}

var errNoPruning = errors.New("message that asks for nothing that can be removed")

// Prune returns the message that asks for the removal of surplus shards, see
// Pruner. Proxies that do not know it pass over it.
func Prune(exchange string, queues []string) []byte {
	return mustMarshal(pruneMessage{V: wireVersion, Kind: PruneKind, Exchange: exchange, Queues: queues})
}

// decodePrune decodes what Prune has made. It never panics, whatever the body is.
func decodePrune(body []byte) (*pruneMessage, error) {
	if len(body) > MaxMessage {
		return nil, ErrTooLarge
	}
	var m pruneMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("decode request to remove shards: %w", err)
	}
	switch {
	case m.Kind != PruneKind:
		return nil, fmt.Errorf("%w: %q", ErrKind, m.Kind)
	case m.V != wireVersion:
		return nil, fmt.Errorf("%w: %d", ErrVersion, m.V)
	case len(m.Queues) == 0 || len(m.Queues) > maxShards:
		return nil, errNoPruning
	}
	return &m, nil
}

// prunes passes a message on that DecodeMessage has refused with err if it asks for
// the removal of shards, and reports whether it does.
func (n *Node) prunes(body []byte, err error) bool {
	if !errors.Is(err, ErrKind) {
		return false
	}
	m, err := decodePrune(body)
	if err != nil {
		return false
	}
	if p, ok := n.o.Topologist.(Pruner); ok {
		p.Prune(m.Exchange, m.Queues)
	}
	return true
}
