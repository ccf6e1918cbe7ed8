package candidate

// transport is a maximum flow from rows (item classes) to slots that each take a fixed number of units, whichever row
// they are of. All units fit if and only if no set of rows has more units than the slots of its domains can take (Hall,
// Gale); augmenting paths decide that. Equal items are one row with a count, so their permutations are never tried.
type transport struct {
	domains [][]int32 // by row
	cap     []int     // by slot: how many units it can take
	load    []int     // by slot: how many units it has
	held    []int     // by slot: how many of these are fixed
	units   []int     // by row and slot
	fixed   []int     // by row and slot: how many of these are fixed
	seen    []bool    // by row
}

// clear empties the transport for this number of slots and one row for each domain. The caller sets cap.
func (t *transport) clear(slots int) {
	rows := len(t.domains)
	t.cap, t.load, t.held = zeros(t.cap, slots), zeros(t.load, slots), zeros(t.held, slots)
	t.units, t.fixed = zeros(t.units, slots*rows), zeros(t.fixed, slots*rows)
	t.seen = zeros(t.seen, rows)
}

// carry places n more units of a row. It reports whether there is room for all of them.
func (t *transport) carry(row, n int) bool {
	for range n {
		clear(t.seen)
		if !t.augment(row) {
			return false
		}
	}
	return true
}

// augment places one more unit of a row and moves others if that is needed. It reports whether there is room.
func (t *transport) augment(row int) bool {
	t.seen[row] = true
	for _, at := range t.domains[row] {
		if t.load[at] < t.cap[at] {
			t.add(row, int(at), 1)
			return true
		}
	}
	for _, at := range t.domains[row] {
		if t.displace(int(at)) {
			t.add(row, int(at), 1)
			return true
		}
	}
	return false
}

// displace moves one unit that is not fixed from a slot to another. It reports whether it could.
func (t *transport) displace(at int) bool {
	for row := range t.seen {
		if !t.seen[row] && t.hasLoose(row, at) && t.augment(row) {
			t.add(row, at, -1)
			return true
		}
	}
	return false
}

func (t *transport) add(row, at, n int) {
	t.units[row*len(t.load)+at] += n
	t.load[at] += n
}

// hasLoose reports whether a slot has a unit of the row that is not fixed.
func (t *transport) hasLoose(row, at int) bool {
	i := row*len(t.load) + at
	return t.units[i] > t.fixed[i]
}

// fix keeps one loose unit of the row at the slot until release. It reports false, and changes nothing, if the others
// would not fit any more.
func (t *transport) fix(row, at int) bool {
	if t.held[at] >= t.cap[at] {
		return false
	}
	if !t.hasLoose(row, at) && !t.fetch(row, at) {
		return false
	}
	t.fixed[row*len(t.load)+at]++
	t.held[at]++
	return true
}

// fetch moves a loose unit of the row to the slot. It reports whether it could.
func (t *transport) fetch(row, at int) bool {
	from := -1
	for _, o := range t.domains[row] {
		if t.hasLoose(row, int(o)) {
			from = int(o)
			break
		}
	}
	t.add(row, from, -1)
	if t.load[at] >= t.cap[at] {
		clear(t.seen)
		if !t.displace(at) {
			t.add(row, from, 1)
			return false
		}
	}
	t.add(row, at, 1)
	return true
}

// unfix undoes fix.
func (t *transport) unfix(row, at int) {
	t.fixed[row*len(t.load)+at]--
	t.held[at]--
}
