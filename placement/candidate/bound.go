package candidate

import "slices"

// bound says cheaply that what is left of a search cannot succeed. It counts: for each class, could the items that
// ask it be spread over their spots if each asked only the smallest amount; are there units enough at all; with the
// policy to isolate, are there providers enough. It may say yes where the answer is no, never the other way round.
type bound struct {
	flow    transport
	kinds   []int // as in the section
	left    []int // by row: how many items are to be placed
	open    [][]int32
	common  [][]int // by class of the section: the classes that all kinds asking it ask
	bundles *bundles
}

func newBound(p *plan, s *section) bound {
	b := bound{kinds: s.kinds, left: make([]int, len(s.kinds)), open: make([][]int32, len(s.kinds)),
		bundles: newBundles(p, s)}
	for _, c := range s.classes {
		var common []int
		for _, other := range s.classes {
			together := true
			for _, k := range s.kinds {
				together = together && (p.kinds[k].amount(c) == 0 || p.kinds[k].amount(other) > 0)
			}
			if together {
				common = append(common, other)
			}
		}
		b.common = append(b.common, common)
	}
	return b
}

// amount is what an item of the kind asks of a class.
func (k *kind) amount(class int) int {
	for _, n := range k.needs {
		if n.class == class {
			return n.amount
		}
	}
	return 0
}

func (b *bound) holds(s *search) bool {
	if !b.look(s) || s.section.covers && !b.covers(s) {
		return false
	}
	for i, c := range s.section.classes {
		asks := func(k *kind) bool { return k.amount(c) > 0 }
		if !b.units(s, c) || !b.count(s, asks, func(at int32) int { return b.times(s, at, b.common[i]) }) {
			return false
		}
	}
	suffixed := func(k *kind) bool { return !k.spread }
	if s.plan.isolate && !b.count(s, suffixed, func(int32) int { return 1 }) {
		return false
	}
	return b.bundles.holds(s)
}

// look finds what is left and where it could go; it says whether each kind has somewhere to go.
func (b *bound) look(s *search) bool {
	for row, k := range b.kinds {
		b.left[row], b.open[row] = 0, b.open[row][:0]
		for _, i := range s.plan.kinds[k].items {
			if s.place[i] < 0 {
				b.left[row]++
			}
		}
		if b.left[row] == 0 {
			continue
		}
		for _, at := range s.domains[row] {
			if s.takes(&s.plan.kinds[k], at) {
				b.open[row] = append(b.open[row], at)
			}
		}
		if len(b.open[row]) == 0 {
			return false
		}
	}
	return true
}

// covers says whether each required set of the unsuffixed group is met, or could still be.
func (b *bound) covers(s *search) bool {
	for set := range s.plan.cover {
		if s.covered(set) {
			continue
		}
		met, covers := false, func(at int32) bool { return s.covers(at, set) }
		for row, k := range b.kinds {
			met = met || s.plan.kinds[k].spread && slices.ContainsFunc(b.open[row], covers)
		}
		if !met {
			return false
		}
	}
	return true
}

// units compares what is asked of a class with what the spots have.
func (b *bound) units(s *search, class int) bool {
	asked, free := 0, 0
	counted := make([]bool, len(s.host.spots))
	for row, k := range b.kinds {
		amount := s.plan.kinds[k].amount(class)
		if amount == 0 {
			continue
		}
		asked += amount * b.left[row]
		for _, at := range b.open[row] {
			if !counted[at] {
				counted[at] = true
				free += s.rooms(at)[class]
			}
		}
	}
	return asked <= free
}

// times is how often a spot can give the smallest amounts that are asked of these classes.
func (b *bound) times(s *search, at int32, classes []int) int {
	n := len(s.plan.items)
	for _, c := range classes {
		least := 0
		for row, k := range b.kinds {
			if amount := s.plan.kinds[k].amount(c); amount > 0 && b.left[row] > 0 && (least == 0 || amount < least) {
				least = amount
			}
		}
		if least > 0 {
			n = min(n, s.rooms(at)[c]/least)
		}
	}
	return n
}

// count says whether the items of some kinds fit when a spot takes so many of them.
func (b *bound) count(s *search, counts func(*kind) bool, capacity func(int32) int) bool {
	b.flow.domains = b.open
	b.flow.clear(len(s.host.spots))
	for row, k := range b.kinds {
		if !counts(&s.plan.kinds[k]) {
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
