package plantest

import (
	"maps"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
)

// Quality is what plans are compared by: as many devices of the first rank as possible, then of the second, then the
// smallest sum of Later.
type Quality struct{ First, Second, Later int }

// Better reports whether a plan of quality q is better than one of quality o.
func (q Quality) Better(o Quality) bool {
	if q.First != o.First {
		return q.First > o.First
	}
	if q.Second != o.Second {
		return q.Second > o.Second
	}
	return q.Later < o.Later
}

// BruteForce tries everything: each order of nodes for the cells, and each single device for each place in a request.
type BruteForce struct {
	Host  plan.Host
	Guest plan.Guest
}

// NodeSets returns the sets of nodes on which the cells of the guest fit, ascending each, those of the first cells of
// the host first. A guest without cells has one empty set.
func (b BruteForce) NodeSets() (list [][]int) {
	if len(b.Guest.Nodes) > 0 {
		return [][]int{b.Guest.Nodes}
	}
	cells, fits := b.Host.Room.Cells, make([][]bool, len(b.Guest.Cells))
	for i, g := range b.Guest.Cells {
		for _, c := range cells {
			fits[i] = append(fits[i], CellFits(c, g, b.Host.Room.Limits))
		}
	}
	sets := map[string][]int{} // of indexes, by their text
	var order func(chosen []int)
	order = func(chosen []int) {
		if len(chosen) == len(b.Guest.Cells) {
			set := slices.Sorted(slices.Values(chosen))
			sets[string(runes(set))] = set
			return
		}
		for n := range cells {
			if !slices.Contains(chosen, n) && fits[len(chosen)][n] {
				order(append(slices.Clone(chosen), n))
			}
		}
	}
	order(nil)
	for _, set := range slices.SortedFunc(maps.Values(sets), slices.Compare) {
		var nodes []int
		for _, n := range set {
			nodes = append(nodes, cells[n].ID)
		}
		slices.Sort(nodes)
		list = append(list, nodes)
	}
	return list
}

// Fits reports whether the guest fits on the host.
func (b BruteForce) Fits() bool {
	for r, request := range b.Guest.Requests {
		there := 0
		for _, d := range b.Host.Devices {
			if d.Fits[r] {
				there++
			}
		}
		if there < request.Count {
			return false
		}
	}
	return slices.ContainsFunc(b.NodeSets(), func(nodes []int) bool {
		_, fits := b.BestOfMany(nodes)
		return fits
	})
}

func runes(list []int) (out []rune) {
	for _, n := range list {
		out = append(out, rune(n))
	}
	return out
}

// Wanted returns how many devices the guest requests.
func (b BruteForce) Wanted() int { return WantedOf(b.Guest) }

// WantedOf returns how many devices a guest requests.
func WantedOf(g plan.Guest) (sum int) {
	for _, r := range g.Requests {
		sum += r.Count
	}
	return sum
}

// RankOf returns the rank of a device for a guest on nodes, or -1: the table of numa.Rank for its nearest nodes.
func RankOf(d plan.Device, policy pci.NUMAPolicy, nodes []int) int {
	if len(nodes) == 0 {
		return numa.Local
	}
	for _, n := range nodes {
		if slices.Contains(d.Near, n) {
			return numa.Local
		}
	}
	switch policy {
	case pci.Preferred:
		if d.Near == nil {
			return numa.Fair
		}
		return numa.Distant
	case pci.Legacy, "":
		if d.Near == nil {
			return numa.Fair
		}
	case pci.Socket:
		for _, n := range nodes {
			if slices.Contains(d.Beside, n) {
				return numa.Fair
			}
		}
	}
	return -1
}

// part is a number of devices that one request gives to one set, or all of a request that is in no set.
type part struct{ request, count, of int } // of: the set of devices that must agree, -1: none

