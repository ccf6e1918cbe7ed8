package candidate

import (
	"encoding/binary"
	"slices"

	"github.com/openberth/berth/placement/match"
)

// completion decides a section without same_subtree and covering traits, slot by slot: it tries the contents of a slot,
// then those of the next one. Three rules make that fast where the groups nearly fill the slots and need different
// amounts, which is bin packing:
//
//   - a content is maximal: an item that is placed on a later slot could be moved here instead
//   - the units that a content leaves unused are at most what all slots have more than all items need
//   - what is left for the later slots is a state; a state that failed is not tried again
//
// The search item by item (type search) is better where slots are many and small.
type completion struct {
	partial *partial
	stop    *stopper
	rows    []completionRow
	slots   []completionSlot
	classes int
	left    []int   // by row: the items that are not placed
	free    [][]int // by slot and class: the units of this slot and the later ones
	failed  failedStates
	steps   int // that are left of the budget
	out     bool
	key     []byte
}

// completionRow is an item class of the section.
type completionRow struct {
	class   int   // of the query
	amounts []int // by class of the section; the last one is isolation: 1 if the item must have a provider of its own
	items   []int // that are to be placed
	within  []int // the rows whose items have no other slots than those of this row
}

// completionSlot is a slot with what can be placed on it.
type completionSlot struct {
	at      int32
	room    []int // by class of the section
	usable  []int // by class: the most units that items can take together
	allowed []bool
	like    bool  // as the slot before
	taken   []int // by row: the content that is tried
}

// completable reports whether a completion can decide a section.
func completable(s *match.Section) bool { return !s.Covers && len(s.Clauses) == 0 }

// run tries to place all items of the section that have no place yet, in at most this many steps. It reports whether it
// has decided that, and whether the items can be placed. The failed states of earlier runs on the same placement are
// used; the caller drops those of others.
func (c *completion) run(steps int) (decided, found bool) {
	c.prepare()
	c.steps, c.out = steps, false
	found = c.fill(0)
	return !c.out, found
}

// prepare reads the items and the slots of the partial placement.
func (c *completion) prepare() {
	p := c.partial
	c.classes = len(p.section.Classes) + 1
	c.rows, c.slots, c.left = c.rows[:0], c.slots[:0], c.left[:0]
	for _, class := range p.section.ItemClasses {
		r := completionRow{class: class, amounts: make([]int, c.classes)}
		of := &p.query.ItemClasses[class]
		for k, id := range p.section.Classes {
			r.amounts[k] = of.Amount(id)
		}
		if p.query.Isolate && !of.Unsuffixed {
			r.amounts[c.classes-1] = 1
		}
		for _, i := range of.Items {
			if p.place[i] < 0 {
				r.items = append(r.items, i)
			}
		}
		if len(r.items) > 0 {
			c.rows = append(c.rows, r)
		}
	}
	weight := func(r completionRow) int { return p.query.ItemClasses[r.class].Weight() }
	slices.SortStableFunc(c.rows, func(a, b completionRow) int { return weight(b) - weight(a) })
	for i := range c.rows {
		c.left = append(c.left, len(c.rows[i].items))
	}
	c.prepareSlots()
	for i := range c.rows {
		for j := range c.rows {
			if !slices.ContainsFunc(c.slots, func(s completionSlot) bool { return s.allowed[j] && !s.allowed[i] }) {
				c.rows[i].within = append(c.rows[i].within, j)
			}
		}
	}
	c.free = c.free[:0]
	for range len(c.slots) + 1 {
		c.free = append(c.free, make([]int, c.classes))
	}
	for n := len(c.slots) - 1; n >= 0; n-- {
		for k := range c.classes {
			c.free[n][k] = match.Plus(c.free[n+1][k], c.slots[n].usable[k])
		}
	}
}

