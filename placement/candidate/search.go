package candidate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// search decides a section in which counting alone does not: different amounts of one class, same_subtree, traits that
// the providers of the unsuffixed group must have between them. It tries, but never what the bound already excludes,
// never one of two spots that are alike after the other has failed, and never a state twice.
type search struct {
	plan    *plan
	section *section
	host    *host
	rows    []int     // by kind of the plan: its position in the section
	domains [][]int32 // by kind of the section: the host's, less what the same_subtree clauses rule out from the start
	order   []int     // the items, in the order of placing
	room    []int     // by spot and class: what the items placed leave
	busy    []bool    // by spot: an isolated item is there
	place   []int32   // by item of the plan: its spot, or -1
	fixed   []bool    // by item
	witness []int32   // by item
	alike   []int32   // by spot: the first spot that nothing tells from it
	kept    []int32   // of narrow
	failed  memory
	careful bool
	bound   bound
}

func newSearch(p *plan, s *section) *search {
	n := len(p.items)
	out := &search{plan: p, section: s, rows: make([]int, len(p.kinds)), domains: make([][]int32, len(s.kinds)),
		place: make([]int32, n), fixed: make([]bool, n), witness: make([]int32, n),
		bound: newBound(p, s)}
	for row, k := range s.kinds {
		out.rows[k] = row
	}
	return out
}

func (s *search) reset(h *host) {
	s.host = h
	s.room = append(s.room[:0], h.room...)
	s.busy = zeros(s.busy, len(h.spots))
	for i := range s.place {
		s.place[i], s.fixed[i], s.witness[i] = -1, false, -1
	}
	for row, k := range s.section.kinds {
		s.domains[row] = append(s.domains[row][:0], h.domains[k]...)
	}
	s.narrow()
	s.arrange()
	s.compare()
	s.bound.bundles.reset(s)
}

// arrange orders the items: clause by clause, those with the fewest spots first, then those that ask most.
func (s *search) arrange() {
	s.order = append(s.order[:0], s.section.items...)
	slices.SortStableFunc(s.order, func(a, b int) int {
		ka, kb := s.kind(a), s.kind(b)
		if c := len(kb.subtrees) - len(ka.subtrees); c != 0 && len(ka.subtrees)*len(kb.subtrees) == 0 {
			return c
		}
		if c := slices.Compare(ka.subtrees, kb.subtrees); c != 0 {
			return c
		}
		if c := len(s.domain(a)) - len(s.domain(b)); c != 0 {
			return c
		}
		if c := kb.weight() - ka.weight(); c != 0 {
			return c
		}
		return s.plan.items[a].kind - s.plan.items[b].kind
	})
}

func (s *search) kind(item int) *kind { return &s.plan.kinds[s.plan.items[item].kind] }

func (s *search) domain(item int) []int32 { return s.domains[s.rows[s.plan.items[item].kind]] }

// weight is how much a kind asks.
func (k *kind) weight() int {
	n := 0
	for _, need := range k.needs {
		n = plus(n, need.amount)
	}
	return n
}

// compare finds the spots that are alike: in the same domains, and with the same traits as far as they matter between
// providers. With same_subtree the place in the tree tells any two apart.
func (s *search) compare() {
	s.alike = s.alike[:0]
	for at := range int32(len(s.host.spots)) {
		first := at
		for o := int32(0); o < at && len(s.section.clauses) == 0; o++ {
			if s.alike[o] == o && s.same(o, at) {
				first = o
				break
			}
		}
		s.alike = append(s.alike, first)
	}
}

func (s *search) same(a, b int32) bool {
	for _, domain := range s.domains {
		if slices.Contains(domain, a) != slices.Contains(domain, b) {
			return false
		}
	}
	if s.section.covers {
		for set := range s.plan.cover {
			if s.covers(a, set) != s.covers(b, set) {
				return false
			}
		}
	}
	return true
}

// covers says whether a spot has one of the traits of a required set of the unsuffixed group.
func (s *search) covers(at int32, set int) bool {
	return slices.ContainsFunc(s.plan.cover[set], s.host.spots[at].Node().HasTrait)
}

// covered says whether an item of the unsuffixed group stands on such a spot.
func (s *search) covered(set int) bool {
	return slices.ContainsFunc(s.section.items, func(i int) bool {
		return s.place[i] >= 0 && s.kind(i).spread && s.covers(s.place[i], set)
	})
}

func (s *search) solve() bool {
	s.careful = false
	found := s.dash() || s.bound.holds(s) && s.try(0)
	s.failed.forget()
	return found
}

// memory is the states that a search has failed in, as digests: two that are the same by accident are as unlikely as it gets.
// It is bounded. When it is full, it forgets everything and begins anew: what was forgotten is tried again if it comes up,
// so that costs time and nothing else.
type memory struct {
	states map[[16]byte]struct{}
	most   int // 0: mostStates
}

// mostStates is how many states are remembered: a few megabytes.
const mostStates = 1 << 16

func (m *memory) has(state []byte) bool {
	if len(m.states) == 0 {
		return false
	}
	_, known := m.states[digest(state)]
	return known
}

func (m *memory) add(state []byte) {
	if m.states == nil {
		m.states = map[[16]byte]struct{}{}
	}
	if len(m.states) >= cmp.Or(m.most, mostStates) {
		clear(m.states)
	}
	m.states[digest(state)] = struct{}{}
}

// forget drops all, and gives back what a large memory takes.
func (m *memory) forget() {
	if len(m.states) > 1024 {
		m.states = nil
	}
	clear(m.states)
}

func digest(state []byte) [16]byte {
	sum := sha256.Sum256(state)
	return [16]byte(sum[:])
}

