package router

// Parts is what goes out of one read, in order: runs of the octets that came in, and octets of the router's own (TakeUp, TakeDown). The
// zero value is empty.
type Parts struct {
	List []Part
	own  int // how many of the router's octets are in it
}

// Part is a run of octets: offsets in its source.
type Part struct {
	From       Source
	Start, End int
}

// Source is where a part's octets are.
type Source uint8

// The sources.
const (
	FromRead  Source = iota // what came in
	FromOwn                 // the router's own
	FromHeads               // heads of body frames that the proxy cuts; the router has none
)

// Add appends a run; one that follows on the last becomes part of it.
func (p *Parts) Add(from Source, start, end int) {
	if n := len(p.List); n > 0 && p.List[n-1].End == start && p.List[n-1].From == from {
		p.List[n-1].End = end
		return
	}
	if start != end {
		p.List = append(p.List, Part{from, start, end})
	}
}

// AddOwn appends those of the router's first upTo own octets that are not in it yet.
func (p *Parts) AddOwn(upTo int) {
	p.Add(FromOwn, p.own, upTo)
	p.own = upTo
}

// HasOwn reports whether any of the router's octets are in it.
func (p *Parts) HasOwn() bool { return p.own > 0 }

// Reset empties it and keeps its memory.
func (p *Parts) Reset() { p.List, p.own = p.List[:0], 0 }
