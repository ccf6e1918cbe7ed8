package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// values searches the value of each set of devices that must agree.
type values struct {
	search *search
	costs  [][]int // by request and kind
	limit  int     // the cost from which on a solution is of no use; negative: none
	least  int     // no solution costs less
	best   *solution
}

// assignSets returns the cheapest assignment for all requests whose cost is below limit, or nil. least is a cost that
// no solution is below.
func (s *search) assignSets(costs [][]int, limit, least int) *solution {
	if len(s.guest.Sets) == 0 {
		return s.assign(s.groups(0), costs, limit)
	}
	v := values{search: s, costs: costs, limit: limit, least: least}
	v.set(0, nil)
	return v.best
}

// groups returns one group for each request that is in none of the sets before first.
func (s *search) groups(first int) (list []group) {
	in := map[int]int{}
	for n, of := range s.guest.Sets {
		for _, r := range of.Requests {
			in[r] = n + 1
		}
	}
	for r, request := range s.guest.Requests {
		if in[r] == 0 || in[r] > first {
			list = append(list, group{request: r, set: in[r] - 1, count: request.Count})
		}
	}
	return list
}

// set chooses the values of set n and of those after it. chosen are the groups of the sets before it.
func (v *values) set(n int, chosen []group) {
	s := v.search
	if n == len(s.guest.Sets) {
		if found := s.assign(append(s.groups(n), chosen...), v.costs, v.limit); found != nil {
			v.best, v.limit = found, found.cost
		}
		return
	}
	of := s.guest.Sets[n]
	v.spread(n, v.options(of), max(of.Times, 1), 0, chosen)
}

// option is a value that the devices of a set may have.
type option struct {
	value string
	most  int    // no more sets can have it
	cost  int    // no set with it costs less
	class string // values of one class are equivalent
}

// options returns the values that at least one set can have, the cheapest first.
func (v *values) options(of Set) (list []option) {
	s := v.search
	names := map[string]bool{}
	for _, k := range s.kinds {
		for _, name := range k.Values[of.Family] {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		o := option{value: name, most: max(of.Times, 1), class: v.class(of, name)}
		for _, r := range of.Requests {
			each, room, cheapest := s.guest.Requests[r].Count/max(of.Times, 1), 0, never
			for k, cost := range v.costs[r] {
				if cost != never && slices.Contains(s.kinds[k].Values[of.Family], name) {
					room += s.room[k]
					if cheapest == never || cost < cheapest {
						cheapest = cost
					}
				}
			}
			o.most, o.cost = min(o.most, room/max(each, 1)), o.cost+each*max(cheapest, 0)
		}
		if o.most > 0 {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b option) int { return cmp.Compare(a.cost, b.cost) })
	return list
}

// class returns the same text for values whose devices differ in nothing else.
func (v *values) class(of Set, name string) string {
	s := v.search
	var list []string
	for k, kind := range s.kinds {
		if !slices.Contains(kind.Values[of.Family], name) {
			continue
		}
		text := fmt.Sprint(s.room[k], " ", kind.describe(s.guest, fmt.Sprint(kind.Card, kind.Whole), s.anyNode, of.Family+"="+name))
		for r := range v.costs {
			text += fmt.Sprint(" ", v.costs[r][k])
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// spread gives each of the remaining sets of set n one of the options from index at on.
func (v *values) spread(n int, options []option, remaining, at int, chosen []group) {
	if v.best != nil && v.best.cost <= v.least {
		return
	}
	if remaining == 0 {
		v.set(n+1, chosen)
		return
	}
	rest := 0
	for _, o := range options[at:] {
		rest += o.most
	}
	if rest < remaining {
		return
	}
	o := options[at]
	for times := min(o.most, remaining); times >= 0; times-- {
		next := chosen
		if times > 0 {
			next = append(slices.Clone(chosen), v.search.groupsOf(n, o.value, times)...)
			if !v.possible(next, n+1) {
				continue
			}
		}
		tail := options[at+1:]
		if len(tail) > 0 { // equivalent values are used in their order
			tail = slices.Clone(tail)
			for i := range tail {
				if tail[i].class == o.class {
					tail[i].most = min(tail[i].most, times)
				}
			}
		}
		v.spread(n, append(slices.Clone(options[:at+1]), tail...), remaining-times, at+1, next)
	}
}

// groupsOf returns the groups of a number of sets with this value.
func (s *search) groupsOf(n int, value string, times int) (list []group) {
	of := s.guest.Sets[n]
	for _, r := range of.Requests {
		list = append(list, group{request: r, set: n, value: value,
			count: s.guest.Requests[r].Count / max(of.Times, 1) * times})
	}
	return list
}

// possible reports whether the devices of the chosen groups and of all requests outside the sets before first can be
// there, at a cost below the limit, if cards and the other sets do not matter.
func (v *values) possible(chosen []group, first int) bool {
	s := v.search
	a := s.transport(append(s.groups(first), chosen...), v.costs).solve()
	return a.lacking() == 0 && (v.limit < 0 || a.cost < v.limit)
}
