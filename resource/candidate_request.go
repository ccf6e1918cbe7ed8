package resource

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
