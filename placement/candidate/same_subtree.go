package candidate

import "slices"

// narrowDomains removes from the domains what the same_subtree clauses exclude from the start: a slot stays only if it
// is under a possible common ancestor of each clause of its item class. One clause may exclude what another relied on,
// so this is repeated until nothing changes.
func (p *partial) narrowDomains() {
	var kept []int32
	for again := true; again; {
		again = false
		for _, clause := range p.section.Clauses {
			rows := p.rowsOf(p.query.Subtrees[clause])
			for _, row := range rows {
				kept = kept[:0] // not in place, because allowed reads the domain as it was
				for _, at := range p.domains[row] {
					if p.allowed(rows, row, at) {
						kept = append(kept, at)
					}
				}
				again = again || len(kept) < len(p.domains[row])
				p.domains[row] = append(p.domains[row][:0], kept...)
			}
		}
	}
}

// rowsOf returns the rows of items; a row of several items is listed twice.
func (p *partial) rowsOf(items []int) []int {
	var once, twice []int
	for _, i := range items {
		row := p.rows[p.query.Items[i].Class]
		switch {
		case !slices.Contains(once, row):
			once = append(once, row)
		case !slices.Contains(twice, row):
			twice = append(twice, row)
		}
	}
	return append(once, twice...)
}

// allowed reports whether a clause on these rows leaves the slot to an item of one of the rows, as far as the domains
// show.
func (p *partial) allowed(rows []int, row int, at int32) bool {
	for top := range int32(len(p.slots.slots)) {
		if !p.slots.under(top, at) {
			continue
		}
		onTop, fits, itself := at == top, true, false
		for _, o := range rows {
			if o == row && !itself {
				itself = true
				continue
			}
			_, found := slices.BinarySearch(p.domains[o], top)
			onTop = onTop || found
			fits = fits && slices.ContainsFunc(p.domains[o], func(s int32) bool { return p.slots.under(top, s) })
		}
		if onTop && fits {
			return true
		}
	}
	return false
}

// subtreesPossible reports whether the clauses of an item, just placed, can still be met: each has a possible common
// ancestor above the item.
func (p *partial) subtreesPossible(i int) bool {
	for _, clause := range p.classOf(i).Subtrees {
		met := false
		for top := range int32(len(p.slots.slots)) {
			if p.slots.under(top, p.place[i]) && p.canBeCommonAncestor(top, p.query.Subtrees[clause]) {
				met = true
				break
			}
		}
		if !met {
			return false
		}
	}
	return true
}

// canBeCommonAncestor reports whether all items of a clause can be placed under a slot, and one of them on it.
func (p *partial) canBeCommonAncestor(top int32, items []int) bool {
	onTop, before := false, -1
	for _, o := range items {
		if at := p.place[o]; at >= 0 {
			if !p.slots.under(top, at) {
				return false
			}
			onTop = onTop || at == top
			continue
		}
		class := p.query.Items[o].Class
		if class == before {
			continue // the same as the item before
		}
		before = class
		reachable := false
		for _, s := range p.domain(o) {
			if p.slots.under(top, s) && p.fits(p.classOf(o), s) {
				reachable = true
				onTop = onTop || s == top
			}
		}
		if !reachable {
			return false
		}
	}
	return onTop
}
