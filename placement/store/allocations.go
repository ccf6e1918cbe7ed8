package store

import (
	"context"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Claim is what one consumer shall hold from now on, in place of whatever it held.
type Claim struct {
	Consumer     resource.ConsumerID
	Allocation   resource.Allocation // amounts are 1 or more; empty: the consumer lets everything go
	Guarded      bool                // microversion 1.28: Generation must be the consumer's
	Generation   *int                // nil: the consumer must not exist yet
	Project      string              // empty (before microversion 1.8): the project and user of incomplete consumers
	User         string
	ConsumerType string // empty (before microversion 1.38) or "unknown": stays as it is
}

// Held is what a consumer holds. Without any allocation only Consumer is set, as the API shows no more.
type Held struct {
	Consumer     resource.ConsumerID
	Allocation   resource.Allocation
	Generations  map[provider.ID]int // of the providers in Allocation
	Generation   int                 // of the consumer
	Project      string
	User         string
	ConsumerType string // "unknown" when it has none
	Modified     time.Time
}

// ProviderShare is what one consumer holds on one provider.
type ProviderShare struct {
	Amounts    resource.Amounts
	Generation int // of the consumer
	Project    string
	User       string
}

// ProviderAllocations is who holds what on one provider.
type ProviderAllocations struct {
	Generation int // of the provider
	Shares     map[resource.ConsumerID]ProviderShare
	Modified   time.Time // the newest of them; zero when there are none
}

// ConsumerAllocations reads what a consumer holds; an unknown consumer holds nothing, which is no fault.
func (s *Store) ConsumerAllocations(ctx context.Context, consumer resource.ConsumerID) (Held, error) {
	return Held{}, s.pending("ConsumerAllocations")
}

// ProviderAllocations reads who holds something on a provider; NotFound.
func (s *Store) ProviderAllocations(ctx context.Context, id provider.ID) (ProviderAllocations, error) {
	return ProviderAllocations{}, s.pending("ProviderAllocations")
}

// PutAllocations makes all these consumers hold what their claims say, or changes nothing: PUT and POST /allocations.
//
// Consumers, projects, users and consumer types appear when first named; a consumer that holds nothing disappears.
// The generations of consumers and of the providers named in claims rise; so do those of providers that an empty claim
// lets go, but not of providers that a claim leaves for others.
// Invalid: no such provider or class; Conflict placement.concurrent_update: a consumer has another generation, or too many
// others wrote at once; Conflict without a code: no inventory, or it does not fit, with the sentence why.
func (s *Store) PutAllocations(ctx context.Context, claims ...Claim) (Change, error) {
	return Change{}, s.pending("PutAllocations")
}

// DeleteAllocations lets a consumer hold nothing any more, whatever its generation is, and removes it. No generation of a
// provider rises. NotFound: it holds nothing.
func (s *Store) DeleteAllocations(ctx context.Context, consumer resource.ConsumerID) (Change, error) {
	return Change{}, s.pending("DeleteAllocations")
}
