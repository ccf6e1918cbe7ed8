package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/match"
)

// partial is a partial placement of the items of one section on one tree: the state of a search.
type partial struct {
	query   *match.Query
	section *match.Section
	slots   *treeSlots
	rows    []int     // by item class of the query: its position in the section
	domains [][]int32 // by row: the slots' domain, less what the same_subtree clauses exclude from the start
	room    []int     // by slot and class: what the placed items leave
	busy    []bool    // by slot: an isolated item is placed there
	place   []int32   // by item of the query: its slot, or -1
}

func newPartial(q *match.Query, s *match.Section) partial {
	p := partial{query: q, section: s, rows: make([]int, len(q.ItemClasses)),
		domains: make([][]int32, len(s.ItemClasses)), place: make([]int32, len(q.Items))}
	for row, c := range s.ItemClasses {
		p.rows[c] = row
	}
	return p
}

// clear removes all items and takes over the slots of a tree.
func (p *partial) clear(s *treeSlots) {
	p.slots = s
	p.room = append(p.room[:0], s.room...)
	p.busy = zeros(p.busy, len(s.slots))
	for i := range p.place {
		p.place[i] = -1
	}
	for row, c := range p.section.ItemClasses {
		p.domains[row] = append(p.domains[row][:0], s.domains[c]...)
	}
}

// classOf returns the item class of an item.
func (p *partial) classOf(item int) *match.ItemClass {
	return &p.query.ItemClasses[p.query.Items[item].Class]
}

// domain returns the slots that may take an item.
func (p *partial) domain(item int) []int32 { return p.domains[p.rows[p.query.Items[item].Class]] }

// rooms returns what is left of each class on a slot.
func (p *partial) rooms(at int32) []int {
	n := len(p.query.Classes)
	return p.room[int(at)*n : int(at+1)*n]
}

// fits reports whether a slot of the domain of an item class has room for an item.
func (p *partial) fits(c *match.ItemClass, at int32) bool {
	if p.query.Isolate && !c.Unsuffixed && p.busy[at] {
		return false
	}
	rooms := p.rooms(at)
	for _, need := range c.Needs {
		if rooms[need.Class] < need.Amount {
			return false
		}
	}
	return true
}

// put places an item on a slot. It reports false, and changes nothing, if there is no room.
func (p *partial) put(i int, at int32) bool {
	c := p.classOf(i)
	if !p.fits(c, at) {
		return false
	}
	for _, need := range c.Needs {
		p.rooms(at)[need.Class] -= need.Amount
	}
	p.busy[at] = p.busy[at] || p.query.Isolate && !c.Unsuffixed
	p.place[i] = at
	return true
}

// remove undoes put.
func (p *partial) remove(i int, at int32) {
	c := p.classOf(i)
	for _, need := range c.Needs {
		p.rooms(at)[need.Class] += need.Amount
	}
	if p.query.Isolate && !c.Unsuffixed {
		p.busy[at] = false
	}
	p.place[i] = -1
}

// covers reports whether a slot has one of the traits of a required set of the unsuffixed group.
func (p *partial) covers(at int32, set int) bool {
	return slices.ContainsFunc(p.query.Cover[set], p.slots.slots[at].Node().HasTrait)
}

// covered reports whether an item of the unsuffixed group is placed on a slot with one of these traits.
func (p *partial) covered(set int) bool {
	return slices.ContainsFunc(p.section.Items, func(i int) bool {
		return p.place[i] >= 0 && p.classOf(i).Unsuffixed && p.covers(p.place[i], set)
	})
}

// allCovered reports whether the providers of the unsuffixed group have all required traits between them.
func (p *partial) allCovered() bool {
	for set := range p.query.Cover {
		if p.section.Covers && !p.covered(set) {
			return false
		}
	}
	return true
}
