package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/match"
)

// subtreeBound is the counting bound for same_subtree. Items that clauses tie together, directly or through others,
// are a subtree set. A region is the subtree of a topmost provider that can be the common ancestor of some clause.
// Regions do not overlap, and each subtree set is in one region as a whole. So the number of sets that a region can
// take is limited by what is scarcest in it, and whether all sets find a region is decided by counting.
type subtreeBound struct {
	section  *match.Section
	sets     [][]int // by subtree set: its items
	demands  [][]demand
	region   []int32 // by slot: its region, or -1
	regions  int     // the number of regions
	unplaced []int   // the subtree sets of which no item is placed yet
	flow     transport
}

// demand is what a subtree set needs of one class: units in all, items that need it, the smallest amount of an item.
type demand struct{ units, items, least int }

func newSubtreeBound(q *match.Query, s *match.Section) *subtreeBound {
	b := &subtreeBound{section: s, sets: subtreeSets(q, s)}
	for _, set := range b.sets {
		demands := make([]demand, len(s.Classes))
		for _, i := range set {
			for c, class := range s.Classes {
				if n := q.ItemClasses[q.Items[i].Class].Amount(class); n > 0 {
					d := &demands[c]
					if d.items == 0 || n < d.least {
						d.least = n
					}
					d.units, d.items = d.units+n, d.items+1
				}
			}
		}
		b.demands = append(b.demands, demands)
	}
	return b
}

// subtreeSets joins the clauses of a section that have items in common.
func subtreeSets(q *match.Query, s *match.Section) (sets [][]int) {
	var left [][]int
	for _, c := range s.Clauses {
		left = append(left, slices.Clone(q.Subtrees[c]))
	}
	for len(left) > 0 {
		set := left[0]
		left = left[1:]
		for i := 0; i < len(left); i++ {
			if slices.ContainsFunc(left[i], func(item int) bool { return slices.Contains(set, item) }) {
				set = append(set, left[i]...)
				left = slices.Delete(left, i, i+1)
				i = -1
			}
		}
		slices.Sort(set)
		sets = append(sets, slices.Compact(set))
	}
	return sets
}

// reset finds the regions of a tree, before anything is placed.
func (b *subtreeBound) reset(p *partial) {
	var tops []int32
	for top := range int32(len(p.slots.slots)) {
		above := func(o int32) bool { return p.slots.under(o, top) }
		ancestor := func(c int) bool { return p.canBeCommonAncestor(top, p.query.Subtrees[c]) }
		if slices.ContainsFunc(b.section.Clauses, ancestor) && !slices.ContainsFunc(tops, above) {
			tops = append(slices.DeleteFunc(tops, func(o int32) bool { return p.slots.under(top, o) }), top)
		}
	}
	b.regions = len(tops)
	b.region = b.region[:0]
	for at := range int32(len(p.slots.slots)) {
		region := slices.IndexFunc(tops, func(top int32) bool { return p.slots.under(top, at) })
		b.region = append(b.region, int32(region))
	}
}

// holds reports whether the subtree sets of which nothing is placed could each have a region.
func (b *subtreeBound) holds(p *partial) bool {
	b.unplaced = b.unplaced[:0]
	for n, set := range b.sets {
		if !slices.ContainsFunc(set, func(i int) bool { return p.place[i] >= 0 }) {
			b.unplaced = append(b.unplaced, n)
		}
	}
	if len(b.unplaced) == 0 {
		return true
	}
	for c := range b.section.Classes {
		if !b.classFits(p, c) {
			return false
		}
	}
	return true
}

// classFits reports whether the unplaced sets that need a class fit into the regions.
func (b *subtreeBound) classFits(p *partial, class int) bool {
	var asking []int
	for _, n := range b.unplaced {
		if b.demands[n][class].units > 0 {
			asking = append(asking, n)
		}
	}
	if len(asking) == 0 {
		return true
	}
	b.flow.domains = make([][]int32, len(asking))
	b.flow.clear(b.regions)
	for r := range b.regions {
		b.flow.cap[r] = b.capacity(p, asking, int32(r))
	}
	for row, n := range asking {
		for r := range int32(b.regions) {
			if b.flow.cap[r] > 0 && b.open(p, n, r) {
				b.flow.domains[row] = append(b.flow.domains[row], r)
			}
		}
	}
	for row := range asking {
		if !b.flow.carry(row, 1) {
			return false
		}
	}
	return true
}

// capacity limits how many of these sets a region can take: by each class that all of them need, and by its providers
// if each takes only one item.
func (b *subtreeBound) capacity(p *partial, asking []int, region int32) int {
	most, smallest := len(asking), len(p.query.Items)
	for _, n := range asking {
		smallest = min(smallest, len(b.sets[n]))
	}
	for c, class := range b.section.Classes {
		least := b.demands[asking[0]][c]
		for _, n := range asking {
			d := b.demands[n][c]
			least = demand{min(least.units, d.units), min(least.items, d.items), min(least.least, d.least)}
		}
		if least.units == 0 {
			continue
		}
		units, items := 0, 0
		for at, r := range b.region {
			if r == region {
				units += p.rooms(int32(at))[class]
				items += p.rooms(int32(at))[class] / least.least
			}
		}
		most = min(most, units/least.units, items/least.items)
	}
	if p.query.Isolate {
		free := 0
		for at, r := range b.region {
			if r == region && !p.busy[at] {
				free++
			}
		}
		most = min(most, free/smallest)
	}
	return most
}

// open reports whether each item of a set has a slot with room in the region.
func (b *subtreeBound) open(p *partial, set int, region int32) bool {
	for _, i := range b.sets[set] {
		fits := func(at int32) bool { return b.region[at] == region && p.fits(p.classOf(i), at) }
		if !slices.ContainsFunc(p.domain(i), fits) {
			return false
		}
	}
	return true
}
