package placement

import (
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is one way to satisfy an ask: the amounts per provider, and the providers of each group.
type Candidate struct {
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID // by the group's suffix
}

// Capacity is the total amount of a class that a provider can allocate, and the amount that is allocated.
type Capacity struct {
	Capacity int `json:"capacity"`
	Used     int `json:"used"`
}

// Summary describes a provider in the trees of the candidates, whether or not a candidate uses it.
type Summary struct {
	Root, Parent provider.ID // Parent is empty for a root
	Resources    map[resource.Class]Capacity
	Traits       []resource.Trait
}

// Candidates is the result of Client.Candidates.
type Candidates struct {
	List      []Candidate
	Summaries map[provider.ID]Summary
	Reason    string // why the list is empty, in one line; only Berth's Placement sets it
	// Complete reports that no limit of Placement has cut the list. It is false if that is not known: only Berth's
	// Placement reports its limit, which is in Limit then; 0: none, or not known.
	Complete bool
	Limit    int
	// Undecided is what Berth's Placement has not decided, for people: there may be more candidates. Empty: nothing.
	Undecided string
	// Why explains an empty list to a scheduler; only Berth's Placement sends it. nil: no explanation.
	Why *Explanation
}

// CandidatesDoc is the answer of GET /allocation_candidates since microversion 1.34.
type CandidatesDoc struct {
	Requests  []AllocationRequest        `json:"allocation_requests"`
	Summaries map[provider.ID]SummaryDoc `json:"provider_summaries"`
	Undecided string                     `json:"berth_undecided,omitempty"`
	Why       *Explanation               `json:"berth_explanation,omitempty"`
}

// AllocationRequest is one candidate, in the form that PUT /allocations takes.
type AllocationRequest struct {
	Allocations map[provider.ID]ShareDoc `json:"allocations"`
	Mappings    map[string][]provider.ID `json:"mappings"`
}

// SummaryDoc describes one provider in the trees of the candidates.
type SummaryDoc struct {
	Resources map[resource.Class]Capacity `json:"resources"`
	Traits    []resource.Trait            `json:"traits"`
	Parent    *provider.ID                `json:"parent_provider_uuid"`
	Root      provider.ID                 `json:"root_provider_uuid"`
}

// Candidates returns the document as Candidates.
func (d CandidatesDoc) Candidates() Candidates {
	out := Candidates{List: make([]Candidate, len(d.Requests)),
		Summaries: make(map[provider.ID]Summary, len(d.Summaries))}
	for i, r := range d.Requests {
		c := Candidate{Allocation: make(resource.Allocation, len(r.Allocations)), Mappings: r.Mappings}
		for id, share := range r.Allocations {
			c.Allocation[id] = share.Resources
		}
		out.List[i] = c
	}
	for id, s := range d.Summaries {
		sum := Summary{Root: s.Root, Resources: s.Resources, Traits: s.Traits}
		if s.Parent != nil {
			sum.Parent = *s.Parent
		}
		out.Summaries[id] = sum
	}
	return out
}
