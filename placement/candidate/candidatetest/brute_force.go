package candidatetest

import (
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// bruteForce is one run of BruteForce.
type bruteForce struct {
	rows map[provider.ID]index.Row
	ask  resource.Ask
}

// want is one thing to place: a suffixed group, or one class of the unsuffixed group.
type want struct {
	group   resource.Group
	amounts resource.Amounts
}

// BruteForce returns the keys of all candidates, sorted. It tries every provider of the fleet for every group under
// every root and keeps what the plain rules allow. It shares no code with the solver and reads rows, not the index.
func BruteForce(rows []index.Row, ask resource.Ask) []string {
	all := map[string]bool{}
	for _, found := range bruteForceByRoot(rows, ask) {
		maps.Copy(all, found)
	}
	return slices.Sorted(maps.Keys(all))
}

// BruteForceHosts returns how many root providers have a candidate, found as by BruteForce.
func BruteForceHosts(rows []index.Row, ask resource.Ask) (n int) {
	for _, found := range bruteForceByRoot(rows, ask) {
		if len(found) > 0 {
			n++
		}
	}
	return n
}

// bruteForceByRoot returns the keys of the candidates of each root provider.
func bruteForceByRoot(rows []index.Row, ask resource.Ask) (byRoot []map[string]bool) {
	f := bruteForce{rows: map[provider.ID]index.Row{}, ask: ask}
	for _, r := range rows {
		f.rows[r.ID] = r
	}
	var wants []want
	for _, g := range ask.Groups {
		if g.Suffix != "" {
			wants = append(wants, want{g, g.Resources})
			if len(g.Resources)+len(g.Required)+len(g.MemberOf) == 0 {
				return nil // no provider meets such a group
			}
		}
		if g.InTree != "" && f.rows[g.InTree].ID == "" {
			return nil
		}
		if g.Suffix == "" {
			for c, n := range g.Resources {
				wants = append(wants, want{g, resource.Amounts{c: n}})
			}
		}
	}
	for _, r := range rows {
		if r.Parent == "" && f.anchor(r) && len(wants) > 0 {
			found := map[string]bool{}
			f.place(r, wants, nil, found)
			byRoot = append(byRoot, found)
		}
	}
	return byRoot
}

func (f bruteForce) anchor(root index.Row) bool {
	for _, t := range f.ask.RootRequired {
		if !root.HasTrait(t) {
			return false
		}
	}
	return !slices.ContainsFunc(f.ask.RootForbidden, root.HasTrait)
}

func (f bruteForce) place(root index.Row, wants []want, chosen []index.Row, found map[string]bool) {
	if len(chosen) == len(wants) {
		if f.holds(wants, chosen) {
			found[keyOf(wants, chosen)] = true
		}
		return
	}
	for _, id := range slices.Sorted(maps.Keys(f.rows)) {
		if f.may(root, wants[len(chosen)], f.rows[id]) {
			f.place(root, wants, append(slices.Clip(chosen), f.rows[id]), found)
		}
	}
}

// may reports whether a provider meets a want by itself, for candidates under this root.
func (f bruteForce) may(root index.Row, w want, p index.Row) bool {
	own := p.Root == root.ID
	if !own && !f.connected(root, p) {
		return false
	}
	for c, n := range w.amounts {
		inv, ok := p.Inventories[c]
		if !ok || !inv.Fits(p.Used[c], n) {
			return false
		}
	}
	if slices.ContainsFunc(w.group.Forbidden, p.HasTrait) {
		return false
	}
	if w.group.Suffix != "" {
		return meets(p, w.group.Required) && member(p, w.group.MemberOf) && !anyOf(p, w.group.NotMemberOf) &&
			(w.group.InTree == "" || len(w.amounts) == 0 || p.Root == f.rows[w.group.InTree].Root)
	}
	if w.group.InTree != "" && (!own || p.Root != f.rows[w.group.InTree].Root) {
		return false
	}
	in := member(p, w.group.MemberOf) || own && member(root, w.group.MemberOf)
	return in && !anyOf(p, w.group.NotMemberOf) && !anyOf(root, w.group.NotMemberOf)
}

// connected reports whether a provider of another tree is a sharing provider for the tree of this root.
func (f bruteForce) connected(root, p index.Row) bool {
	if !p.HasTrait(index.Sharing) {
		return false
	}
	for _, o := range f.rows {
		if o.Root == root.ID && anyOf(o, p.Aggregates) {
			return true
		}
	}
	return false
}

func meets(p index.Row, required [][]resource.Trait) bool {
	for _, set := range required {
		if !slices.ContainsFunc(set, p.HasTrait) {
			return false
		}
	}
	return true
}

func member(p index.Row, sets [][]resource.AggregateID) bool {
	for _, set := range sets {
		if !anyOf(p, set) {
			return false
		}
	}
	return true
}

func anyOf(p index.Row, set []resource.AggregateID) bool {
	return slices.ContainsFunc(set, func(a resource.AggregateID) bool { return slices.Contains(p.Aggregates, a) })
}

// holds reports whether the chosen providers can serve all wants together.
func (f bruteForce) holds(wants []want, chosen []index.Row) bool {
	var traits index.Row
	taken := resource.Allocation{}
	suffixed := map[provider.ID]bool{}
	var required [][]resource.Trait
	for i, w := range wants {
		p := chosen[i]
		if w.group.Suffix == "" {
			traits.Traits = append(traits.Traits, p.Traits...)
			required = w.group.Required
		} else if suffixed[p.ID] && f.ask.GroupPolicy == resource.PolicyIsolate {
			return false
		} else {
			suffixed[p.ID] = true
		}
		if taken[p.ID] == nil {
			taken[p.ID] = resource.Amounts{}
		}
		for c, n := range w.amounts {
			taken[p.ID][c] += n
		}
	}
	for id, amounts := range taken {
		for c, n := range amounts {
			inv := f.rows[id].Inventories[c]
			if n > inv.MaxUnit || f.rows[id].Used[c]+n > inv.Capacity() {
				return false
			}
		}
	}
	for _, clause := range f.ask.SameSubtree {
		if !f.sameSubtree(clause, wants, chosen) {
			return false
		}
	}
	return meets(traits, required)
}

func (f bruteForce) sameSubtree(clause []string, wants []want, chosen []index.Row) bool {
	var of []index.Row
	for i, w := range wants {
		if w.group.Suffix != "" && slices.Contains(clause, w.group.Suffix) {
			of = append(of, chosen[i])
		}
	}
	return len(of) == 0 || slices.ContainsFunc(of, func(top index.Row) bool {
		return !slices.ContainsFunc(of, func(p index.Row) bool { return !f.under(top.ID, p) })
	})
}

func (f bruteForce) under(top provider.ID, p index.Row) bool {
	for p.ID != top {
		if p.Parent == "" {
			return false
		}
		p = f.rows[p.Parent]
	}
	return true
}

// keyOf returns the key of the candidate in which each want takes from its chosen provider.
func keyOf(wants []want, chosen []index.Row) string {
	allocation, mappings := resource.Allocation{}, map[string][]provider.ID{}
	for i, w := range wants {
		id := chosen[i].ID
		if len(w.amounts) > 0 && allocation[id] == nil {
			allocation[id] = resource.Amounts{}
		}
		for class, n := range w.amounts {
			allocation[id][class] += n
		}
		if list := mappings[w.group.Suffix]; !slices.Contains(list, id) {
			mappings[w.group.Suffix] = append(list, id)
		}
	}
	return KeyOf(allocation, mappings)
}
