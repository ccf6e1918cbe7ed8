package plan_test

import (
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
)

// quality is what plans are compared by: as many devices of the first rank as possible, then of the second, then the
// smallest sum of Later.
type quality struct{ first, second, later int }

// better reports whether a plan of quality q is better than one of quality o.
func (q quality) better(o quality) bool {
	if q.first != o.first {
		return q.first > o.first
	}
	if q.second != o.second {
		return q.second > o.second
	}
	return q.later < o.later
}

// bruteForce tries everything: each order of nodes for the cells, and each single device for each place in a request.
type bruteForce struct {
	host  plan.Host
	guest plan.Guest
}

// nodeSets returns the sets of nodes on which the cells of the guest fit, ascending each, in the order of numa.Options.
// A guest without cells has one empty set.
func (b bruteForce) nodeSets() (list [][]int) {
	if len(b.guest.Nodes) > 0 {
		return [][]int{b.guest.Nodes}
	}
	cells, _, _ := numa.Options(b.host.Room, b.guest.Cells, b.wanted() > 0)
	fits := func(g numa.GuestCell, c numa.Cell) bool {
		alone := numa.Host{Cells: []numa.Cell{c}, Limits: b.host.Room.Limits}
		_, _, refusal := numa.Options(alone, []numa.GuestCell{g}, false)
		return refusal.Reason == ""
	}
	sets := map[string][]int{} // of indexes, by their text
	var order func(chosen []int)
	order = func(chosen []int) {
		if len(chosen) == len(b.guest.Cells) {
			set := slices.Sorted(slices.Values(chosen))
			sets[string(runes(set))] = set
			return
		}
		for n, c := range cells {
			if !slices.Contains(chosen, n) && fits(b.guest.Cells[len(chosen)], c) {
				order(append(slices.Clone(chosen), n))
			}
		}
	}
	order(nil)
	indexes := slices.SortedFunc(func(yield func([]int) bool) {
		for _, set := range sets {
			if !yield(set) {
				return
			}
		}
	}, slices.Compare)
	for _, set := range indexes {
		var nodes []int
		for _, n := range set {
			nodes = append(nodes, cells[n].ID)
		}
		slices.Sort(nodes)
		list = append(list, nodes)
	}
	return list
}

func runes(list []int) (out []rune) {
	for _, n := range list {
		out = append(out, rune(n))
	}
	return out
}

// wanted returns how many devices the guest requests.
func (b bruteForce) wanted() int { return wantedOf(b.guest) }

func wantedOf(g plan.Guest) (sum int) {
	for _, r := range g.Requests {
		sum += r.Count
	}
	return sum
}

