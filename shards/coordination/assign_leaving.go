package coordination

import "slices"

// AssignLeaving is Assign where some shards are leaving: they are consumed until
// they are empty, but get nothing new. Who had these alone would have no work.
//
//   - The other shards are assigned as if there were no more, and with as few moves
//     as that allows.
//   - Then each of those that leave gets one owner, such that what consumers have
//     in all differs by at most one; again with as few moves as possible.
//
// leaving is parallel to set, or nil for none.
func AssignLeaving(set []Shard, leaving []bool, consumers []Consumer, ordered bool) [][]int {
	if len(consumers) == 0 || !slices.Contains(leaving, true) {
		return Assign(set, consumers, nil, ordered)
	}
	staying, going := partOf(set, consumers, leaving, false), partOf(set, consumers, leaving, true)
	result := staying.globally(staying.assign(going, ordered))
	base := make([]int, len(consumers))
	for c, shards := range result {
		base[c] = len(shards)
	}
	for shard, owner := range assignShards(going.set, going.consumers, base, nil) {
		result[owner] = append(result[owner], going.at[shard])
	}
	for _, shards := range result {
		slices.Sort(shards)
	}
	return result
}

// part is some of the shards of a set, and what consumers hold of these.
type part struct {
	set       []Shard
	at        []int // per shard, its place in the whole set
	consumers []Consumer
}

// partOf returns the shards of which leaving says that.
func partOf(set []Shard, consumers []Consumer, leaving []bool, that bool) part {
	var p part
	place := make([]int, len(set))
	for i := range set {
		place[i] = -1
		if leaving[i] == that {
			place[i] = len(p.set)
			p.set, p.at = append(p.set, set[i]), append(p.at, i)
		}
	}
	p.consumers = make([]Consumer, len(consumers))
	for c, consumer := range consumers {
		p.consumers[c] = Consumer{ID: consumer.ID, Node: consumer.Node}
		for _, i := range heldIn(set, consumer) {
			if place[i] >= 0 {
				p.consumers[c].Held = append(p.consumers[c].Held, place[i])
			}
		}
	}
	return p
}

// assign is Assign for the part. Where consumers are alike, one that holds fewer of
// the other part's shards gets one more here: then less of those has to move.
func (p *part) assign(other part, ordered bool) [][]int {
	if len(p.set) == 0 || !ordered && len(p.consumers) > len(p.set) {
		return Assign(p.set, p.consumers, nil, ordered)
	}
	held := make([]int, len(p.consumers))
	for c := range other.consumers {
		held[c] = len(other.consumers[c].Held)
	}
	result := make([][]int, len(p.consumers))
	for shard, owner := range assignShards(p.set, p.consumers, nil, held) {
		result[owner] = append(result[owner], shard)
	}
	return result
}

// globally puts places in the whole set for those in the part.
func (p *part) globally(assigned [][]int) [][]int {
	for _, shards := range assigned {
		for i := range shards {
			shards[i] = p.at[shards[i]]
		}
	}
	return assigned
}
