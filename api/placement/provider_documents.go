package placement

import (
	"bytes"
	"encoding/json"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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

// InventorySet contains all inventories of a provider, and the provider's generation.
type InventorySet struct {
	Generation  int
	Inventories map[resource.Class]resource.Inventory
}