// prepareSlots lists the slots on which at least one item fits: those of few rows first, then the small ones.
func (c *completion) prepareSlots() {
	p := c.partial
	for at := range int32(len(p.slots.slots)) {
		s := completionSlot{at: at, room: make([]int, c.classes), allowed: make([]bool, len(c.rows)),
			taken: make([]int, len(c.rows))}
		for k, id := range p.section.Classes {
			s.room[k] = p.rooms(at)[id]
		}
		if !p.busy[at] {
			s.room[c.classes-1] = 1
		}
		for row := range c.rows {
			_, open := slices.BinarySearch(p.domains[p.rows[c.rows[row].class]], at)
			s.allowed[row] = open && c.times(&s, row) > 0
		}
		if slices.Contains(s.allowed, true) {
			c.slots = append(c.slots, s)
		}
	}
	count := func(s completionSlot) (n int) {
		for _, allowed := range s.allowed {
			if allowed {
				n++
			}
		}
		return n
	}
	slices.SortStableFunc(c.slots, func(a, b completionSlot) int {
		if d := count(a) - count(b); d != 0 {
			return d
		}
		if d := slices.Compare(a.room, b.room); d != 0 {
			return d
		}
		return slices.CompareFunc(a.allowed, b.allowed, compareBools)
	})
	for n := range c.slots {
		s := &c.slots[n]
		if s.like = n > 0 && slices.Equal(s.room, c.slots[n-1].room) &&
			slices.Equal(s.allowed, c.slots[n-1].allowed); s.like {
			s.usable = c.slots[n-1].usable
			continue
		}
		s.usable = make([]int, c.classes)
		for k := range c.classes {
			s.usable[k] = c.usable(s, k)
		}
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// usable returns the most units of a class that items can take of a slot together.
func (c *completion) usable(s *completionSlot, class int) int {
	var amounts []int
	for row := range c.rows {
		if n := c.rows[row].amounts[class]; s.allowed[row] && n > 0 {
			for range min(c.left[row], s.room[class]/n) {
				amounts = append(amounts, n)
			}
		}
	}
	return largestSum(amounts, s.room[class])
}

// times returns how many items of a row fit on a slot, at most as many as are left.
func (c *completion) times(s *completionSlot, row int) int {
	n := c.left[row]
	for k, amount := range c.rows[row].amounts {
		if amount > 0 {
			n = min(n, s.room[k]/amount)
		}
	}
	return n
}

// fill places the items that are left on the slots from n on. It reports whether that is possible, and keeps the
// contents in the slots.
func (c *completion) fill(n int) bool {
	if c.steps--; c.steps < 0 || c.stop.stopped() {
		c.out = true
		return false
	}
	if !slices.ContainsFunc(c.left, func(n int) bool { return n > 0 }) {
		return true
	}
	if n == len(c.slots) || !c.possible(n) || c.failed.has(c.state(n)) {
		return false
	}
	slack := make([]int, c.classes)
	copy(slack, c.free[n])
	for row := range c.rows {
		for k, amount := range c.rows[row].amounts {
			slack[k] -= amount * c.left[row]
		}
	}
	s := &c.slots[n]
	content := contentSearch{completion: c, slot: s, at: n, slack: slack, room: slices.Clone(s.room),
		needed: c.needed(n)}
	if content.choose(0) {
		return true
	}
	if !c.out {
		c.failed.add(c.state(n))
	}
	return false
}

// state encodes what a fill depends on.
func (c *completion) state(n int) []byte {
	c.key = binary.AppendUvarint(c.key[:0], uint64(n))
	for _, left := range c.left {
		c.key = binary.AppendUvarint(c.key, uint64(left))
	}
	return c.key
}

// needed returns by row how many items must be placed on slot n at least: all of those that no later slot can take, and
// one of the first row that only slots like this one can take.
func (c *completion) needed(n int) []int {
	needed := make([]int, len(c.rows))
	likeUntil := n + 1
	for likeUntil < len(c.slots) && c.slots[likeUntil].like {
		likeUntil++
	}
	one := false
	for row := range c.rows {
		if c.left[row] == 0 {
			continue
		}
		last := n
		for q := n; q < len(c.slots); q++ {
			if c.slots[q].allowed[row] {
				last = q
			}
		}
		if last == n {
			needed[row] = c.left[row]
		} else if !one && last < likeUntil {
			needed[row], one = 1, true
		}
	}
	return needed
}

// possible reports whether the slots from n on may have room for the items that are left, by counting units and items.
func (c *completion) possible(n int) bool {
	for row := range c.rows {
		if c.left[row] == 0 {
			continue
		}
		for k := range c.classes {
			if !c.enoughUnits(n, row, k) || !c.enoughTimes(n, row, k) {
				return false
			}
		}
	}
	return true
}

// enoughUnits reports whether the slots of a row have as many units of a class as the items need that have no others.
func (c *completion) enoughUnits(n, row, class int) bool {
	need, have := 0, 0
	for _, o := range c.rows[row].within {
		need = match.Plus(need, c.rows[o].amounts[class]*c.left[o])
	}
	if need == 0 {
		return true
	}
	for q := n; q < len(c.slots) && have < need; q++ {
		if c.slots[q].allowed[row] {
			have = match.Plus(have, c.slots[q].usable[class])
		}
	}
	return have >= need
}

// enoughTimes reports whether the slots can give the amount of a row as often as there are items that need as much or
// more.
func (c *completion) enoughTimes(n, row, class int) bool {
	amount := c.rows[row].amounts[class]
	if amount == 0 {
		return true
	}
	need, have := 0, 0
	for o := range c.rows {
		if c.rows[o].amounts[class] >= amount {
			need += c.left[o]
		}
	}
	for q := n; q < len(c.slots) && have < need; q++ {
		have = match.Plus(have, c.slots[q].usable[class]/amount)
	}
	return have >= need
}

// contentSearch tries the contents of one slot.
type contentSearch struct {
	*completion
	slot   *completionSlot
	at     int   // the position of the slot
	slack  []int // by class: how many units may stay unused
	room   []int // by class: what the chosen items leave
	needed []int // by row
}

// choose chooses how many items of the rows from row on are placed, many first. It reports whether the later slots can
// take the others.
func (s *contentSearch) choose(row int) bool {
	if s.steps--; s.steps < 0 || s.stop.stopped() {
		s.out = true
		return false
	}
	if row == len(s.rows) {
		return s.maximal() && s.fill(s.at+1)
	}
	if !s.reaches(row) {
		return false
	}
	most := 0
	if s.slot.allowed[row] {
		most = s.left[row]
		for k, amount := range s.rows[row].amounts {
			if amount > 0 {
				most = min(most, s.room[k]/amount)
			}
		}
	}
	for n := most; n >= s.needed[row]; n-- {
		s.take(row, n)
		if s.choose(row + 1) {
			return true
		}
		s.take(row, -n)
		if s.out {
			return false
		}
	}
	return false
}

// take places n more items of a row on the slot.
func (s *contentSearch) take(row, n int) {
	s.slot.taken[row] += n
	s.left[row] -= n
	for k, amount := range s.rows[row].amounts {
		s.room[k] -= n * amount
	}
}

// reaches reports whether the items of the rows from row on can use as many units as must be used of the slot.
func (s *contentSearch) reaches(row int) bool {
	for k := range s.classes - 1 {
		unused := s.room[k] - (s.slot.room[k] - s.slot.usable[k]) - s.slack[k]
		for o := row; o < len(s.rows) && unused > 0; o++ {
			if s.slot.allowed[o] {
				unused -= s.rows[o].amounts[k] * s.left[o]
			}
		}
		if unused > 0 {
			return false
		}
	}
	return true
}

// maximal reports whether no more items fit on the slot, and not too much stays unused.
func (s *contentSearch) maximal() bool {
	if !s.reaches(len(s.rows)) {
		return false
	}
	for row := range s.rows {
		if s.left[row] == 0 || !s.slot.allowed[row] {
			continue
		}
		fits := true
		for k, amount := range s.rows[row].amounts {
			fits = fits && amount <= s.room[k]
		}
		if fits {
			return false
		}
	}
	return true
}

// copyTo sets the slots of the items that were placed.
func (c *completion) copyTo(witness []int32) {
	used := make([]int, len(c.rows))
	for n := range c.slots {
		for row, taken := range c.slots[n].taken {
			for range taken {
				witness[c.rows[row].items[used[row]]] = c.slots[n].at
				used[row]++
			}
		}
	}
}
