package store

import (
	"context"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Provider is one provider as the list shows it: without inventories, traits and aggregates.
type Provider struct {
	provider.Provider
	Modified time.Time // updated_at, or created_at when it never was
}

// Filter selects providers; empty fields select all. What is given must all hold.
type Filter struct {
	Name        string
	ID          provider.ID
	InTree      provider.ID              // only the tree that holds this provider; none when there is no such provider
	MemberOf    [][]resource.AggregateID // each: a member of at least one of these
	NotMemberOf []resource.AggregateID   // a member of none of these
}

// Update is what a provider shall be called and, when Move is set, under whom it shall lie.
type Update struct {
	Name   string
	Move   bool        // Parent is meant, also when it is empty
	Parent provider.ID // empty: the provider becomes a root
	Free   bool        // microversion 1.37: a provider that has a parent may get another one, or none
}

// Providers lists the providers that pass the filter, oldest first.
func (s *Store) Providers(ctx context.Context, filter Filter) ([]Provider, error) {
	return nil, s.pending("Providers")
}

// Provider reads one provider; NotFound.
func (s *Store) Provider(ctx context.Context, id provider.ID) (Provider, error) {
	return Provider{}, s.pending("Provider")
}

// CreateProvider adds a provider of generation 0; an empty parent makes a root.
// Conflict placement.duplicate_name: the ID or the name is taken. Invalid: the parent does not exist or is the provider itself.
func (s *Store) CreateProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (Provider, Change, error) {
	return Provider{}, Change{}, s.pending("CreateProvider")
}

// UpdateProvider renames and moves a provider with all that lies under it; its generation stays.
// NotFound; Conflict placement.duplicate_name; Invalid: the parent does not exist, would make a loop, or Free is needed.
func (s *Store) UpdateProvider(ctx context.Context, id provider.ID, to Update) (Provider, Change, error) {
	return Provider{}, Change{}, s.pending("UpdateProvider")
}

// DeleteProvider removes a provider with its inventories, traits and aggregate memberships. NotFound; Conflict
// placement.resource_provider.inuse (allocations) or placement.resource_provider.cannot_delete_parent (children).
func (s *Store) DeleteProvider(ctx context.Context, id provider.ID) (Change, error) {
	return Change{}, s.pending("DeleteProvider")
}
