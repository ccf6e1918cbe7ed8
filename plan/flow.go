package plan

import "slices"

// far is more than any cost.
const far = 1 << 60

// never is the cost of a kind that cannot serve a group.
const never = -1

// transport is to give each group as many devices as it needs, each from a kind that has one left, at the least cost.
type transport struct {
	need  []int   // by group
	room  []int   // by kind
	cost  [][]int // by group and kind: of one device, or never
	cards []card
	*budget
}

// card is a card that can be given as a whole or in parts, not both.
type card struct{ whole, parts []int } // kinds

// assignment is a solution of a transport.
type assignment struct {
	use  [][]int // by group and kind: how many devices
	cost int
	left []int // by group: how many devices it lacks
}

// lacking returns how many devices are lacking.
func (a assignment) lacking() (sum int) {
	for _, n := range a.left {
		sum += n
	}
	return sum
}

// takes reports whether some group uses one of the kinds.
func (a assignment) takes(kinds []int) bool {
	for _, use := range a.use {
		for _, k := range kinds {
			if use[k] > 0 {
				return true
			}
		}
	}
	return false
}

// flow returns the cheapest of the assignments with the most devices, if cards may be given both ways: successive
// shortest paths. Of equal kinds the first is used up first. When the budget is spent, devices may be lacking.
func (t transport) flow() assignment {
	a := assignment{left: slices.Clone(t.need), use: matrix(len(t.need), len(t.room))}
	byGroup, byKind := matrix(2, len(t.need)), matrix(3, len(t.room))
	p := paths{transport: t, groups: byGroup[0], fromKind: byGroup[1],
		room: byKind[0], kinds: byKind[1], fromGroup: byKind[2]}
	copy(p.room, t.room)
	for {
		end := p.shortest(a)
		if end < 0 || p.spent() {
			return a
		}
		// each kind of the path serves the group before it, which gives back one of the kind before that
		n, first := p.room[end], 0
		for k := end; k >= 0; k = p.fromKind[first] {
			if k != end {
				n = min(n, a.use[first][k])
			}
			first = p.fromGroup[k]
		}
		n = min(n, a.left[first])
		for k := end; k >= 0; {
			g := p.fromGroup[k]
			a.use[g][k] += n
			if k = p.fromKind[g]; k >= 0 {
				a.use[g][k] -= n
			}
		}
		a.left[first] -= n
		p.room[end] -= n
		a.cost += n * p.kinds[end]
	}
}

// matrix returns rows of zeros.
func matrix(rows, columns int) [][]int {
	out, all := make([][]int, rows), make([]int, rows*columns)
	for i := range out {
		out[i] = all[i*columns : (i+1)*columns : (i+1)*columns]
	}
	return out
}

// paths finds the path of one more device.
type paths struct {
	transport
	room                []int // by kind: what is left
	groups, kinds       []int // the costs of the shortest path to each
	fromKind, fromGroup []int // where it comes from: by group a kind, or -1; by kind a group
}

// shortest finds the cheapest path from a group that lacks devices to a kind that has one left, and returns that kind,
// or -1 if there is none (Bellman and Ford).
func (p *paths) shortest(a assignment) (end int) {
	for g := range p.groups {
		p.groups[g], p.fromKind[g] = far, -1
		if a.left[g] > 0 {
			p.groups[g] = 0
		}
	}
	for k := range p.kinds {
		p.kinds[k] = far
	}
	for changed := true; changed; {
		changed = false
		p.spend(len(p.groups) * len(p.kinds))
		for g, at := range p.groups {
			if at == far {
				continue
			}
			for k, c := range p.cost[g] {
				if c != never && at+c < p.kinds[k] {
					p.kinds[k], p.fromGroup[k], changed = at+c, g, true
				}
			}
		}
		for g, use := range a.use {
			for k, n := range use {
				if n > 0 && p.kinds[k] < far && p.kinds[k]-p.cost[g][k] < p.groups[g] {
					p.groups[g], p.fromKind[g], changed = p.kinds[k]-p.cost[g][k], k, true
				}
			}
		}
	}
	end = -1
	for k, at := range p.kinds {
		if at < far && p.room[k] > 0 && (end < 0 || at < p.kinds[end]) {
			end = k
		}
	}
	return end
}
