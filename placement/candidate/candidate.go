// Package candidate finds the allocation candidates for an ask, lazily and exactly.
//
// The candidates are those of OpenStack Placement at microversion 1.39, as a set: no more, no fewer. Each class of the
// unsuffixed group comes from one provider of the tree, or from a sharing provider that has an aggregate in common
// with any provider of the tree. Its providers have the required traits between them, and none of them has a forbidden
// one. An aggregate of the root applies to the whole tree. A suffixed group comes from one provider, which by itself
// has all that the group names. What several groups take from one provider must fit together, also within max_unit.
//
// Some rules are less obvious. They are kept because callers may depend on them:
//   - A group without resources must require a trait or a member_of to be met at all, and in_tree does not bind it.
//   - in_tree keeps an unsuffixed group from sharing providers of other trees. It does not keep a suffixed group that
//     a sharing provider meets from being combined with another tree.
//   - A sharing provider serves an unsuffixed group with member_of in other trees only if it is a member itself.
//
// In two cases the original's answer depends on the order of its database's internal numbers, and this package follows
// the rules. An unsuffixed group met by sharing providers alone is combined with the suffixed groups of every tree
// they serve, not of one of them. Where the unsuffixed group and a suffixed one take the same class from one provider
// with group_policy=none, amounts are added once.
//
// The ask is compiled once (package match): equal groups become one item class with a count, and item classes that do
// not compete become sections of their own. For each tree, the providers that can serve each item class are listed
// (slots). A section in which a provider takes a fixed number of items is decided by a maximum flow, that is by
// counting. The other sections (different amounts of one class, same_subtree, traits required of several providers
// together) are decided by a search that applies a counting bound before it tries. Both keep a witness, one complete
// placement, while the candidates are enumerated: an item is placed only where the others can still be placed. So the
// enumeration never enters a branch without a candidate, and nine groups on eight devices are refused without trying
// one. Trees of one shape (index.Shape) have the same candidates: they are computed once.
//
// Packing unequal amounts is a hard problem, so a crafted ask can run for a very long time. The memory of a search is
// bounded, and Options.Stop ends it. A search that was stopped must not be reported as an empty answer.
package candidate

import (
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is one way to meet a whole ask. Find overwrites Takes with the next candidate.
type Candidate struct {
	Root  provider.ID // of the tree; also set where all providers are sharing ones
	Takes []Take      // in the order of the ask's groups; the unsuffixed group has one for each of its classes
}

// Take is what one group, or one class of the unsuffixed group, takes from one provider.
type Take struct {
	index.Place
	Slot    int              // a small number; within a Candidate, equal numbers mean the same provider
	Item    int              // its position in Takes, the same in every Candidate for an ask
	Suffix  string           // of the group
	Amounts resource.Amounts // shared by all candidates: do not modify; empty for a group without resources
}

// Clone returns a copy that Find does not overwrite.
func (c Candidate) Clone() Candidate { return Candidate{c.Root, slices.Clone(c.Takes)} }

// Allocation returns what a claim of the candidate would hold. Its amounts may be shared with other candidates: do not
// modify them.
func (c Candidate) Allocation() resource.Allocation {
	out := make(resource.Allocation, len(c.Takes))
	for i := range c.Takes {
		t := &c.Takes[i]
		if len(t.Amounts) == 0 {
			continue
		}
		id := t.Node().ID
		held, several := out[id]
		if !several {
			out[id] = t.Amounts
			continue
		}
		if c.takesOf(t.Slot, i) == 1 { // held belongs to the first take
			held = maps.Clone(held)
			out[id] = held
		}
		for class, n := range t.Amounts {
			held[class] += n
		}
	}
	return out
}

// takesOf counts the takes with amounts on a slot, among the first n.
func (c Candidate) takesOf(slot, n int) (takes int) {
	for i := range n {
		if t := &c.Takes[i]; t.Slot == slot && len(t.Amounts) > 0 {
			takes++
		}
	}
	return takes
}

// Mappings returns the providers that meet each group, by the suffix of the group.
func (c Candidate) Mappings() map[string][]provider.ID {
	out := make(map[string][]provider.ID, len(c.Takes))
	ids := make([]provider.ID, len(c.Takes))
	for i := range c.Takes {
		t := &c.Takes[i]
		ids[i] = t.Node().ID
		if list := out[t.Suffix]; list == nil {
			out[t.Suffix] = ids[i : i+1 : i+1]
		} else if !slices.Contains(list, ids[i]) {
			out[t.Suffix] = append(list, ids[i])
		}
	}
	return out
}
