package placement

import (
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ConsumerAllocation contains the allocations of a consumer, and its owner.
type ConsumerAllocation struct {
	Allocation    resource.Allocation
	Mappings      map[string][]provider.ID // only written: Placement does not store it
	Generation    *int                     // of the consumer; nil: it does not exist yet
	Project, User string
	ConsumerType  string // such as INSTANCE

	// If TreeState is set, PutAllocation refuses the allocation with CodeTreeChanged unless it is the state of the tree
	// of this root provider, apart from additions; see IfTreeStateHeader.
	Tree      provider.ID
	TreeState string
}

// Reshape is a request to move inventories and their allocations between providers.
type Reshape struct {
	Inventories map[provider.ID]InventorySet
	Allocations map[resource.ConsumerID]ConsumerAllocation
}

// ShareDoc contains the amounts that one consumer has on one provider.
type ShareDoc struct {
	Resources  resource.Amounts `json:"resources"`
	Generation *int             `json:"generation,omitempty"`
}

// AllocationsDoc contains the allocations of one consumer: the body of PUT /allocations/{consumer} (since 1.12), the
// values of POST /allocations and of a reshape, and the answer of GET.
type AllocationsDoc struct {
	Allocations  map[provider.ID]ShareDoc `json:"allocations"`
	Mappings     map[string][]provider.ID `json:"mappings,omitempty"`
	Generation   *int                     `json:"consumer_generation"`
	Project      string                   `json:"project_id,omitempty"`
	User         string                   `json:"user_id,omitempty"`
	ConsumerType string                   `json:"consumer_type,omitempty"`
}

// GET returns the consumer type unknown for a consumer that was written before 1.38, as Nova writes it, but PUT does
// not accept that type. The client writes instance in its place, because its consumers are servers.
const (
	untyped  = "unknown"
	instance = "INSTANCE"
)

func allocationsDoc(h ConsumerAllocation) AllocationsDoc {
	doc := AllocationsDoc{Allocations: make(map[provider.ID]ShareDoc, len(h.Allocation)), Mappings: h.Mappings,
		Generation: h.Generation, Project: h.Project, User: h.User, ConsumerType: h.ConsumerType}
	if doc.ConsumerType == untyped {
		doc.ConsumerType = instance
	}
	for id, amounts := range h.Allocation {
		if len(amounts) > 0 {
			doc.Allocations[id] = ShareDoc{Resources: amounts}
		}
	}
	return doc
}

// Held returns the document as a ConsumerAllocation.
func (d AllocationsDoc) Held() ConsumerAllocation {
	h := ConsumerAllocation{Allocation: make(resource.Allocation, len(d.Allocations)), Mappings: d.Mappings,
		Generation: d.Generation,
		Project:    d.Project, User: d.User, ConsumerType: d.ConsumerType}
	for id, share := range d.Allocations {
		h.Allocation[id] = share.Resources
	}
	return h
}

// ProviderAllocationsDoc is the answer of GET /resource_providers/{uuid}/allocations.
type ProviderAllocationsDoc struct {
	Generation  int                              `json:"resource_provider_generation"`
	Allocations map[resource.ConsumerID]ShareDoc `json:"allocations"`

	Tree map[provider.ID]map[resource.ConsumerID]resource.Amounts `json:"tree,omitempty"` // see WholeTree
}

// byConsumer returns the allocations on the provider by consumer; nil if there is no document.
func (d ProviderAllocationsDoc) byConsumer() map[resource.ConsumerID]resource.Amounts {
	if d.Allocations == nil {
		return nil
	}
	out := make(map[resource.ConsumerID]resource.Amounts, len(d.Allocations))
	for consumer, a := range d.Allocations {
		out[consumer] = a.Resources
	}
	return out
}

// TreeAllocations are allocations on the tree of a root provider.
type TreeAllocations struct {
	By    map[provider.ID]map[resource.ConsumerID]resource.Amounts // by provider; those without any may be left out
	Whole bool                                                     // By has all providers; otherwise only the root
	State string                                                   // of the tree before By was read; empty: none
}

// ReshapeDoc is the body of POST /reshaper.
type ReshapeDoc struct {
	Inventories map[provider.ID]InventoriesDoc         `json:"inventories"`
	Allocations map[resource.ConsumerID]AllocationsDoc `json:"allocations"`
}

func reshapeDoc(r Reshape) ReshapeDoc {
	doc := ReshapeDoc{Inventories: make(map[provider.ID]InventoriesDoc, len(r.Inventories)),
		Allocations: make(map[resource.ConsumerID]AllocationsDoc, len(r.Allocations))}
	for id, stock := range r.Inventories {
		doc.Inventories[id] = inventoriesDoc(stock.Generation, stock.Inventories)
	}
	for id, held := range r.Allocations {
		doc.Allocations[id] = allocationsDoc(held)
	}
	return doc
}
