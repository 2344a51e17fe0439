package coordination

// OutputKind tells Outputs apart.
type OutputKind uint8

const (
	// SendOutput: send Body to every proxy. What waits to be sent may be replaced by
	// a later message of the same Slot.
	SendOutput OutputKind = iota + 1
	// StoreOutput: store Body, then call Stored with ID.
	StoreOutput
	// ApplyOutput: hand Plan for Exchange to the participant.
	ApplyOutput
	// SeenOutput: tell the participant that another proxy has come to report Exchange.
	SeenOutput
	// EffectOutput: have the topologist do Effect on Shards of Exchange, then call
	// Done with ID.
	EffectOutput
	// AliveOutput: ask whether Proxy is connected, then call Alive.
	AliveOutput
	// LockOutput and UnlockOutput: have the transport lock Queue of Exchange, or let
	// go of it, then call Locked or Unlocked.
	LockOutput
	UnlockOutput
	// ResignOutput: give the lead up.
	ResignOutput
	// LogOutput: Text, with Fields in pairs, is worth a line in the log.
	LogOutput
)

// EffectKind is what the topologist is to do.
type EffectKind uint8

const (
	PrepareEffect EffectKind = iota + 1
	RetireEffect
	IdleEffect
	RemoveEffect
	UncoveredEffect
	LoadsEffect
)

// Output is one thing that a Core wants done. Outputs are to be begun in order.
type Output struct {
	Kind     OutputKind
	Slot     Kind
	Body     []byte
	ID       uint64
	Exchange string
	Queue    string
	Plan     *Plan
	Effect   EffectKind
	Shards   []Shard
	Proxy    string
	Text     string
	Fields   []any
	// Warn: the line is a warning.
	Warn bool
}

// Outcome is what came of an effect.
type Outcome struct {
	Err error
	// OK is the answer of Idle and of Remove.
	OK bool
	// Queues is the answer of Uncovered.
	Queues []string
	// Loads is the answer of Loads.
	Loads []Load
}
