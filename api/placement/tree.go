package placement

import (
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Tree is the answer of GET /berth/v1/trees/{uuid} of Berth's Placement.
type Tree struct {
	Root      provider.ID    `json:"root_provider_uuid"`
	Providers []TreeProvider `json:"providers"` // parents before their children
}

// TreeProvider is a provider with all that Placement has of it. Usages are the sums of Allocations.
type TreeProvider struct {
	ID          provider.ID                              `json:"uuid"`
	Name        string                                   `json:"name"`
	Parent      provider.ID                              `json:"parent_provider_uuid,omitempty"`
	Generation  int                                      `json:"generation"`
	Inventories map[resource.Class]InventoryDoc          `json:"inventories"`
	Usages      resource.Amounts                         `json:"usages"`
	Traits      []resource.Trait                         `json:"traits"`
	Aggregates  []resource.AggregateID                   `json:"aggregates"`
	Allocations map[resource.ConsumerID]resource.Amounts `json:"allocations"` // by consumer
}
