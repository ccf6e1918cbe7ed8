package store

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// NewInventories is what a provider shall have, given the generation that the caller saw.
type NewInventories struct {
	Generation int
	Classes    map[resource.Class]resource.Inventory
}

// Reshape replaces inventories of providers and allocations of consumers together, or changes nothing: POST /reshaper.
//
// Claims are judged against the new inventories and those that go; these may go when no allocation is left on them.
// Invalid placement.resource_provider.not_found: no such provider among the inventories; Invalid: no such provider or class
// in claims; Conflict placement.concurrent_update: another generation of a provider or consumer; Conflict
// placement.inventory.inuse: a class that would go has allocations; Conflict without a code: a claim does not fit.
func (s *Store) Reshape(ctx context.Context, inventories map[provider.ID]NewInventories, claims []Claim) (change Change, err error) {
	claims, err = s.prepare(claims)
	if err != nil {
		return Change{}, fault.Wrap("", "placement.store.Reshape", err)
	}
	ids := slices.Sorted(maps.Keys(inventories))
	err = s.writeClaims(ctx, "Reshape", func(tx *sqldb.Tx) error {
		if err := hold(ctx, tx, set(append(named(claims), ids...))...); err != nil {
			return err
		}
		providers, err := findProvidersOf(ctx, tx, ids)
		if err != nil {
			return err
		}
		if e, ok := unknown("resource provider", ids, providers).(*fault.Error); ok {
			return e.WithCode(codeNoProvider)
		}
		for _, id := range ids {
			if err := providers[id].expect(inventories[id].Generation); err != nil {
				return err
			}
		}
		if _, err := seen(ctx, tx, claims); err != nil { // before any class is looked at, as in the original
			return err
		}
		rest := map[provider.ID]map[resource.Class]int64{}
		for _, id := range ids {
			if rest[id], err = s.setInventories(ctx, tx, providers[id], inventories[id].Classes); err != nil {
				return err
			}
		}
		done, err := s.settle(ctx, tx, claims)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := dropInventories(ctx, tx, providers[id], rest[id]); err != nil {
				return err
			}
		}
		change = Change{Roots: set(append(roots(slices.Collect(maps.Values(providers))...), done.roots...))}
		return s.raiseReshaped(ctx, tx, providers, inventories, done.touched)
	})
	return change, err
}

// raiseReshaped raises a provider's generation as often as the original does: for new inventories, for claims, and at the end.
func (s *Store) raiseReshaped(ctx context.Context, tx *sqldb.Tx, providers map[provider.ID]providerRow,
	inventories map[provider.ID]NewInventories, touched map[provider.ID]guarded) error {
	by := map[int][]guarded{}
	for id, g := range touched {
		if _, ok := providers[id]; !ok {
			by[1] = append(by[1], g)
		}
	}
	for id, p := range providers {
		n := 1
		if len(inventories[id].Classes) > 0 {
			n++
		}
		if _, ok := touched[id]; ok {
			n++
		}
		by[n] = append(by[n], p.guard())
	}
	for _, n := range slices.Sorted(maps.Keys(by)) {
		if err := s.raise(ctx, tx, n, by[n]...); err != nil {
			return err
		}
	}
	return nil
}
