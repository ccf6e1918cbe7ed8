package candidate

// transport carries units from rows (kinds of items) to spots that each take a fixed number, whichever row they are
// of. All units fit if and only if no set of rows has more than the spots of its domains can take (Hall, Gale);
// augmenting paths find that out. Equal items are one row with a count, so their permutations are never looked at.
type transport struct {
	domains [][]int32 // by row
	cap     []int     // by spot: how many units it can take
	load    []int     // by spot: how many it has
	held    []int     // by spot: how many of these are fixed
	units   []int     // by row and spot
	fixed   []int     // likewise: how many of these are fixed
	seen    []bool    // by row
}

// clear makes it empty, for so many spots and as many rows as there are domains. The caller sets cap.
func (t *transport) clear(spots int) {
	rows := len(t.domains)
	t.cap, t.load, t.held = zeros(t.cap, spots), zeros(t.load, spots), zeros(t.held, spots)
	t.units, t.fixed = zeros(t.units, spots*rows), zeros(t.fixed, spots*rows)
	t.seen = zeros(t.seen, rows)
}

func zeros[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// carry finds room for n more units of a row.
func (t *transport) carry(row, n int) bool { return t.bear(row, n) == n }

// bear finds room for as many of n more units of a row as it can.
func (t *transport) bear(row, n int) int {
	for i := range n {
		clear(t.seen)
		if !t.augment(row) {
			return i
		}
	}
	return n
}

// augment finds room for one more unit, moving others where that helps. When it fails, the rows seen are those that
// compete, and all spots of their domains are full of them.
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

// displace moves one unit that is not fixed from a spot to elsewhere.
func (t *transport) displace(at int) bool {
	for row := range t.seen {
		if !t.seen[row] && t.loose(row, at) && t.augment(row) {
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

// loose says whether a spot has a unit of the row that is not fixed.
func (t *transport) loose(row, at int) bool {
	i := row*len(t.load) + at
	return t.units[i] > t.fixed[i]
}

// fix makes one loose unit of the row stay at the spot for good, if all others still fit then.
func (t *transport) fix(row, at int) bool {
	if t.held[at] >= t.cap[at] {
		return false
	}
	if !t.loose(row, at) && !t.fetch(row, at) {
		return false
	}
	t.fixed[row*len(t.load)+at]++
	t.held[at]++
	return true
}

// fetch moves a loose unit of the row to the spot.
func (t *transport) fetch(row, at int) bool {
	from := -1
	for _, o := range t.domains[row] {
		if t.loose(row, int(o)) {
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

// loosen undoes fix.
func (t *transport) loosen(row, at int) {
	t.fixed[row*len(t.load)+at]--
	t.held[at]--
}

// flow decides a section in which each spot can take a fixed number of items. Its witness is a transport.
type flow struct {
	transport
	plan    *plan
	section *section
	rows    []int // by kind of the plan
	missing int   // after solve has failed: how many items of the row that failed found no room
}

func newFlow(p *plan, s *section) *flow {
	f := &flow{plan: p, section: s, rows: make([]int, len(p.kinds))}
	f.domains = make([][]int32, len(s.kinds))
	for row, k := range s.kinds {
		f.rows[k] = row
	}
	return f
}

func (f *flow) reset(h *host) {
	f.clear(len(h.spots))
	for row, k := range f.section.kinds {
		f.domains[row] = h.domains[k]
		for _, at := range h.domains[k] {
			f.cap[at] = f.capacity(h, int(at), &f.plan.kinds[k])
		}
	}
}

func (f *flow) capacity(h *host, at int, k *kind) int {
	if f.plan.isolate && !k.spread {
		return 1
	}
	n := len(f.section.items)
	for _, need := range k.needs {
		n = min(n, h.left(at, need.class)/need.amount)
	}
	return n
}

func (f *flow) solve() bool {
	for row, k := range f.section.kinds {
		items := len(f.plan.kinds[k].items)
		if f.missing = items - f.bear(row, items); f.missing > 0 {
			return false
		}
	}
	return true
}

func (f *flow) force(item, at int) bool { return f.fix(f.rows[f.plan.items[item].kind], at) }

func (f *flow) release(item, at int) { f.loosen(f.rows[f.plan.items[item].kind], at) }
