package store

import (
	"context"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Trait is a trait that Placement knows.
type Trait struct {
	Name     resource.Trait
	Modified time.Time // updated_at, or created_at when it never was
}

// TraitFilter selects traits; the zero value selects all.
type TraitFilter struct {
	In         []resource.Trait // name=in:…; nil: any name
	Prefix     string           // name=startswith:…
	Associated *bool            // some provider has it, or none has
}

// ProviderTraits is the traits of one provider, by name, at one generation.
type ProviderTraits struct {
	Generation int
	Traits     []Trait
}

// Traits lists the traits that pass the filter, by name. Names that do not exist are left out.
func (s *Store) Traits(ctx context.Context, filter TraitFilter) ([]Trait, error) {
	return nil, s.pending("Traits")
}

// Trait reads one trait; NotFound.
func (s *Store) Trait(ctx context.Context, name resource.Trait) (Trait, error) {
	return Trait{}, s.pending("Trait")
}

// EnsureTrait adds a custom trait unless it is there; created says which. The caller has judged the name.
func (s *Store) EnsureTrait(ctx context.Context, name resource.Trait) (trait Trait, created bool, err error) {
	return Trait{}, false, s.pending("EnsureTrait")
}

// DeleteTrait removes a custom trait. NotFound; Invalid: a standard one; Conflict: a provider has it.
func (s *Store) DeleteTrait(ctx context.Context, name resource.Trait) error {
	return s.pending("DeleteTrait")
}

// ProviderTraits reads the traits of a provider; NotFound.
func (s *Store) ProviderTraits(ctx context.Context, id provider.ID) (ProviderTraits, error) {
	return ProviderTraits{}, s.pending("ProviderTraits")
}

// ReplaceTraits makes the provider have exactly these; its generation rises when that changes anything.
// NotFound; Invalid: an unknown trait; Conflict placement.concurrent_update: another generation.
func (s *Store) ReplaceTraits(ctx context.Context, id provider.ID, generation int, traits []resource.Trait) (ProviderTraits, Change, error) {
	return ProviderTraits{}, Change{}, s.pending("ReplaceTraits")
}

// ClearTraits takes all traits away, whatever the generation is; it rises when there were any. NotFound.
func (s *Store) ClearTraits(ctx context.Context, id provider.ID) (Change, error) {
	return Change{}, s.pending("ClearTraits")
}
