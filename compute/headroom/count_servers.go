// Package headroom computes how many more equal servers fit on the hosts of a cloud, and which resource runs out first.
package headroom

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is a way to place one server. All candidates of a server request the same amounts in sum.
type Candidate struct {
	Host       provider.ID // root of the host's tree
	Allocation resource.Allocation
}

// Host is the result for one host.
type Host struct {
	Root  provider.ID
	Fits  int              // how many servers
	Exact bool             // no more servers fit; false: the search ended before it was certain
	Lacks []resource.Class // sorted; what one more server lacks
}

// maxSteps bounds the search on one host.
const maxSteps = 200_000

// Count returns how many servers fit on each host, the most first. free is what each provider has left. A provider that
// several hosts share is given to the first ones, in the order of the result's roots.
func Count(candidates []Candidate, free resource.Allocation) []Host {
	byHost := map[provider.ID][]resource.Allocation{}
	for _, c := range candidates {
		list := byHost[c.Host]
		same := func(a resource.Allocation) bool { return maps.EqualFunc(a, c.Allocation, maps.Equal[resource.Amounts]) }
		if !slices.ContainsFunc(list, same) {
			byHost[c.Host] = append(list, c.Allocation)
		}
	}
	left := clone(free)
	var hosts []Host
	for _, root := range slices.Sorted(maps.Keys(byHost)) {
		s := search{ways: byHost[root], left: left}
		s.best.left = left
		s.run(0, 0)
		left = s.best.left
		hosts = append(hosts, Host{Root: root, Fits: s.best.count, Exact: s.steps < maxSteps, Lacks: lacks(s.ways, left)})
	}
	slices.SortStableFunc(hosts, func(a, b Host) int { return cmp.Compare(b.Fits, a.Fits) })
	return hosts
}

// search finds the largest number of servers of a host, by trying how many of them are placed in each way.
type search struct {
	ways []resource.Allocation
	left resource.Allocation
	best struct {
		count int
		left  resource.Allocation
	}
	steps int
}

// run places servers in the ways from i on, in addition to count servers.
func (s *search) run(i, count int) {
	if count > s.best.count {
		s.best.count, s.best.left = count, clone(s.left)
	}
	if s.steps++; i == len(s.ways) || s.steps > maxSteps || count+s.bound(i) <= s.best.count {
		return
	}
	for n := fitting(s.ways[i], s.left); n >= 0; n-- {
		take(s.left, s.ways[i], n)
		s.run(i+1, count+n)
		take(s.left, s.ways[i], -n)
	}
}

// bound returns a number of servers that the ways from i on do not exceed together.
func (s *search) bound(i int) int {
	alone, room := 0, resource.Amounts{}
	for id, amounts := range union(s.ways[i:]) {
		for class := range amounts {
			room[class] += s.left[id][class]
		}
	}
	for _, way := range s.ways[i:] {
		alone += fitting(way, s.left)
	}
	for class, n := range need(s.ways[i]) {
		alone = min(alone, room[class]/n)
	}
	return alone
}

// lacks returns the classes of which one more server has too little: in sum if there are any, otherwise on one of the
// providers of each way.
func lacks(ways []resource.Allocation, left resource.Allocation) (classes []resource.Class) {
	room, onOne := resource.Amounts{}, map[resource.Class]bool{}
	for id, amounts := range union(ways) {
		for class := range amounts {
			room[class] += left[id][class]
		}
	}
	for class, n := range need(ways[0]) {
		if room[class] < n {
			classes = append(classes, class)
		}
	}
	if len(classes) == 0 {
		for _, way := range ways {
			for id, amounts := range way {
				for class, n := range amounts {
					if left[id][class] < n {
						onOne[class] = true
					}
				}
			}
		}
		classes = slices.Collect(maps.Keys(onOne))
	}
	slices.Sort(classes)
	return classes
}

// need returns the amounts of a way in sum.
func need(way resource.Allocation) resource.Amounts {
	sum := resource.Amounts{}
	for _, amounts := range way {
		for class, n := range amounts {
			sum[class] += n
		}
	}
	return sum
}

// union returns the providers and classes that any of the ways uses.
func union(ways []resource.Allocation) map[provider.ID]map[resource.Class]bool {
	out := map[provider.ID]map[resource.Class]bool{}
	for _, way := range ways {
		for id, amounts := range way {
			if out[id] == nil {
				out[id] = map[resource.Class]bool{}
			}
			for class := range amounts {
				out[id][class] = true
			}
		}
	}
	return out
}

// fitting returns how many servers fit in one way.
func fitting(way, left resource.Allocation) int {
	most := -1
	for id, amounts := range way {
		for class, n := range amounts {
			if fits := max(left[id][class], 0) / max(n, 1); most < 0 || fits < most {
				most = fits
			}
		}
	}
	return max(most, 0)
}

// take removes what n servers use; a negative n gives it back.
func take(left, way resource.Allocation, n int) {
	for id, amounts := range way {
		for class, each := range amounts {
			left[id][class] -= n * each
		}
	}
}

func clone(a resource.Allocation) resource.Allocation {
	out := make(resource.Allocation, len(a))
	for id, amounts := range a {
		out[id] = maps.Clone(amounts)
	}
	return out
}
