package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/match"
)

// bound detects at low cost that a partial placement cannot be completed. It counts, for each class, whether the items
// that need it fit on their slots if each needs only the smallest amount, whether there are enough units in total, and
// with group_policy=isolate whether there are enough providers. It may accept a placement that cannot be completed, but
// never excludes one that can.
type bound struct {
	flow     transport
	classes  []int // by row: the item class, as in the section
	left     []int // by row: how many items are not placed
	open     [][]int32
	common   [][]int // by class of the section: the classes that all item classes needing it need
	subtrees *subtreeBound
}

func newBound(q *match.Query, s *match.Section) bound {
	rows := len(s.ItemClasses)
	b := bound{classes: s.ItemClasses, left: make([]int, rows), open: make([][]int32, rows),
		subtrees: newSubtreeBound(q, s)}
	for _, c := range s.Classes {
		var common []int
		for _, other := range s.Classes {
			together := true
			for _, i := range s.ItemClasses {
				together = together && (q.ItemClasses[i].Amount(c) == 0 || q.ItemClasses[i].Amount(other) > 0)
			}
			if together {
				common = append(common, other)
			}
		}
		b.common = append(b.common, common)
	}
	return b
}

// holds reports whether the bound leaves it possible to place all other items.
func (b *bound) holds(p *partial) bool {
	if !b.update(p) || p.section.Covers && !b.covers(p) {
		return false
	}
	for i, class := range p.section.Classes {
		needs := func(c *match.ItemClass) bool { return c.Amount(class) > 0 }
		capacity := func(at int32) int { return b.times(p, at, b.common[i]) }
		if !b.units(p, class) || !b.count(p, needs, capacity) {
			return false
		}
	}
	suffixed := func(c *match.ItemClass) bool { return !c.Unsuffixed }
	if p.query.Isolate && !b.count(p, suffixed, func(int32) int { return 1 }) {
		return false
	}
	return b.subtrees.holds(p)
}

// update counts the items left and lists the slots open to them. It reports whether each item class has one.
func (b *bound) update(p *partial) bool {
	for row, c := range b.classes {
		b.left[row], b.open[row] = 0, b.open[row][:0]
		for _, i := range p.query.ItemClasses[c].Items {
			if p.place[i] < 0 {
				b.left[row]++
			}
		}
		if b.left[row] == 0 {
			continue
		}
		for _, at := range p.domains[row] {
			if p.fits(&p.query.ItemClasses[c], at) {
				b.open[row] = append(b.open[row], at)
			}
		}
		if len(b.open[row]) == 0 {
			return false
		}
	}
	return true
}

// covers reports whether each required set of the unsuffixed group is met, or can still be met.
func (b *bound) covers(p *partial) bool {
	for set := range p.query.Cover {
		if p.covered(set) {
			continue
		}
		met, covers := false, func(at int32) bool { return p.covers(at, set) }
		for row, c := range b.classes {
			met = met || p.query.ItemClasses[c].Unsuffixed && slices.ContainsFunc(b.open[row], covers)
		}
		if !met {
			return false
		}
	}
	return true
}

// units reports whether the slots have as many units of a class as the items left need.
func (b *bound) units(p *partial, class int) bool {
	asked, free := 0, 0
	counted := make([]bool, len(p.slots.slots))
	for row, c := range b.classes {
		amount := p.query.ItemClasses[c].Amount(class)
		if amount == 0 {
			continue
		}
		asked += amount * b.left[row]
		for _, at := range b.open[row] {
			if !counted[at] {
				counted[at] = true
				free += p.rooms(at)[class]
			}
		}
	}
	return asked <= free
}

// times returns how often a slot can give the smallest amounts that the items left need of these classes.
func (b *bound) times(p *partial, at int32, classes []int) int {
	n := len(p.query.Items)
	for _, class := range classes {
		least := 0
		for row, c := range b.classes {
			amount := p.query.ItemClasses[c].Amount(class)
			if amount > 0 && b.left[row] > 0 && (least == 0 || amount < least) {
				least = amount
			}
		}
		if least > 0 {
			n = min(n, p.rooms(at)[class]/least)
		}
	}
	return n
}

// count reports whether the items left of some item classes fit if each slot takes as many as its capacity.
func (b *bound) count(p *partial, counts func(*match.ItemClass) bool, capacity func(int32) int) bool {
	b.flow.domains = b.open
	b.flow.clear(len(p.slots.slots))
	for row, c := range b.classes {
		if !counts(&p.query.ItemClasses[c]) {
			continue
		}
		for _, at := range b.open[row] {
			b.flow.cap[at] = capacity(at)
		}
		if !b.flow.carry(row, b.left[row]) {
			return false
		}
	}
	return true
}