// rankOf returns the rank of a device for a guest on nodes, or -1: the table of numa.Rank for its nearest nodes.
func rankOf(d plan.Device, policy pci.NUMAPolicy, nodes []int) int {
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
func (b bruteForce) parts() (list []part, families []string) {
	in := map[int]bool{}
	for _, s := range b.guest.Sets {
		times := max(s.Times, 1)
		for range times {
			for _, r := range s.Requests {
				in[r] = true
				list = append(list, part{r, b.guest.Requests[r].Count / times, len(families)})
			}
			families = append(families, s.Family)
		}
	}
	for r, request := range b.guest.Requests {
		if !in[r] {
			list = append(list, part{r, request.Count, -1})
		}
	}
	return list, families
}

// best returns the quality of the best choice of devices for a guest on nodes, and whether there is one.
func (b bruteForce) best(nodes []int) (quality, bool) {
	if b.wanted() > 6 {
		return b.bestOfMany(nodes)
	}
	return b.bestOfFew(nodes)
}

// bestOfFew chooses one device after the other for each place in a request.
func (b bruteForce) bestOfFew(nodes []int) (best quality, found bool) {
	parts, families := b.parts()
	used := make([]bool, len(b.host.Devices))
	common := make([][]string, len(families)) // the values that the devices of a set have in common so far
	started := make([]int, len(families))     // how many devices of the set are chosen
	var choose func(p, count, from int, q quality)
	choose = func(p, count, from int, q quality) {
		if p == len(parts) {
			if !found || q.better(best) {
				best, found = q, true
			}
			return
		}
		if count == parts[p].count {
			choose(p+1, 0, 0, q)
			return
		}
		of := parts[p].of
		for i := from; i < len(b.host.Devices); i++ {
			d := b.host.Devices[i]
			rank := rankOf(d, b.guest.Requests[parts[p].request].Policy, nodes)
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
			next.later += d.Later
			switch rank {
			case numa.Local:
				next.first++
			case numa.Fair:
				next.second++
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
	choose(0, 0, 0, quality{})
	return best, found
}

// bestOfMany tries each value for each set of devices, and decides for one device after the other which part has it, or
// none. It remembers the states that it has seen.
func (b bruteForce) bestOfMany(nodes []int) (best quality, found bool) {
	parts, families := b.parts()
	values := make([]string, len(families))
	var value func(of int)
	value = func(of int) {
		if of < len(families) {
			for _, v := range b.valuesOf(families[of]) {
				values[of] = v
				value(of + 1)
			}
			return
		}
		if q, is := b.bestWith(nodes, parts, families, values); is && (!found || q.better(best)) {
			best, found = q, true
		}
	}
	value(0)
	return best, found
}

// valuesOf returns the values of a family that devices have.
func (b bruteForce) valuesOf(family string) (all []string) {
	for _, d := range b.host.Devices {
		all = append(all, d.Values[family]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bestWith is best for given values of the sets of devices.
func (b bruteForce) bestWith(nodes []int, parts []part, families, values []string) (quality, bool) {
	type state struct {
		device int
		lacks  [16]int8
		whole  [8]int8 // by card: 0 open, 1 whole, 2 parts
	}
	type result struct {
		q  quality
		is bool
	}
	known := map[state]result{}
	var from func(s state) result
	from = func(s state) (best result) {
		if s.device == len(b.host.Devices) {
			return result{is: s.lacks == [16]int8{}}
		}
		if r, is := known[s]; is {
			return r
		}
		d, next, way := b.host.Devices[s.device], s, int8(2)
		next.device++
		best = from(next)
		if d.Whole {
			way = 1
		}
		if d.Card != plan.NoCard {
			next.whole[d.Card] = way
		}
		for n, p := range parts {
			rank := rankOf(d, b.guest.Requests[p.request].Policy, nodes)
			if s.lacks[n] == 0 || !d.Fits[p.request] || rank < 0 ||
				d.Card != plan.NoCard && s.whole[d.Card] != 0 && s.whole[d.Card] != way ||
				p.of >= 0 && !slices.Contains(d.Values[families[p.of]], values[p.of]) {
				continue
			}
			next.lacks[n]--
			r := from(next)
			next.lacks[n]++
			r.q.later += d.Later
			switch rank {
			case numa.Local:
				r.q.first++
			case numa.Fair:
				r.q.second++
			}
			if r.is && (!best.is || r.q.better(best.q)) {
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
func (b bruteForce) otherWay(i int, used []bool) bool {
	d := b.host.Devices[i]
	for o, is := range used {
		if other := b.host.Devices[o]; is && d.Card != plan.NoCard && other.Card == d.Card && other.Whole != d.Whole {
			return true
		}
	}
	return false
}

// served returns how many devices a guest on nodes can have at most, if devices need not agree. It decides for one
// device after the other which request has it, and remembers the states that it has seen.
func (b bruteForce) served(nodes []int) int {
	type state struct {
		device int
		lacks  [4]int
		whole  [8]int8 // by card: 0 open, 1 whole, 2 parts
	}
	known := map[state]int{}
	var from func(s state) int
	from = func(s state) int {
		if s.device == len(b.host.Devices) {
			return 0
		}
		if n, is := known[s]; is {
			return n
		}
		d := b.host.Devices[s.device]
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
			for r, request := range b.guest.Requests {
				if next.lacks[r] > 0 && d.Fits[r] && rankOf(d, request.Policy, nodes) >= 0 {
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
	for r, request := range b.guest.Requests {
		first.lacks[r] = request.Count
	}
	return from(first)
}