// parts returns the parts of all requests, with the sets of devices numbered through, and their families.
func (b BruteForce) parts() (list []part, families []string) {
	in := map[int]bool{}
	for _, s := range b.Guest.Sets {
		times := max(s.Times, 1)
		for range times {
			for _, r := range s.Requests {
				in[r] = true
				list = append(list, part{r, b.Guest.Requests[r].Count / times, len(families)})
			}
			families = append(families, s.Family)
		}
	}
	for r, request := range b.Guest.Requests {
		if !in[r] {
			list = append(list, part{r, request.Count, -1})
		}
	}
	return list, families
}

// Best returns the quality of the best choice of devices for a guest on nodes, and whether there is one.
func (b BruteForce) Best(nodes []int) (Quality, bool) {
	if b.Wanted() > 6 {
		return b.BestOfMany(nodes)
	}
	return b.BestOfFew(nodes)
}

// BestOfFew chooses one device after the other for each place in a request.
func (b BruteForce) BestOfFew(nodes []int) (best Quality, found bool) {
	parts, families := b.parts()
	used := make([]bool, len(b.Host.Devices))
	common := make([][]string, len(families)) // the values that the devices of a set have in common so far
	started := make([]int, len(families))     // how many devices of the set are chosen
	var choose func(p, count, from int, q Quality)
	choose = func(p, count, from int, q Quality) {
		if p == len(parts) {
			if !found || q.Better(best) {
				best, found = q, true
			}
			return
		}
		if count == parts[p].count {
			choose(p+1, 0, 0, q)
			return
		}
		of := parts[p].of
		for i := from; i < len(b.Host.Devices); i++ {
			d := b.Host.Devices[i]
			rank := RankOf(d, b.Guest.Requests[parts[p].request].Policy, nodes)
			if used[i] || !d.Fits[parts[p].request] || rank < 0 || b.otherWay(i, used) {
				continue
			}
			var before []string
			if of >= 0 {
				before = common[of]
				common[of] = d.Values[families[of]]
				if started[of] > 0 {
					common[of] = slices.DeleteFunc(slices.Clone(before), func(v string) bool {
						return !slices.Contains(d.Values[families[of]], v)
					})
				}
				if len(common[of]) == 0 {
					common[of] = before
					continue
				}
				started[of]++
			}
			next := q
			next.Later += d.Later
			switch rank {
			case numa.Local:
				next.First++
			case numa.Fair:
				next.Second++
			}
			used[i] = true
			choose(p, count+1, i+1, next)
			used[i] = false
			if of >= 0 {
				common[of] = before
				started[of]--
			}
		}
	}
	choose(0, 0, 0, Quality{})
	return best, found
}

// BestOfMany tries each value for each set of devices, and decides for one device after the other which part has it, or
// none. It remembers the states that it has seen.
func (b BruteForce) BestOfMany(nodes []int) (best Quality, found bool) {
	parts, families := b.parts()
	values := make([]string, len(families))
	var value func(of int)
	value = func(of int) {
		if of < len(families) {
			for _, v := range b.valuesOf(families[of]) {
				again := of > 0 && b.same(parts, of-1, of) && v < values[of-1] // equal sets in another order
				if !again && b.has(parts, of, families[of], v, nodes) {
					values[of] = v
					value(of + 1)
				}
			}
			return
		}
		if q, is := b.bestWith(nodes, parts, families, values); is && (!found || q.Better(best)) {
			best, found = q, true
		}
	}
	value(0)
	return best, found
}

// same reports whether two sets of devices are of the same requests, equally many of each.
func (b BruteForce) same(parts []part, one, other int) bool {
	of := func(set int) (list []part) {
		for _, p := range parts {
			if p.of == set {
				list = append(list, part{p.request, p.count, 0})
			}
		}
		return list
	}
	return slices.Equal(of(one), of(other))
}

// has reports whether there are devices with a value for each part of a set, if nothing else needs them.
func (b BruteForce) has(parts []part, of int, family, value string, nodes []int) bool {
	for _, p := range parts {
		if p.of != of {
			continue
		}
		count := 0
		for _, d := range b.Host.Devices {
			if d.Fits[p.request] && slices.Contains(d.Values[family], value) &&
				RankOf(d, b.Guest.Requests[p.request].Policy, nodes) >= 0 {
				count++
			}
		}
		if count < p.count {
			return false
		}
	}
	return true
}

