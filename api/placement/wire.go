package placement

import (
	"bytes"
	"encoding/json"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The codes of Placement's error bodies, as the OpenStack API reference lists them.
const (
	CodeUndefined            = "placement.undefined_code"
	CodeConcurrentUpdate     = "placement.concurrent_update"
	CodeDuplicateName        = "placement.duplicate_name"
	CodeProviderInUse        = "placement.resource_provider.inuse"
	CodeProviderCannotDelete = "placement.resource_provider.cannot_delete_parent"
	CodeProviderNotFound     = "placement.resource_provider.not_found"
	CodeInventoryInUse       = "placement.inventory.inuse"
	CodeQueryBadValue        = "placement.query.bad_value"
	CodeQueryMissingValue    = "placement.query.missing_value"
	CodeQueryDuplicateKey    = "placement.query.duplicate_key"
)

// ErrorsDoc is the body of every answer with an error status. Berth sends one error.
type ErrorsDoc struct {
	Errors []ErrorDoc `json:"errors"`
}

// ErrorDoc is one error. Code exists since microversion 1.23; the versions belong to status 406 alone.
type ErrorDoc struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	MaxVersion string `json:"max_version,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
	RequestID  string `json:"request_id"`
}

// Link is a reference to something of the same service, such as "self" or "inventories".
type Link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// NewProvider is the body of POST /resource_providers. Without a UUID the service chooses one.
type NewProvider struct {
	Name   string       `json:"name"`
	UUID   provider.ID  `json:"uuid,omitempty"`
	Parent *provider.ID `json:"parent_provider_uuid,omitempty"`
}

// ProviderDoc is one resource provider. Parent and Root exist since microversion 1.14.
type ProviderDoc struct {
	UUID       provider.ID  `json:"uuid"`
	Name       string       `json:"name"`
	Generation int          `json:"generation"`
	Parent     *provider.ID `json:"parent_provider_uuid"`
	Root       provider.ID  `json:"root_provider_uuid"`
	Links      []Link       `json:"links"`
}

// Provider returns the document as a provider.Provider.
func (d ProviderDoc) Provider() provider.Provider {
	p := provider.Provider{ID: d.UUID, Name: d.Name, Root: d.Root, Generation: d.Generation}
	if d.Parent != nil {
		p.Parent = *d.Parent
	}
	return p
}

// ProvidersDoc is the answer of GET /resource_providers.
type ProvidersDoc struct {
	Providers []ProviderDoc `json:"resource_providers"`
}

// InventoryDoc is one inventory. A member that is omitted in a request has Placement's default.
type InventoryDoc struct {
	Total           int    `json:"total"`
	Reserved        *int   `json:"reserved,omitempty"`
	MinUnit         *int   `json:"min_unit,omitempty"`
	MaxUnit         *int   `json:"max_unit,omitempty"`
	StepSize        *int   `json:"step_size,omitempty"`
	AllocationRatio *Ratio `json:"allocation_ratio,omitempty"`
}

// Ratio is a number that is always written with a decimal point, such as 1.0, as in the original. Clients in
// dynamically typed languages distinguish 1.0 from 1.
type Ratio float64

// MarshalJSON returns the number with a decimal point or an exponent.
func (r Ratio) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(float64(r))
	if err == nil && !bytes.ContainsAny(text, ".e") {
		text = append(text, ".0"...)
	}
	return text, err
}

// Inventory returns the document as a resource.Inventory, with Placement's defaults for omitted members.
func (d InventoryDoc) Inventory() resource.Inventory {
	inv := resource.Inventory{Total: d.Total, MinUnit: 1, MaxUnit: resource.MaxAmount, StepSize: 1, AllocationRatio: 1}
	set(&inv.Reserved, d.Reserved)
	set(&inv.MinUnit, d.MinUnit)
	set(&inv.MaxUnit, d.MaxUnit)
	set(&inv.StepSize, d.StepSize)
	if d.AllocationRatio != nil {
		inv.AllocationRatio = float64(*d.AllocationRatio)
	}
	return inv
}

// set copies a value unless the pointer is nil.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// NewInventoryDoc returns the document of an inventory, with all members.
func NewInventoryDoc(inv resource.Inventory) InventoryDoc {
	ratio := Ratio(inv.AllocationRatio)
	return InventoryDoc{Total: inv.Total, Reserved: &inv.Reserved, MinUnit: &inv.MinUnit, MaxUnit: &inv.MaxUnit,
		StepSize: &inv.StepSize, AllocationRatio: &ratio}
}

// InventoriesDoc is all inventories of a provider, in requests and answers.
type InventoriesDoc struct {
	Generation  int                             `json:"resource_provider_generation"`
	Inventories map[resource.Class]InventoryDoc `json:"inventories"`
}

func inventoriesDoc(generation int, inv map[resource.Class]resource.Inventory) InventoriesDoc {
	doc := InventoriesDoc{Generation: generation, Inventories: make(map[resource.Class]InventoryDoc, len(inv))}
	for class, i := range inv {
		doc.Inventories[class] = NewInventoryDoc(i)
	}
	return doc
}

// ProviderTraitsDoc is the traits of a provider, in requests and answers.
type ProviderTraitsDoc struct {
	Generation int              `json:"resource_provider_generation"`
	Traits     []resource.Trait `json:"traits"`
}

// AggregatesDoc is the aggregates of a provider, in requests and answers since microversion 1.19.
type AggregatesDoc struct {
	Generation int                    `json:"resource_provider_generation"`
	Aggregates []resource.AggregateID `json:"aggregates"`
}

// UsagesDoc is the answer of GET /resource_providers/{uuid}/usages.
type UsagesDoc struct {
	Generation int              `json:"resource_provider_generation"`
	Usages     resource.Amounts `json:"usages"`
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

// Held returns the document as a Held.
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

// CandidatesDoc is the answer of GET /allocation_candidates since microversion 1.34.
type CandidatesDoc struct {
	Requests  []AllocationRequest        `json:"allocation_requests"`
	Summaries map[provider.ID]SummaryDoc `json:"provider_summaries"`
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
