package candidate

import "slices"

// under says whether a spot lies in the subtree of another, or is the same.
func (h *host) under(top, at int32) bool {
	t, a := &h.spots[top], &h.spots[at]
	return t.Tree == a.Tree && t.At <= a.At && a.At < int(t.Node().End)
}

// narrow takes from the domains what the same_subtree clauses rule out from the start: a spot stays only if it lies
// under a possible top of each clause of its kind. One clause may rule out what another built on, hence the
// repetition.
func (s *search) narrow() {
	for again := true; again; {
		again = false
		for _, clause := range s.section.clauses {
			rows := s.rowsOf(s.plan.subtrees[clause])
			for _, row := range rows {
				s.kept = s.kept[:0] // apart, since allowed looks at the domain as it was
				for _, at := range s.domains[row] {
					if s.allowed(rows, row, at) {
						s.kept = append(s.kept, at)
					}
				}
				again = again || len(s.kept) < len(s.domains[row])
				s.domains[row] = append(s.domains[row][:0], s.kept...)
			}
		}
	}
}

// rowsOf lists the rows of items, one that several items have twice.
func (s *search) rowsOf(items []int) []int {
	var once, twice []int
	for _, i := range items {
		row := s.rows[s.plan.items[i].kind]
		switch {
		case !slices.Contains(once, row):
			once = append(once, row)
		case !slices.Contains(twice, row):
			twice = append(twice, row)
		}
	}
	return append(once, twice...)
}

// allowed says whether the clause of items in these rows leaves an item of one of the rows the spot, as far as domains tell.
func (s *search) allowed(rows []int, row int, at int32) bool {
	for top := range int32(len(s.host.spots)) {
		if !s.host.under(top, at) {
			continue
		}
		held, fits, itself := at == top, true, false
		for _, o := range rows {
			if o == row && !itself {
				itself = true
				continue
			}
			_, onTop := slices.BinarySearch(s.domains[o], top)
			held = held || onTop
			fits = fits && slices.ContainsFunc(s.domains[o], func(p int32) bool { return s.host.under(top, p) })
		}
		if held && fits {
			return true
		}
	}
	return false
}

// together says whether the clauses of an item, just placed, can still be met: some spot has all placed items of the
// clause under it, somewhere for each of the others, and one of either kind upon itself.
func (s *search) together(i int) bool {
	for _, clause := range s.kind(i).subtrees {
		met := false
		for top := range int32(len(s.host.spots)) {
			if s.host.under(top, s.place[i]) && s.roofs(top, s.plan.subtrees[clause]) {
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

// roofs says whether a spot may be the top of a clause's items.
func (s *search) roofs(top int32, items []int) bool {
	held, before := false, -1
	for _, o := range items {
		if at := s.place[o]; at >= 0 {
			if !s.host.under(top, at) {
				return false
			}
			held = held || at == top
			continue
		}
		if kind := s.plan.items[o].kind; kind == before {
			continue // just like the one before
		} else {
			before = kind
		}
		reachable := false
		for _, p := range s.domain(o) {
			if s.host.under(top, p) && s.takes(s.kind(o), p) {
				reachable = true
				held = held || p == top
			}
		}
		if !reachable {
			return false
		}
	}
	return held
}