// valuesOf returns the values of a family that devices have.
func (b BruteForce) valuesOf(family string) (all []string) {
	for _, d := range b.Host.Devices {
		all = append(all, d.Values[family]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bestWith is best for given values of the sets of devices.
func (b BruteForce) bestWith(nodes []int, parts []part, families, values []string) (Quality, bool) {
	type state struct {
		device int
		lacks  [16]int8
		whole  [8]int8 // by card: 0 open, 1 whole, 2 parts
	}
	type result struct {
		q  Quality
		is bool
	}
	known := map[state]result{}
	var from func(s state) result
	from = func(s state) (best result) {
		if s.device == len(b.Host.Devices) {
			return result{is: s.lacks == [16]int8{}}
		}
		if r, is := known[s]; is {
			return r
		}
		d, next, way := b.Host.Devices[s.device], s, int8(2)
		next.device++
		best = from(next)
		if d.Whole {
			way = 1
		}
		if d.Card != plan.NoCard {
			next.whole[d.Card] = way
		}
		for n, p := range parts {
			rank := RankOf(d, b.Guest.Requests[p.request].Policy, nodes)
			if s.lacks[n] == 0 || !d.Fits[p.request] || rank < 0 ||
				d.Card != plan.NoCard && s.whole[d.Card] != 0 && s.whole[d.Card] != way ||
				p.of >= 0 && !slices.Contains(d.Values[families[p.of]], values[p.of]) {
				continue
			}
			next.lacks[n]--
			r := from(next)
			next.lacks[n]++
			r.q.Later += d.Later
			switch rank {
			case numa.Local:
				r.q.First++
			case numa.Fair:
				r.q.Second++
			}
			if r.is && (!best.is || r.q.Better(best.q)) {
				best = r
			}
		}
		known[s] = best
		return best
	}
	var first state
	for n, p := range parts {
		first.lacks[n] = int8(p.count)
	}
	r := from(first)
	return r.q, r.is
}

// otherWay reports whether the card of a device is used the other way: in parts for a whole one, and the reverse.
func (b BruteForce) otherWay(i int, used []bool) bool {
	d := b.Host.Devices[i]
	for o, is := range used {
		if other := b.Host.Devices[o]; is && d.Card != plan.NoCard && other.Card == d.Card && other.Whole != d.Whole {
			return true
		}
	}
	return false
}

// Served returns how many devices a guest on nodes can have at most, if devices need not agree. It decides for one
// device after the other which request has it, and remembers the states that it has seen.
func (b BruteForce) Served(nodes []int) int {
	type state struct {
		device int
		lacks  [4]int
		whole  [8]int8 // by card: 0 open, 1 whole, 2 parts
	}
	known := map[state]int{}
	var from func(s state) int
	from = func(s state) int {
		if s.device == len(b.Host.Devices) {
			return 0
		}
		if n, is := known[s]; is {
			return n
		}
		d := b.Host.Devices[s.device]
		next := s
		next.device++
		most := from(next)
		way := int8(2)
		if d.Whole {
			way = 1
		}
		if d.Card == plan.NoCard || s.whole[d.Card] == 0 || s.whole[d.Card] == way {
			if d.Card != plan.NoCard {
				next.whole[d.Card] = way
			}
			for r, request := range b.Guest.Requests {
				if next.lacks[r] > 0 && d.Fits[r] && RankOf(d, request.Policy, nodes) >= 0 {
					next.lacks[r]--
					most = max(most, 1+from(next))
					next.lacks[r]++
				}
			}
		}
		known[s] = most
		return most
	}
	var first state
	for r, request := range b.Guest.Requests {
		first.lacks[r] = request.Count
	}
	return from(first)
}