// dash places each item on the first spot that takes it and never looks back. Where there is plenty, that is all it takes.
func (s *search) dash() bool {
	placed, fits := 0, true
	for ; placed < len(s.order) && fits; placed++ {
		if i := s.order[placed]; !s.fixed[i] {
			fits = slices.ContainsFunc(s.domain(i), func(at int32) bool { return s.settle(i, at) })
		}
	}
	fits = fits && s.complete()
	if fits {
		copy(s.witness, s.place)
	}
	for _, i := range s.order[:placed] {
		if at := s.place[i]; at >= 0 && !s.fixed[i] {
			s.take(i, at)
		}
	}
	return fits
}

// settle places an item if there is room and its clauses can still be met.
func (s *search) settle(i int, at int32) bool {
	if !s.put(i, at) {
		return false
	}
	if s.together(i) {
		return true
	}
	s.take(i, at)
	return false
}

// try places the items from depth on and keeps the first full placement as the witness. It goes straight on until it
// fails for the first time; from then on it asks the bound and remembers what failed at each step.
func (s *search) try(depth int) bool {
	for depth < len(s.order) && s.fixed[s.order[depth]] {
		depth++
	}
	if depth == len(s.order) {
		if !s.complete() {
			return false
		}
		copy(s.witness, s.place)
		return true
	}
	if s.careful && (s.plan.stopped() || !s.bound.holds(s) || s.failed.has(s.state(depth))) {
		return false
	}
	i := s.order[depth]
	for d, at := range s.domain(i) {
		if s.repeats(s.domain(i)[:d], at) || !s.put(i, at) {
			continue
		}
		done := s.together(i) && s.try(depth+1)
		s.take(i, at)
		if done {
			return true
		}
	}
	s.careful = true
	s.failed.add(s.state(depth))
	return false
}

// complete says whether the providers of the unsuffixed group have all required traits between them, all being placed.
func (s *search) complete() bool {
	for set := range s.plan.cover {
		if s.section.covers && !s.covered(set) {
			return false
		}
	}
	return true
}

// repeats says whether one of the spots already tried is just like this one.
func (s *search) repeats(tried []int32, at int32) bool {
	return s.alike[at] != at && slices.ContainsFunc(tried, func(o int32) bool {
		return s.alike[o] == s.alike[at] && s.busy[o] == s.busy[at] && slices.Equal(s.rooms(o), s.rooms(at))
	})
}

// rooms is what is left of each class on a spot.
func (s *search) rooms(at int32) []int {
	n := len(s.plan.classes)
	return s.room[int(at)*n : int(at+1)*n]
}

// takes says whether there is room for an item of the kind on a spot of its domain.
func (s *search) takes(k *kind, at int32) bool {
	if s.plan.isolate && !k.spread && s.busy[at] {
		return false
	}
	rooms := s.rooms(at)
	for _, need := range k.needs {
		if rooms[need.class] < need.amount {
			return false
		}
	}
	return true
}

// put places an item if there is room.
func (s *search) put(i int, at int32) bool {
	k := s.kind(i)
	if !s.takes(k, at) {
		return false
	}
	for _, need := range k.needs {
		s.rooms(at)[need.class] -= need.amount
	}
	s.busy[at] = s.busy[at] || s.plan.isolate && !k.spread
	s.place[i] = at
	return true
}

// take undoes put.
func (s *search) take(i int, at int32) {
	k := s.kind(i)
	for _, need := range k.needs {
		s.rooms(at)[need.class] += need.amount
	}
	if s.plan.isolate && !k.spread {
		s.busy[at] = false
	}
	s.place[i] = -1
}

// state names all that the rest of a search depends on: which items are left, what is left on the spots, the traits
// still missing, and where the items of unfinished clauses stand. Spots that are alike may change places.
func (s *search) state(depth int) []byte {
	var spots []string
	for at := range int32(len(s.host.spots)) {
		spot := binary.AppendUvarint(nil, uint64(s.alike[at]))
		for _, c := range s.section.classes {
			spot = binary.AppendUvarint(spot, uint64(s.rooms(at)[c]))
		}
		if s.busy[at] {
			spot = append(spot, 1)
		}
		spots = append(spots, string(spot))
	}
	if len(s.section.clauses) == 0 {
		slices.Sort(spots)
	}
	key := binary.AppendUvarint(nil, uint64(depth))
	for _, spot := range spots {
		key = append(binary.AppendUvarint(key, uint64(len(spot))), spot...)
	}
	for set := range s.plan.cover {
		if s.section.covers && s.covered(set) {
			key = binary.AppendUvarint(key, uint64(set))
		}
	}
	for _, clause := range s.section.clauses {
		items := s.plan.subtrees[clause]
		if slices.ContainsFunc(items, func(i int) bool { return s.place[i] < 0 }) {
			for _, i := range items {
				key = binary.AppendVarint(key, int64(s.place[i]))
			}
		}
	}
	return key
}

func (s *search) force(i, at int) bool {
	s.fixed[i] = true
	if int(s.witness[i]) == at || s.swap(i, int32(at)) {
		s.put(i, int32(at))
		return true
	}
	if !s.plan.stopped() && s.put(i, int32(at)) {
		if s.together(i) && s.solve() {
			return true
		}
		s.take(i, int32(at))
	}
	s.fixed[i] = false
	return false
}

// swap exchanges the item in the witness with another of its kind that stands at the spot.
func (s *search) swap(i int, at int32) bool {
	for _, o := range s.kind(i).items {
		if !s.fixed[o] && s.witness[o] == at {
			s.witness[i], s.witness[o] = at, s.witness[i]
			return true
		}
	}
	return false
}

func (s *search) release(i, at int) {
	s.take(i, int32(at))
	s.fixed[i] = false
}
