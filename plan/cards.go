package plan

import "slices"

// solve returns the cheapest of the assignments with the most devices.
func (t transport) solve() assignment { return t.settle(t.flow()) }

// settle returns the cheapest of the assignments with the most devices. a is the result of flow.
func (t transport) settle(a assignment) assignment {
	if !t.conflicts(a) {
		return a
	}
	if other, equal := t.inParts(a); equal {
		return other
	}
	for _, groups := range t.competing() {
		if t.conflicts(a.of(groups)) {
			t.replace(&a, groups)
		}
	}
	return a
}

// conflicts reports whether an assignment gives a card both ways.
func (t transport) conflicts(a assignment) bool {
	return slices.ContainsFunc(t.cards, func(c card) bool { return a.takes(c.whole) && a.takes(c.parts) })
}

// inParts gives those cards in parts only that an assignment gives both ways, and reports whether that is as good.
func (t transport) inParts(a assignment) (assignment, bool) {
	t.room = slices.Clone(t.room)
	lacking, cost := a.lacking(), a.cost
	for t.conflicts(a) {
		for _, c := range t.cards {
			if a.takes(c.whole) && a.takes(c.parts) {
				for _, k := range c.whole {
					t.room[k] = 0
				}
			}
		}
		if a = t.flow(); a.lacking() != lacking || a.cost != cost {
			return a, false
		}
	}
	return a, true
}

// of returns the part of an assignment that is about these groups.
func (a assignment) of(groups []int) (part assignment) {
	for _, g := range groups {
		part.use, part.left = append(part.use, a.use[g]), append(part.left, a.left[g])
	}
	return part
}

// competing divides the groups into those that compete with each other for kinds or cards, directly or through others.
func (t transport) competing() (list [][]int) {
	label := make([]int, len(t.need)) // by group
	for g := range label {
		label[g] = g
	}
	join := func(kinds ...int) {
		first := -1
		for g, row := range t.cost {
			if !slices.ContainsFunc(kinds, func(k int) bool { return row[k] != never && t.room[k] > 0 }) {
				continue
			}
			if first < 0 {
				first = g
			}
			for o, from := 0, label[g]; o < len(label); o++ {
				if label[o] == from {
					label[o] = label[first]
				}
			}
		}
	}
	for k := range t.room {
		join(k)
	}
	for _, c := range t.cards {
		join(append(slices.Clone(c.whole), c.parts...)...)
	}
	for g := range label {
		var groups []int
		for o, of := range label {
			if of == g {
				groups = append(groups, o)
			}
		}
		if len(groups) > 0 {
			list = append(list, groups)
		}
	}
	return list
}

// replace replaces the part of an assignment that is about these groups, which compete with no others, by one that
// gives no card both ways.
func (t transport) replace(a *assignment, groups []int) {
	d := newTable(t, groups)
	if d == nil {
		lackAll(t, a, groups)
		return
	}
	inCard := map[int]bool{}
	for _, c := range t.cards {
		d.card(c)
		for _, k := range append(slices.Clone(c.whole), c.parts...) {
			inCard[k] = true
		}
	}
	for k := range t.room {
		if !inCard[k] {
			d.kind(k)
		}
	}
	if d.spent() {
		lackAll(t, a, groups)
		return
	}
	d.assign(a)
}

// lackAll takes the devices of these groups out of an assignment, because the budget is spent.
func lackAll(t transport, a *assignment, groups []int) {
	for _, g := range groups {
		clear(a.use[g])
		a.left[g] = t.need[g]
	}
}

// table finds the best assignment for groups from kind to kind: for each state, which is how many devices each group
// has, the least cost. The number of states does not depend on the number of cards, and is small: guests request few
// kinds of devices.
type table struct {
	transport
	groups []int    // of the transport
	factor []int    // by group of the table: a state is the sum of factor times devices
	some   []uint64 // by state: the groups that have a device, as bits
	cost   []int    // by state, or far
	steps  []step
}

