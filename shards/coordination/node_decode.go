package coordination

import (
	"errors"
	"time"
)

// decode decodes a message that is about nothing but shards.
func (n *Node) decode(body []byte) (*Message, error) {
	m, err := DecodeMessage(body)
	if namer, ok := n.o.Participant.(Namer); ok && err == nil {
		err = m.named(namer)
	}
	return m, err
}

// decodeState is decode for a stored state. It returns nil with an error.
func (n *Node) decodeState(body []byte) (*State, error) {
	s, err := DecodeState(body)
	if namer, ok := n.o.Participant.(Namer); ok && err == nil {
		err = s.named(namer)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// refused logs that a message was not taken, once in a while: of another version,
// or of no proxy. Only run calls it.
func (n *Node) refused(err error) {
	if errors.Is(err, ErrKind) || !n.refusal.IsZero() && time.Since(n.refusal) < refusedEvery {
		return // kinds may be added
	}
	n.refusal = time.Now()
	n.o.Log.Warn("a message of the coordination is not understood", "error", err.Error())
}
