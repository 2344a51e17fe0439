package coordination

import "sync"

// outbox holds messages until they are sent: of each kind the last, so that it
// cannot grow while nothing can be sent.
type outbox struct {
	mu    sync.Mutex // a leaf
	slots []slot
	ready chan struct{} // capacity 1: there is something
}

type slot struct {
	kind Kind
	body []byte
}

func (o *outbox) init() { o.ready = make(chan struct{}, 1) }

func (o *outbox) put(kind Kind, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.slots {
		if o.slots[i].kind == kind {
			o.slots = append(o.slots[:i], o.slots[i+1:]...)
			break
		}
	}
	o.slots = append(o.slots, slot{kind, body})
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

func (o *outbox) take() []slot {
	o.mu.Lock()
	defer o.mu.Unlock()
	slots := o.slots
	o.slots = nil
	return slots
}
