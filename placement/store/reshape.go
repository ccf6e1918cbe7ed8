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

// NewInventories are the new inventories of a provider, and the generation that the request names.
type NewInventories struct {
	Generation int
	Classes    map[resource.Class]resource.Inventory
}

// Reshape replaces inventories of providers and allocations of consumers together, or changes nothing: POST
// /reshaper.
//
// Claims are checked against the new inventories and those that will be removed; these are removed if no allocation
// remains on them. Faults: Invalid placement.resource_provider.not_found: no such provider among the inventories;
// Invalid: no such provider or class in claims; Conflict placement.concurrent_update: another generation of a
// provider or consumer; Conflict placement.inventory.inuse: a class that would be removed has allocations; Conflict
// without a code: a claim does not fit.
func (s *Store) Reshape(ctx context.Context, inventories map[provider.ID]NewInventories,
	claims []Claim) (change Change, err error) {
	claims, err = s.prepare(claims)
	if err != nil {
		return Change{}, fault.Wrap("", err)
	}
	a, err := untilKnown(ctx, s.db, func() (reshapeAttempt, error) { return s.tryReshape(ctx, inventories, claims) },
		func(ctx context.Context, a reshapeAttempt) (outcome, error) { return s.findReshape(ctx, claims, a) })
	s.states.wrote(a.change.Roots, true)
	return a.change, err
}

// reshapeAttempt is one attempt to run a reshape.
type reshapeAttempt struct {
	claimAttempt
	inventories []providerChange
}

func (s *Store) tryReshape(ctx context.Context, inventories map[provider.ID]NewInventories,
	claims []Claim) (a reshapeAttempt, err error) {
	ids := slices.Sorted(maps.Keys(inventories))
	err = s.writeClaims(ctx, "Reshape", func(tx *sqldb.Tx) error {
		s := s.withFixedClock()
		if err := lockProviders(ctx, tx, sortedSet(append(providersOfClaims(claims), ids...))...); err != nil {
			return err
		}
		providers, err := findProvidersOf(ctx, tx, ids)
		if err != nil {
			return err
		}
		if e, ok := unknownNames("resource provider", ids, providers).(*fault.Error); ok {
			return e.WithCode(codeNoProvider)
		}
		for _, id := range ids {
			if err := providers[id].expect(inventories[id].Generation); err != nil {
				return err
			}
		}
		// before the classes are checked, as in the original
		if _, err := checkedConsumers(ctx, tx, claims); err != nil {
			return err
		}
		rest := map[provider.ID]map[resource.Class]int64{}
		for _, id := range ids {
			if rest[id], err = s.setInventories(ctx, tx, providers[id], inventories[id].Classes); err != nil {
				return err
			}
		}
		done, err := s.replaceAllocations(ctx, tx, claims)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := dropInventories(ctx, tx, providers[id], rest[id]); err != nil {
				return err
			}
		}
		change := Change{Roots: sortedSet(append(roots(slices.Collect(maps.Values(providers))...), done.roots...))}
		a = reshapeAttempt{
			claimAttempt: claimAttempt{known: done.known, first: done.first, at: s.now(), change: change},
		}
		return s.raiseReshaped(ctx, tx, providers, inventories, done.touched, &a)
	})
	return a, err
}

// findReshape determines the outcome of a reshape: from its claims, and if these do not decide, from the providers
// whose inventories it replaced.
func (s *Store) findReshape(ctx context.Context, claims []Claim, a reshapeAttempt) (outcome, error) {
	ids := providersOfClaims(claims)
	for _, r := range a.raised {
		ids = append(ids, r.id)
	}
	return s.findOut(ctx, ids, func(tx *sqldb.Tx) (outcome, error) {
		became, err := a.judge(ctx, tx, claims)
		if err != nil || became == committed && a.first.consumer != "" || became == rolledBack {
			return became, err
		}
		for _, m := range a.inventories {
			if became, err := m.judge(ctx, tx); err != nil || became != undecided {
				return became, err
			}
		}
		if len(a.inventories) > 0 {
			return undecided, nil
		}
		return became, nil
	})
}

// raiseReshaped raises a provider's generation as often as the original does: for new inventories, for claims, and at
// the end. It records in a which providers it raises.
func (s *Store) raiseReshaped(ctx context.Context, tx *sqldb.Tx, providers map[provider.ID]providerRow,
	inventories map[provider.ID]NewInventories, touched map[provider.ID]guarded, a *reshapeAttempt) error {
	by := map[int][]guarded{}
	for id, g := range touched {
		if _, ok := providers[id]; !ok {
			by[1] = append(by[1], g)
			a.raised = append(a.raised, raisedProvider{id, g.id, g.generation + 1})
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
		want := inventorySet{present: inventories[id].Classes, only: true}
		a.raised = append(a.raised, p.raisedBy(n))
		a.inventories = append(a.inventories,
			providerChange{raisedProvider: p.raisedBy(n), at: a.at, compare: want.comparison(p.id, a.at)})
	}
	for _, n := range slices.Sorted(maps.Keys(by)) {
		if err := s.raise(ctx, tx, n, by[n]...); err != nil {
			return err
		}
	}
	return nil
}