// step is a device that can be given to a group, or the end of a card.
type step struct {
	kind   int
	took   []int8 // by state: the group of the table that gets the device, or -1
	before int    // at the end of a card: the steps from here to half are those of the whole card
	half   int    // at the end of a card: the steps from here on are those of its parts
	parts  []bool // at the end of a card, by state: it is given in parts
}

// newTable returns a table, or nil if the budget is spent.
func newTable(t transport, groups []int) *table {
	d := &table{transport: t, groups: groups}
	states := 1
	for _, g := range groups {
		d.factor = append(d.factor, states)
		if states *= t.need[g] + 1; states > t.left || len(groups) > 64 {
			t.spend(t.left + 1)
			return nil
		}
	}
	t.spend(states * len(groups))
	d.cost, d.some = make([]int, states), make([]uint64, states)
	for s := range d.cost {
		d.cost[s] = far
		for i := range groups {
			if d.has(s, i) > 0 {
				d.some[s] |= 1 << i
			}
		}
	}
	d.cost[0] = 0
	return d
}

// has returns how many devices a group of the table has in a state.
func (d *table) has(state, group int) int {
	return state / d.factor[group] % (d.need[d.groups[group]] + 1)
}

// kind adds the devices of a kind.
func (d *table) kind(k int) {
	useful := 0
	for _, g := range d.groups {
		if d.transport.cost[g][k] != never {
			useful += d.need[g]
		}
	}
	for range min(useful, d.room[k]) {
		d.device(k)
	}
}

// device adds one device of a kind.
func (d *table) device(k int) {
	if d.spend(8 * len(d.cost) * len(d.groups)); d.spent() {
		return
	}
	took := make([]int8, len(d.cost))
	for s := len(d.cost) - 1; s >= 0; s-- { // the states with fewer devices do not have this one yet
		took[s] = -1
		for i, g := range d.groups {
			c := d.transport.cost[g][k]
			if c == never || d.some[s]&(1<<i) == 0 {
				continue
			}
			if cost := d.cost[s-d.factor[i]] + c; cost < d.cost[s] {
				d.cost[s], took[s] = cost, int8(i)
			}
		}
	}
	d.steps = append(d.steps, step{kind: k, took: took})
}

// card adds a card: as a whole or in parts, whichever is better in each state.
func (d *table) card(c card) {
	end := step{kind: -1, before: len(d.steps), parts: make([]bool, len(d.cost))}
	start := slices.Clone(d.cost)
	for _, k := range c.whole {
		d.kind(k)
	}
	end.half = len(d.steps)
	whole := d.cost
	d.cost = start
	for _, k := range c.parts {
		d.kind(k)
	}
	for s, cost := range d.cost {
		if whole[s] < cost {
			d.cost[s] = whole[s]
		} else {
			end.parts[s] = true
		}
	}
	d.steps = append(d.steps, end)
}

// assign writes the best state into an assignment.
func (d *table) assign(a *assignment) {
	best, most := 0, 0
	for s, cost := range d.cost {
		sum := 0
		for i := range d.groups {
			sum += d.has(s, i)
		}
		if cost < far && (sum > most || sum == most && cost < d.cost[best]) {
			best, most = s, sum
		}
	}
	for i, g := range d.groups {
		for k, n := range a.use[g] {
			a.cost -= n * max(d.transport.cost[g][k], 0)
		}
		clear(a.use[g])
		a.left[g] = d.need[g] - d.has(best, i)
	}
	a.cost += d.cost[best]
	d.use(a, 0, len(d.steps), best)
}

// use adds the devices that some of the steps gave in a state to an assignment, and returns the state before them.
func (d *table) use(a *assignment, from, to, state int) int {
	for to > from {
		to--
		switch of := d.steps[to]; {
		case of.kind >= 0:
			if i := of.took[state]; i >= 0 {
				a.use[d.groups[i]][of.kind]++
				state -= d.factor[i]
			}
		case of.parts[state]:
			state = d.use(a, of.half, to, state)
			to = of.before
		default:
			state = d.use(a, of.before, of.half, state)
			to = of.before
		}
	}
	return state
}
