package resource

import (
	"maps"
	"slices"
)

// Policy is Placement's group_policy: whether suffixed groups may share a provider.
type Policy string

// The two values of Placement's group_policy. PolicyUnset is allowed with at most one suffixed group.
const (
	PolicyUnset   Policy = ""
	PolicyNone    Policy = "none"
	PolicyIsolate Policy = "isolate"
)

// Ask is one request to the solver: the parameters of Placement's GET /allocation_candidates.
type Ask struct {
	Groups      []Group // in order of appearance; the unsuffixed one, if any, has Suffix ""
	GroupPolicy Policy  // group_policy
	// same_subtree: each a set of suffixes whose providers must have one of them as common ancestor
	SameSubtree   [][]string
	RootRequired  []Trait // root_required: traits that the root provider must have
	RootForbidden []Trait // root_required with "!": traits it must not have
	Flat          bool    // only one provider of a tree is used: as before microversion 1.29
	Limit         int     // the largest number of candidates; 0 means all
}

// Group is one request group. The unsuffixed group can be spread over a tree and its sharing providers; a suffixed
// one uses a single provider.
type Group struct {
	Suffix      string          // "" for the unsuffixed group, else such as "1" or "_NIC"
	Resources   Amounts         // may be empty for a suffixed group named in same_subtree
	Required    [][]Trait       // each: at least one of these (a plain trait is a set of one; "in:" is a larger one)
	Forbidden   []Trait         // none of these
	MemberOf    [][]AggregateID // each: a member of at least one of these
	NotMemberOf []AggregateID   // a member of none of these
	InTree      ProviderID      // only providers of the tree of this provider; "" for any
}

// Suffixed returns the number of groups with a suffix.
func (a Ask) Suffixed() int {
	n := 0
	for _, g := range a.Groups {
		if g.Suffix != "" {
			n++
		}
	}
	return n
}

// treeSuffix is the suffix of the group that Ask.InTree adds.
const treeSuffix = "_IN_TREE"

// InTree returns the request for the candidates of one provider tree and of the providers that share with it. in_tree
// of the unsuffixed group would exclude the latter, such as a shared DISK_GB. So one class of that group, which hosts
// have themselves, becomes a group of its own: all providers of a candidate that do not share are of one tree. With
// PolicyIsolate this would be one more provider to isolate, so the groups with a suffix are restricted; they are then
// not taken from sharing providers.
func (a Ask) InTree(tree ProviderID) Ask {
	a.Groups = slices.Clone(a.Groups)
	whole := slices.IndexFunc(a.Groups, func(g Group) bool { return g.Suffix == "" })
	if whole >= 0 && a.GroupPolicy != PolicyIsolate {
		if own := a.Groups[whole].ownClass(); own != "" {
			all := maps.Clone(a.Groups[whole].Resources)
			one := Group{Suffix: treeSuffix, Resources: Amounts{own: all[own]}, InTree: tree}
			if delete(all, own); len(all) == 1 && all["DISK_GB"] > 0 { // the provider of the disk need not have the traits
				one.Required, one.Forbidden = a.Groups[whole].Required, a.Groups[whole].Forbidden
				a.Groups[whole].Required = nil
			}
			a.Groups[whole].Resources = all
			if a.Suffixed() > 0 && a.GroupPolicy == PolicyUnset {
				a.GroupPolicy = PolicyNone
			}
			a.Groups = append(a.Groups, one)
			return a
		}
	}
	suffixed := a.Suffixed() > 0
	for i, g := range a.Groups {
		if g.Suffix != "" || !suffixed {
			a.Groups[i].InTree = tree
		}
	}
	return a
}

// ownClass returns a class of the unsuffixed group that a host has itself and that InTree can request alone, or "".
// Memory is preferred, because traits of the group are often those of the CPUs. If there are traits, another class of
// the host must remain to have them, or only the disk, which needs none.
func (g Group) ownClass() Class {
	var own []Class
	for _, class := range []Class{"MEMORY_MB", "VCPU", "PCPU"} {
		if g.Resources[class] > 0 {
			own = append(own, class)
		}
	}
	onlyDisk := len(g.Resources) == 2 && g.Resources["DISK_GB"] > 0
	if len(own) == 0 || len(own) == 1 && !onlyDisk && (len(g.Required) > 0 || len(g.Resources) == 1) {
		return ""
	}
	return own[0]
}

// Total returns the sum of the requested amounts of all groups, by class.
func (a Ask) Total() Amounts {
	sum := Amounts{}
	for _, g := range a.Groups {
		for c, n := range g.Resources {
			sum[c] += n
		}
	}
	return sum
}
