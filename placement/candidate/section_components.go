package candidate

import (
	"encoding/binary"
	"slices"

	"github.com/openberth/berth/placement/match"
)

// components decides a section without same_subtree and covering traits on trees where its items do not all compete:
// ports of two networks may need one resource class, but on different NICs. Each set of item classes that have slots
// in common is decided by a search of its own. One search for all would repeat its work on the second set for each
// placement of the first one.
type components struct {
	query   *match.Query
	section *match.Section
	stop    *stopper
	known   map[string]*search // by the item classes of the set
	parts   []*search          // those of the tree
	of      []*search          // by item of the query
	states  int                // see failedStates.most
}

func newComponents(q *match.Query, s *match.Section, stop *stopper) *components {
	return &components{query: q, section: s, stop: stop, known: map[string]*search{}, of: make([]*search, len(q.Items))}
}

func (c *components) reset(slots *treeSlots) {
	c.parts = c.parts[:0]
	left := slices.Clone(c.section.ItemClasses)
	for len(left) > 0 {
		set := []int{left[0]}
		left = left[1:]
		for n := 0; n < len(set); n++ {
			left = slices.DeleteFunc(left, func(other int) bool {
				if !shareSlot(slots.domains[set[n]], slots.domains[other]) {
					return false
				}
				set = append(set, other)
				return true
			})
		}
		slices.Sort(set)
		part := c.search(set)
		part.reset(slots)
		c.parts = append(c.parts, part)
		for _, i := range part.section.Items {
			c.of[i] = part
		}
	}
}

// shareSlot reports whether two sorted lists have a slot in common.
func shareSlot(a, b []int32) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// search returns the search for a set of item classes.
func (c *components) search(set []int) *search {
	var key []byte
	for _, class := range set {
		key = binary.AppendUvarint(key, uint64(class))
	}
	if known := c.known[string(key)]; known != nil {
		return known
	}
	part := &match.Section{ItemClasses: set}
	for _, class := range set {
		part.Items = append(part.Items, c.query.ItemClasses[class].Items...)
		for _, need := range c.query.ItemClasses[class].Needs {
			part.Classes = append(part.Classes, need.Class)
		}
	}
	for _, list := range []*[]int{&part.Items, &part.Classes} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if len(c.known) > 64 { // trees of many kinds
		clear(c.known)
	}
	found := newSearch(c.query, part, c.stop)
	found.failed.most, found.completion.failed.most = c.states, c.states
	c.known[string(key)] = found
	return found
}

func (c *components) solve() bool {
	for _, part := range c.parts {
		if !part.solve() {
			return false
		}
	}
	return true
}

func (c *components) force(item, at int) bool { return c.of[item].force(item, at) }

func (c *components) hint(item int) int { return c.of[item].hint(item) }

func (c *components) release(item, at int) { c.of[item].release(item, at) }
