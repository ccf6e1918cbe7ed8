package candidate

import (
	"iter"
	"slices"

	"github.com/openberth/berth/placement/index"
)

// narrowing is the clause that leaves the fewest hosts, as the index tells without a look at any of them; or no clause.
type narrowing struct {
	trees iter.Seq[*index.Tree]
	size  int
	by    clause
}

// clause is what a narrowing goes by.
type clause struct {
	kind  int  // whose it is; -1: of root_required
	class int  // the kind asks it; -1: it is not about a class
	trait int  // position in the kind's required sets, each of one trait, or in root_required; -1: it is not about a trait
	tree  bool // it is in_tree
}

// narrowings lists all hosts, and what each clause leaves of them that sharing providers cannot help with.
func (x *explainer) narrowings() []narrowing {
	p, s := x.plan, x.snapshot
	out := make([]narrowing, 1, 2+2*len(p.kinds)+len(p.required))
	out[0] = narrowing{s.Trees(), s.Len(), clause{-1, -1, -1, false}}
	for i := range p.kinds {
		k := &p.kinds[i]
		if x.lendable(k) {
			continue
		}
		if k.inTree && len(k.needs) > 0 {
			one := func(yield func(*index.Tree) bool) { yield(s.Lookup(k.tree)) }
			out = append(out, narrowing{one, 1, clause{i, -1, -1, true}})
		}
		for _, n := range k.needs {
			set := s.Offering(n.number)
			out = append(out, narrowing{set.All(), set.Len(), clause{i, n.class, -1, false}})
		}
		for j, any := range k.required {
			if len(any) == 1 {
				set := s.Having(any[0])
				out = append(out, narrowing{set.All(), set.Len(), clause{i, -1, j, false}})
			}
		}
	}
	for j, trait := range p.required {
		set := s.Having(trait)
		out = append(out, narrowing{set.All(), set.Len(), clause{-1, -1, j, false}})
	}
	return out
}

// narrowest is the first of those that leave fewest.
func (x *explainer) narrowest() narrowing {
	return slices.MinFunc(x.narrowings(), func(a, b narrowing) int { return a.size - b.size })
}

// lendable says whether some sharing provider has what the kind asks, free or not: then other hosts than those that have it
// are worth telling of.
func (x *explainer) lendable(k *kind) bool {
	if k.spread && k.inTree {
		return false
	}
	return slices.ContainsFunc(x.plan.sharing, k.offered)
}

// have says what the hosts left do.
func (n narrowing) have(p *plan) string {
	switch {
	case n.by.tree:
		return "hold provider " + string(p.kinds[n.by.kind].group.InTree)
	case n.by.class >= 0:
		return "offer " + string(p.names[n.by.class])
	}
	return "have a provider with " + n.traitName(p)
}

// nobody says that there are none.
func (n narrowing) nobody(p *plan) string {
	switch {
	case n.by.class >= 0:
		return "no provider offers " + string(p.names[n.by.class])
	case n.by.kind < 0:
		return "no provider has " + n.traitName(p) + ", which root_required names"
	}
	return "no provider has " + n.traitName(p) + ", which is asked with " + p.kinds[n.by.kind].what()
}

func (n narrowing) traitName(p *plan) string {
	if n.by.kind < 0 {
		return string(p.rootRequired[n.by.trait])
	}
	return string(p.kinds[n.by.kind].group.Required[n.by.trait][0])
}

// core is the pieces that the hosts left out cannot meet together.
func (n narrowing) core(x *explainer) *marker {
	why := x.marker(x.pieces.items, nil, nil)
	switch {
	case n.by.kind < 0:
		why.mark(x.pieces.required[n.by.trait])
		return why
	case n.by.tree:
		why.conditions(x.plan, n.by.kind, func(f *form) []int { return []int{f.tree} })
	case n.by.trait >= 0:
		why.conditions(x.plan, n.by.kind, func(f *form) []int { return f.required[n.by.trait : n.by.trait+1] })
	}
	why.amounts(x.plan, n.by.kind)
	return why
}
