package coordination

import "errors"

// What a Transport's errors match with errors.Is.
var (
	// ErrNotConnected: there is no connection now. It is being looked for.
	ErrNotConnected = errors.New("coordination is not connected to the broker")
	// ErrNoRights: the broker refuses this proxy what coordination takes, until an
	// operator grants it. An error that matches it matches ErrNotConnected too.
	ErrNoRights = errors.New("the user lacks the rights that coordination takes")
	// ErrBlocked: the broker takes nothing in because of a memory or disk alarm.
	ErrBlocked = errors.New("the broker blocks publishing (memory or disk alarm)")
	// ErrNotBlocked: there is no alarm, so there is no need of a lock.
	ErrNotBlocked = errors.New("the broker does not block publishing")
	// ErrNotElected: only the leader may do that.
	ErrNotElected = errors.New("this proxy does not lead")
	// ErrTransportClosed: the transport was closed by its owner.
	ErrTransportClosed = errors.New("coordination was closed by its owner")
)
