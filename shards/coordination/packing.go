package coordination

import "slices"

// packing puts items into bins so that the bins' loads differ by at most one:
// every bin gets floor items and bonus of the bins one more. Assign uses it both
// ways round.
//
// First retain keeps as many items as possible in a bin that holds them now, by
// augmenting paths: it solves a maximum flow, so no packing moves fewer. Then
// fill places the rest.
type packing struct {
	itemNode []string
	binNode  []string
	held     [][]int // per item, the bins that hold it now, the preferred first
	extra    []int   // per bin, load by others; breaks ties only
	base     []int   // per bin, what it has besides; counts

	floor int
	bonus int // bins that may still take one item above floor

	bin   []int   // per item, its bin, or -1
	items [][]int // per bin, its items

	tried      []bool // bins the current search for a path has been at
	triedBonus bool   // whether it has been at the bonuses
}

func newPacking(items, bins int) *packing {
	p := &packing{
		itemNode: make([]string, items),
		binNode:  make([]string, bins),
		held:     make([][]int, items),
		extra:    make([]int, bins),
		base:     make([]int, bins),
		floor:    items / bins,
		bonus:    items % bins,
		bin:      make([]int, items),
		items:    make([][]int, bins),
		tried:    make([]bool, bins),
	}
	for i := range p.bin {
		p.bin[i] = -1
	}
	return p
}

// preload notes what bins have already, which counts for their loads and stays; the
// bins' differ by at most one.
func (p *packing) preload(base []int) {
	total := len(p.bin)
	for _, n := range base {
		total += n
	}
	p.base, p.floor, p.bonus = base, total/len(base), total%len(base)
	for _, n := range base {
		if n > p.floor {
			p.bonus--
		}
	}
}

// local reports whether item and bin are on the same, known, node.
func (p *packing) local(item, bin int) bool {
	return p.itemNode[item] != "" && p.itemNode[item] == p.binNode[bin]
}

// preferLocal puts the local ones of an item's holders first.
func (p *packing) preferLocal(item int) {
	slices.SortStableFunc(p.held[item], func(a, b int) int {
		switch la, lb := p.local(item, a), p.local(item, b); {
		case la == lb:
			return 0
		case la:
			return -1
		}
		return 1
	})
}

// farness is 0 for an item a local bin holds, 1 for one a distant bin holds, 2
// for one that nothing holds.
func (p *packing) farness(item int) int {
	switch held := p.held[item]; {
	case len(held) == 0:
		return 2
	case p.local(item, held[0]):
		return 0
	}
	return 1
}

// retain keeps items where they are held; an item earlier in order is kept
// rather than a later one.
func (p *packing) retain(order []int) {
	// Where each item has one holder at most, no item can make room for another.
	choices := slices.ContainsFunc(p.held, func(bins []int) bool { return len(bins) > 1 })
	for _, item := range order {
		if bin := p.roomyHolder(item); bin >= 0 {
			p.put(item, bin)
		} else if choices {
			p.augment(item)
		}
	}
}

// roomyHolder returns the first of the item's holders with room, or -1.
func (p *packing) roomyHolder(item int) int {
	for _, bin := range p.held[item] {
		if p.room(bin) {
			return bin
		}
	}
	return -1
}

// augment keeps an item by moving others among the bins that hold them, if that
// is possible.
func (p *packing) augment(item int) {
	clear(p.tried)
	p.triedBonus = false
	for _, bin := range p.held[item] {
		if p.makeRoom(bin) {
			p.put(item, bin)
			return
		}
	}
}

// makeRoom searches for a path along which items move to others of their holders
// so that the bin can take one more, and moves them. It visits each bin once and
// changes nothing when it fails.
func (p *packing) makeRoom(bin int) bool {
	if p.tried[bin] {
		return false
	}
	p.tried[bin] = true
	if p.room(bin) {
		return true
	}
	for _, item := range p.items[bin] {
		for _, other := range p.held[item] {
			if p.makeRoom(other) {
				p.take(item)
				p.put(item, other)
				return true
			}
		}
	}
	if p.count(bin) > p.floor || p.triedBonus {
		return false
	}
	// At floor, with every bonus spent: another bin may give its bonus up.
	p.triedBonus = true
	for other := range p.items {
		if p.count(other) > p.floor && p.makeRoom(other) {
			return true
		}
	}
	return false
}

// fill places the items that are left: on their own node without spending a
// bonus, with one, then anywhere. In that order no other choice makes more items
// local.
func (p *packing) fill() {
	for _, pass := range []struct{ local, bonus bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		for item, bin := range p.bin {
			if bin < 0 {
				if bin = p.best(item, pass.local, pass.bonus); bin >= 0 {
					p.put(item, bin)
				}
			}
		}
	}
}

// best returns the least loaded bin with room for the item, or -1.
func (p *packing) best(item int, local, bonus bool) int {
	found := -1
	for bin := range p.items {
		if local && !p.local(item, bin) {
			continue
		}
		if p.count(bin) >= p.floor && (!bonus || !p.room(bin)) {
			continue
		}
		if found < 0 || p.load(bin) < p.load(found) {
			found = bin
		}
	}
	return found
}

// count returns how much the bin has.
func (p *packing) count(bin int) int { return p.base[bin] + len(p.items[bin]) }

func (p *packing) load(bin int) int { return p.count(bin) + p.extra[bin] }

// room reports whether the bin may take one more item.
func (p *packing) room(bin int) bool {
	return p.count(bin) < p.floor || p.count(bin) == p.floor && p.bonus > 0
}

func (p *packing) put(item, bin int) {
	if p.count(bin) >= p.floor {
		p.bonus--
	}
	p.items[bin] = append(p.items[bin], item)
	p.bin[item] = bin
}

func (p *packing) take(item int) {
	bin := p.bin[item]
	i := slices.Index(p.items[bin], item)
	p.items[bin] = slices.Delete(p.items[bin], i, i+1)
	if p.count(bin) >= p.floor {
		p.bonus++
	}
	p.bin[item] = -1
}
