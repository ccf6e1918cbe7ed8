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
}

// Held contains the allocations of a consumer, and its owner.
type ConsumerAllocation struct {
	Allocation    resource.Allocation
	Mappings      map[string][]provider.ID // only written: Placement does not store it
	Generation    *int                     // of the consumer; nil: it does not exist yet
	Project, User string
	ConsumerType  string // such as INSTANCE
}

// Stock contains all inventories of a provider, and the provider's generation.
type InventorySet struct {
	Generation  int
	Inventories map[resource.Class]resource.Inventory
}

// Reshape is a request to move inventories and their allocations between providers.
type Reshape struct {
	Inventories map[provider.ID]InventorySet
	Allocations map[resource.ConsumerID]ConsumerAllocation
}
