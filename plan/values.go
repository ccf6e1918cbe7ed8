package plan

import (
	"cmp"
	"slices"
	"strings"
)

// values searches the value of each set of devices that must agree.
type values struct {
	*search
	costs [][]int      // by request and kind
	limit int          // the cost from which on a solution is of no use; negative: none
	least int          // no solution costs less
	given map[name]int // by value: how many sets have it
	found *solution
}

// assign returns the cheapest assignment for all requests whose cost is below limit, or nil. least is a cost that no
// solution is below.
func (s *search) assign(costs [][]int, limit, least int) *solution {
	v := values{search: s, costs: costs, limit: limit, least: least, given: map[name]int{}}
	v.set(0, nil)
	return v.found
}

// option is a value that the devices of a set may have.
type option struct {
	value
	most  int    // no more sets can have it
	cost  int    // no set with it costs less
	class string // values of one class are equivalent; "": not computed yet
}

// set chooses the values of the sets from n on. chosen are the groups of the sets before.
func (v *values) set(n int, chosen []group) {
	if n == len(v.sets) {
		v.spread(n, nil, 0, chosen)
		return
	}
	v.spread(n, v.options(v.sets[n]), v.sets[n].Times, chosen)
}

// options returns the values that at least one set can have, the cheapest first.
func (v *values) options(of set) (list []option) {
	v.spend(len(v.kinds) * len(of.values) * len(of.Requests))
	for _, value := range of.values {
		o := option{value: value, most: of.Times}
		for _, r := range of.Requests {
			each, room, cheapest := v.requests[r].Count/of.Times, 0, never
			for k, cost := range v.costs[r] {
				if cost != never && value.has[k] {
					room += v.room[k]
					if cheapest == never || cost < cheapest {
						cheapest = cost
					}
				}
			}
			o.most, o.cost = min(o.most, room/each), o.cost+each*max(cheapest, 0)
		}
		if o.most > 0 {
			list = append(list, o)
		}
	}
	list = v.widest(of, list)
	slices.SortStableFunc(list, func(a, b option) int { return cmp.Compare(a.cost, b.cost) })
	return list
}

// widest returns the values without those that are needless, because all kinds that have them have another value too.
func (v *values) widest(of set, list []option) []option {
	usable := make([]bool, len(v.kinds))
	for _, r := range of.Requests {
		for k, cost := range v.costs[r] {
			usable[k] = usable[k] || cost != never
		}
	}
	within := func(a, b option) bool {
		return !slices.ContainsFunc(a.kinds, func(k int) bool { return usable[k] && !b.has[k] })
	}
	v.spend(len(list) * len(list))
	var out []option
	for i, a := range list {
		needless := false
		for j, b := range list {
			needless = needless || i != j && within(a, b) && (j < i || !within(b, a))
		}
		if !needless {
			out = append(out, a)
		}
	}
	return out
}

// spread gives each of the remaining sets of n one of the options.
func (v *values) spread(n int, options []option, remaining int, chosen []group) {
	if remaining == 0 && n < len(v.sets) {
		v.set(n+1, chosen)
		return
	}
	v.spend(len(v.kinds) * (1 + len(options)))
	groups := v.groups(n, options, remaining, chosen)
	t := v.transport(groups, v.costs)
	relaxed := t.flow()
	if !v.useful(relaxed) {
		return
	}
	if n < len(v.sets) && v.limit >= 0 {
		rest := v.transport(v.groups(n, nil, 0, chosen), v.costs).flow()
		if rest.cost+cheapest(options, remaining) >= v.limit {
			return
		}
	}
	a := t.settle(relaxed)
	if !v.useful(a) {
		return
	}
	if n == len(v.sets) {
		v.found, v.limit = &solution{groups, a}, a.cost
		return
	}
	first := &options[0]
	for times := min(first.most, remaining); times >= 0 && !v.done(); times-- {
		next := chosen
		if times > 0 {
			next = append(slices.Clone(chosen), v.groupsOf(n, first.value, times)...)
		}
		v.given[name{n, first.name}] = times
		v.spread(n, v.later(n, options, times), remaining-times, next)
	}
	v.given[name{n, first.name}] = 0
}

// done reports whether no solution can be cheaper than the one that was found, or the budget is spent.
func (v *values) done() bool { return v.spent() || v.found != nil && v.found.cost <= v.least }

// useful reports whether an assignment has all devices, at a cost below the limit.
func (v *values) useful(a assignment) bool {
	return a.lacking() == 0 && (v.limit < 0 || a.cost < v.limit)
}

// cheapest returns the least cost of a number of sets, if nothing else needs their devices.
func cheapest(options []option, sets int) (cost int) {
	for _, o := range options { // the cheapest first
		n := min(sets, o.most)
		cost, sets = cost+n*o.cost, sets-n
	}
	return cost
}

// later returns the options after the first one, of which a number of sets has the value. Equivalent values are used in
// their order: none by more sets than the one before.
func (v *values) later(n int, options []option, times int) []option {
	first, tail := &options[0], options[1:]
	if times == first.most {
		return tail
	}
	tail = slices.Clone(tail)
	for i := range tail {
		for _, o := range []*option{first, &tail[i]} {
			if o.class == "" {
				o.class = v.class(n, o.value)
			}
		}
		if tail[i].class == first.class {
			tail[i].most = min(tail[i].most, times)
		}
	}
	return slices.DeleteFunc(tail, func(o option) bool { return o.most == 0 })
}

// groups returns the groups of all requests: chosen, and for the remaining sets of n and the sets after it those that
// their devices are in whatever their values.
func (v *values) groups(n int, options []option, remaining int, chosen []group) []group {
	list := slices.Clone(chosen)
	for r, of := range v.requests {
		switch {
		case len(of.sets) == 0:
			list = append(list, group{request: r, count: of.Count})
		case of.sets[0] > n:
			list = append(list, group{request: r, count: of.Count, among: v.sets[of.sets[0]].any})
		}
	}
	if remaining == 0 {
		return list
	}
	among := make([]bool, len(v.kinds))
	for _, o := range options {
		for k, has := range o.has {
			among[k] = among[k] || has
		}
	}
	return append(list, v.groupsOf(n, value{has: among}, remaining)...)
}

// groupsOf returns the groups of a number of sets of n that have a value; without a name it is one of several.
func (v *values) groupsOf(n int, of value, times int) (list []group) {
	for _, r := range v.sets[n].Requests {
		list = append(list, group{r, v.requests[r].Count / v.sets[n].Times * times, of.has, of.name})
	}
	return list
}

// class returns a text that is the same for values of set n that are equivalent: if both are exchanged, and with them
// what only one of them has, nothing has changed for the guest.
func (v *values) class(n int, of value) string {
	return v.describe(of.kinds, v.costs, -1, name{n, of.name}, v.given)
}

func compareText(a, b string) int { return strings.Compare(a, b) }
