package candidate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// twin is the stupid twin of the solver: it tries every provider of the fleet for every group under every root and
// keeps what passes the plain rules. It shares no code with the solver and reads rows, not the index.
type twin struct {
	rows map[provider.ID]index.Row
	ask  resource.Ask
}

// want is one thing to place: a suffixed group, or one class of the unsuffixed group.
type want struct {
	group   resource.Group
	amounts resource.Amounts
}

// twinAll gives the keys of all candidates, sorted.
func twinAll(rows []index.Row, ask resource.Ask) []string {
	tw := twin{rows: map[provider.ID]index.Row{}, ask: ask}
	for _, r := range rows {
		tw.rows[r.ID] = r
	}
	var wants []want
	for _, g := range ask.Groups {
		if g.Suffix != "" {
			wants = append(wants, want{g, g.Resources})
			if len(g.Resources)+len(g.Required)+len(g.MemberOf) == 0 {
				return nil // nothing to look for
			}
		}
		if g.InTree != "" && tw.rows[g.InTree].ID == "" {
			return nil
		}
		if g.Suffix == "" {
			for c, n := range g.Resources {
				wants = append(wants, want{g, resource.Amounts{c: n}})
			}
		}
	}
	found := map[string]bool{}
	for _, r := range rows {
		if r.Parent == "" && tw.anchor(r) && len(wants) > 0 {
			tw.place(r, wants, nil, found)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (tw twin) anchor(root index.Row) bool {
	for _, t := range tw.ask.RootRequired {
		if !root.HasTrait(t) {
			return false
		}
	}
	return !slices.ContainsFunc(tw.ask.RootForbidden, root.HasTrait)
}

func (tw twin) place(root index.Row, wants []want, chosen []index.Row, found map[string]bool) {
	if len(chosen) == len(wants) {
		if tw.holds(wants, chosen) {
			found[twinKey(wants, chosen)] = true
		}
		return
	}
	for _, id := range slices.Sorted(maps.Keys(tw.rows)) {
		if tw.may(root, wants[len(chosen)], tw.rows[id]) {
			tw.place(root, wants, append(slices.Clip(chosen), tw.rows[id]), found)
		}
	}
}

// may says whether a provider could meet a want by itself, for candidates under this root.
func (tw twin) may(root index.Row, w want, p index.Row) bool {
	own := p.Root == root.ID
	if !own && !tw.connected(root, p) {
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
			(w.group.InTree == "" || len(w.amounts) == 0 || p.Root == tw.rows[w.group.InTree].Root)
	}
	if w.group.InTree != "" && (!own || p.Root != tw.rows[w.group.InTree].Root) {
		return false
	}
	in := member(p, w.group.MemberOf) || own && member(root, w.group.MemberOf)
	return in && !anyOf(p, w.group.NotMemberOf) && !anyOf(root, w.group.NotMemberOf)
}

// connected says whether a provider of another tree lends to the tree of this root.
func (tw twin) connected(root, p index.Row) bool {
	if !p.HasTrait(index.Sharing) {
		return false
	}
	for _, o := range tw.rows {
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

// holds says whether the choices go together.
func (tw twin) holds(wants []want, chosen []index.Row) bool {
	var traits index.Row
	taken := resource.Allocation{}
	suffixed := map[provider.ID]bool{}
	var required [][]resource.Trait
	for i, w := range wants {
		p := chosen[i]
		if w.group.Suffix == "" {
			traits.Traits = append(traits.Traits, p.Traits...)
			required = w.group.Required
		} else if suffixed[p.ID] && tw.ask.GroupPolicy == resource.PolicyIsolate {
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
			inv := tw.rows[id].Inventories[c]
			if n > inv.MaxUnit || tw.rows[id].Used[c]+n > inv.Capacity() {
				return false
			}
		}
	}
	for _, clause := range tw.ask.SameSubtree {
		if !tw.sameSubtree(clause, wants, chosen) {
			return false
		}
	}
	return meets(traits, required)
}

func (tw twin) sameSubtree(clause []string, wants []want, chosen []index.Row) bool {
	var of []index.Row
	for i, w := range wants {
		if w.group.Suffix != "" && slices.Contains(clause, w.group.Suffix) {
			of = append(of, chosen[i])
		}
	}
	return len(of) == 0 || slices.ContainsFunc(of, func(top index.Row) bool {
		return !slices.ContainsFunc(of, func(p index.Row) bool { return !tw.under(top.ID, p) })
	})
}

func (tw twin) under(top provider.ID, p index.Row) bool {
	for p.ID != top {
		if p.Parent == "" {
			return false
		}
		p = tw.rows[p.Parent]
	}
	return true
}

func twinKey(wants []want, chosen []index.Row) string {
	c := candidate.Candidate{Allocation: resource.Allocation{}, Mappings: map[string][]provider.ID{}}
	for i, w := range wants {
		id := chosen[i].ID
		if len(w.amounts) > 0 && c.Allocation[id] == nil {
			c.Allocation[id] = resource.Amounts{}
		}
		for class, n := range w.amounts {
			c.Allocation[id][class] += n
		}
		if list := c.Mappings[w.group.Suffix]; !slices.Contains(list, id) {
			c.Mappings[w.group.Suffix] = append(list, id)
		}
	}
	return key(c)
}

// key writes a candidate so that equal ones read equal.
func key(c candidate.Candidate) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(c.Allocation)) {
		fmt.Fprintf(&b, "%s{%s} ", id, c.Allocation[id])
	}
	for _, suffix := range slices.Sorted(maps.Keys(c.Mappings)) {
		fmt.Fprintf(&b, "[%s: %v] ", suffix, slices.Sorted(slices.Values(c.Mappings[suffix])))
	}
	return b.String()
}

// keys gives the keys of candidates in the order given.
func keys(seq func(func(candidate.Candidate) bool)) []string {
	var out []string
	for c := range seq {
		out = append(out, key(c))
	}
	return out
}
