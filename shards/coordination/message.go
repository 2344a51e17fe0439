package coordination

import (
	"encoding/json"
	"errors"
	"fmt"
)

const (
	// wireVersion is raised when proxies of different versions could misunderstand
	// each other; fields and kinds may be added without.
	wireVersion = 1
	// MaxMessage is the largest message or state accepted, in bytes.
	MaxMessage = 16 << 20
)

// Errors of DecodeMessage and DecodeState.
var (
	ErrTooLarge = errors.New("message larger than 16 MiB")
	ErrVersion  = errors.New("message of another version of the protocol")
	ErrKind     = errors.New("message of an unknown kind")

	errNames  = errors.New("message with an impossible name of a proxy")
	errShards = errors.New("message with impossible shards")

	errPlacement = errors.New("message with a placement that is too long")
)

// Kind tells messages apart.
type Kind string

const (
	// ReportKind: a proxy says what it has and wants.
	ReportKind Kind = "report"
	// StateKind: the leader says what it has decided.
	StateKind Kind = "state"
	// BeatKind: the leader says that it is there, and which state is the present.
	BeatKind Kind = "beat"
	// WhoKind asks every proxy for a report and the leader for its state.
	WhoKind Kind = "who"
)

// Message is what goes over the fanout exchange, as JSON.
type Message struct {
	V    int    `json:"v"`
	Kind Kind   `json:"kind"`
	From string `json:"from,omitempty"` // the sender's ID; a tool has none
	// Seq numbers the sender's messages: of two reports the later one counts.
	Seq uint64 `json:"seq,omitempty"`

	// Report: the highest ballot the sender has heard of, below which it obeys
	// nobody; what it has applied; whether it is about to end.
	Promised Ballot `json:"promised,omitzero"`
	Applied  Stamp  `json:"applied,omitzero"`
	Bye      bool   `json:"bye,omitempty"`
	// Local: the sender hears no leader, and may be taking shards by itself.
	Local bool `json:"local,omitempty"`
	// Waking: the sender was stopped, and waits for a state that goes by this report.
	Waking    bool                      `json:"waking,omitempty"`
	Exchanges map[string]ExchangeReport `json:"exchanges,omitempty"`
	// Own are shards, by exchange, that the sender has come to publish to while
	// there was nobody to decide, and that no leader has taken up yet.
	Own map[string][]Shard `json:"own,omitempty"`

	// Beat: the present state; version 0 while the leader is collecting reports.
	Stamp Stamp `json:"stamp,omitzero"`

	State *State `json:"state,omitempty"`
}

// DecodeMessage decodes one message of the fanout exchange. It returns ErrKind for
// kinds it does not know, ErrVersion, ErrTooLarge, or what was wrong with the
// JSON or with what it says. It never panics, whatever the body is.
func DecodeMessage(body []byte) (*Message, error) {
	if len(body) > MaxMessage {
		return nil, ErrTooLarge
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("decode coordination message: %w", err)
	}
	if m.V != wireVersion {
		return nil, fmt.Errorf("%w: %d", ErrVersion, m.V)
	}
	switch m.Kind {
	case ReportKind, BeatKind, WhoKind:
	case StateKind:
		if m.State == nil {
			return nil, errors.New("decode coordination message: no state in it")
		}
		m.State.tidy()
	default:
		return nil, fmt.Errorf("%w: %q", ErrKind, m.Kind)
	}
	if err := m.problem(); err != nil {
		return nil, err
	}
	return &m, nil
}

// stored is how a state is stored.
type stored struct {
	V     int    `json:"v"`
	State *State `json:"state"`
}

// DecodeState decodes a stored state. It never panics, whatever the body is.
func DecodeState(body []byte) (*State, error) {
	if len(body) > MaxMessage {
		return nil, ErrTooLarge
	}
	var s stored
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("decode stored state: %w", err)
	}
	if s.V != wireVersion {
		return nil, fmt.Errorf("%w: %d", ErrVersion, s.V)
	}
	if s.State == nil {
		return nil, errors.New("decode stored state: no state in it")
	}
	s.State.tidy()
	if err := s.State.problem(); err != nil {
		return nil, err
	}
	return s.State, nil
}

// tidy makes a decoded state usable: no nil entries.
func (s *State) tidy() {
	for name, entry := range s.Exchanges {
		if entry == nil {
			delete(s.Exchanges, name)
		}
	}
	if s.Exchanges == nil {
		s.Exchanges = make(map[string]*Entry)
	}
}

// Who returns the message that has every proxy report and the leader tell its
// state. from is the sender's ID, "" for one that is no proxy.
func Who(from string) []byte { return encode(&Message{Kind: WhoKind, From: from}) }

func encode(m *Message) []byte {
	m.V = wireVersion
	return mustMarshal(m)
}

func encodeState(s *State) []byte { return mustMarshal(stored{V: wireVersion, State: s}) }

// mustMarshal encodes our own types, which have no part that JSON lacks.
func mustMarshal(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) //nolint:forbidigo // maps, slices, strings and integers always encode
	}
	return body
}
