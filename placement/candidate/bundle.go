package candidate

import "slices"

// bundles is the bound for same_subtree. Items that clauses tie together, directly or through others, are a bundle. A
// region is the subtree of a topmost provider that can be the top of some clause; regions do not overlap, and each
// bundle lies in one region as a whole. So how many bundles a region can take is limited by what is scarcest in it, and
// whether all find a region is a matter of counting again.
type bundles struct {
	section *section
	sets    [][]int // by bundle: its items
	demands [][]demand
	region  []int32 // by spot: its region, or -1
	count   int     // of regions
	waiting []int   // the bundles of which nothing is placed yet
	flow    transport
}

// demand is what a bundle asks of one class of the section.
type demand struct{ units, items, least int }

func newBundles(p *plan, s *section) *bundles {
	b := &bundles{section: s}
	var left [][]int
	for _, c := range s.clauses {
		left = append(left, slices.Clone(p.subtrees[c]))
	}
	for len(left) > 0 {
		set := left[0]
		left = left[1:]
		for i := 0; i < len(left); i++ {
			if slices.ContainsFunc(left[i], func(item int) bool { return slices.Contains(set, item) }) {
				set = append(set, left[i]...)
				left = slices.Delete(left, i, i+1)
				i = -1
			}
		}
		slices.Sort(set)
		b.sets = append(b.sets, slices.Compact(set))
	}
	for _, set := range b.sets {
		demands := make([]demand, len(s.classes))
		for _, i := range set {
			for c, class := range s.classes {
				if n := p.kinds[p.items[i].kind].amount(class); n > 0 {
					d := &demands[c]
					if d.items == 0 || n < d.least {
						d.least = n
					}
					d.units, d.items = d.units+n, d.items+1
				}
			}
		}
		b.demands = append(b.demands, demands)
	}
	return b
}

// reset finds the regions of a host, before anything is placed.
func (b *bundles) reset(s *search) {
	var tops []int32
	for top := range int32(len(s.host.spots)) {
		above := func(o int32) bool { return s.host.under(o, top) }
		roof := func(c int) bool { return s.roofs(top, s.plan.subtrees[c]) }
		if slices.ContainsFunc(b.section.clauses, roof) && !slices.ContainsFunc(tops, above) {
			tops = append(slices.DeleteFunc(tops, func(o int32) bool { return s.host.under(top, o) }), top)
		}
	}
	b.count = len(tops)
	b.region = b.region[:0]
	for at := range int32(len(s.host.spots)) {
		b.region = append(b.region, int32(slices.IndexFunc(tops, func(top int32) bool { return s.host.under(top, at) })))
	}
}

// holds says whether the bundles of which nothing is placed could each have a region.
func (b *bundles) holds(s *search) bool {
	b.waiting = b.waiting[:0]
	for n, set := range b.sets {
		if !slices.ContainsFunc(set, func(i int) bool { return s.place[i] >= 0 }) {
			b.waiting = append(b.waiting, n)
		}
	}
	if len(b.waiting) == 0 {
		return true
	}
	for c := range b.section.classes {
		if !b.spread(s, c) {
			return false
		}
	}
	return true
}

// spread says whether the waiting bundles that ask a class fit into the regions.
func (b *bundles) spread(s *search, class int) bool {
	var asking []int
	for _, n := range b.waiting {
		if b.demands[n][class].units > 0 {
			asking = append(asking, n)
		}
	}
	if len(asking) == 0 {
		return true
	}
	b.flow.domains = make([][]int32, len(asking))
	b.flow.clear(b.count)
	for r := range b.count {
		b.flow.cap[r] = b.takes(s, asking, int32(r))
	}
	for row, n := range asking {
		for r := range int32(b.count) {
			if b.flow.cap[r] > 0 && b.open(s, n, r) {
				b.flow.domains[row] = append(b.flow.domains[row], r)
			}
		}
	}
	for row := range asking {
		if !b.flow.carry(row, 1) {
			return false
		}
	}
	return true
}

// takes limits how many of these bundles a region can take: by each class that all of them ask, and by its providers
// when each may be taken but once.
func (b *bundles) takes(s *search, asking []int, region int32) int {
	most, smallest := len(asking), len(s.plan.items)
	for _, n := range asking {
		smallest = min(smallest, len(b.sets[n]))
	}
	for c, class := range b.section.classes {
		least := b.demands[asking[0]][c]
		for _, n := range asking {
			d := b.demands[n][c]
			least = demand{min(least.units, d.units), min(least.items, d.items), min(least.least, d.least)}
		}
		if least.units == 0 {
			continue
		}
		units, items := 0, 0
		for at, r := range b.region {
			if r == region {
				units += s.rooms(int32(at))[class]
				items += s.rooms(int32(at))[class] / least.least
			}
		}
		most = min(most, units/least.units, items/least.items)
	}
	if s.plan.isolate {
		free := 0
		for at, r := range b.region {
			if r == region && !s.busy[at] {
				free++
			}
		}
		most = min(most, free/smallest)
	}
	return most
}

// open says whether each item of a bundle has a spot with room in the region.
func (b *bundles) open(s *search, bundle int, region int32) bool {
	for _, i := range b.sets[bundle] {
		if !slices.ContainsFunc(s.domain(i), func(at int32) bool { return b.region[at] == region && s.takes(s.kind(i), at) }) {
			return false
		}
	}
	return true
}
