package plan

import "slices"

// never is the cost of a kind that cannot serve a group.
const never = -1

// transport is to give each group as many devices as it needs, each from a kind that has one left, at the least cost.
type transport struct {
	need []int   // by group
	room []int   // by kind
	cost [][]int // by group and kind: of one device, or never
}

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

// solve returns the cheapest of the assignments with the most devices: successive shortest paths. Of equal kinds the
// first is used up first.
func (t transport) solve() assignment {
	a := assignment{left: slices.Clone(t.need)}
	room := slices.Clone(t.room)
	for range t.need {
		a.use = append(a.use, make([]int, len(t.room)))
	}
	for {
		path, cost := t.shortest(a, room)
		if path == nil {
			return a
		}
		// path is group, kind, group, kind, ...: each kind serves the group before it, and a later group gives it back
		n := min(a.left[path[0]], room[path[len(path)-1]])
		for i := 1; i+1 < len(path); i += 2 {
			n = min(n, a.use[path[i+1]][path[i]])
		}
		for i := 0; i < len(path); i += 2 {
			a.use[path[i]][path[i+1]] += n
			if i > 0 {
				a.use[path[i]][path[i-1]] -= n
			}
		}
		a.left[path[0]] -= n
		room[path[len(path)-1]] -= n
		a.cost += n * cost
	}
}

// shortest returns the cheapest path from a group that lacks devices to a kind that has one left, and its cost; nil if
// there is none (Bellman and Ford).
func (t transport) shortest(a assignment, room []int) (path []int, cost int) {
	const far = 1 << 60
	groups, kinds := make([]int, len(t.need)), make([]int, len(t.room)) // costs
	fromKind, fromGroup := make([]int, len(t.need)), make([]int, len(t.room))
	for g := range groups {
		groups[g], fromKind[g] = far, -1
		if a.left[g] > 0 {
			groups[g] = 0
		}
	}
	for k := range kinds {
		kinds[k] = far
	}
	for changed := true; changed; {
		changed = false
		for g, at := range groups {
			if at == far {
				continue
			}
			for k, c := range t.cost[g] {
				if c != never && at+c < kinds[k] {
					kinds[k], fromGroup[k], changed = at+c, g, true
				}
			}
		}
		for k, at := range kinds {
			if at == far {
				continue
			}
			for g := range groups {
				if a.use[g][k] > 0 && at-t.cost[g][k] < groups[g] {
					groups[g], fromKind[g], changed = at-t.cost[g][k], k, true
				}
			}
		}
	}
	end := -1
	for k, at := range kinds {
		if at < far && room[k] > 0 && (end < 0 || at < kinds[end]) {
			end = k
		}
	}
	if end < 0 {
		return nil, 0
	}
	for k := end; k >= 0; {
		g := fromGroup[k]
		path = append(path, k, g)
		k = fromKind[g]
	}
	slices.Reverse(path)
	return path, kinds[end]
}
