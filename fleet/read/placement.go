package read

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// sharing is the trait of providers that share their inventory.
const sharing resource.Trait = "MISC_SHARES_VIA_AGGREGATE"

// placement reads the providers with their inventories, allocations and traits.
func (r *reader) placement(ctx context.Context) error {
	query := url.Values{}
	if r.Host != "" {
		root, err := r.rootOf(ctx)
		if err != nil {
			return err
		}
		if err := r.wholeTree(ctx, root); !fault.Is(err, fault.NotFound) {
			return err
		}
		query.Set("in_tree", string(root)) // it is OpenStack's, or the tree is gone
	}
	list, err := r.providers(ctx, query)
	if err != nil {
		return err
	}
	r.out.Providers = make([]fleet.Provider, len(list))
	trees := map[provider.ID][]*fleet.Provider{} // the root is the first one
	for i, p := range list {
		r.out.Providers[i].Provider = p
		at := &r.out.Providers[i]
		if trees[p.Root] = append(trees[p.Root], at); p.Parent == "" {
			slices.Reverse(trees[p.Root])
		}
	}
	var roots []provider.ID
	for root := range trees {
		roots = append(roots, root)
	}
	gone := make([]bool, len(roots))
	failed, err := r.each(ctx, len(roots), func(i int) error {
		err := r.tree(ctx, trees[roots[i]])
		if gone[i] = fault.Is(err, fault.NotFound); gone[i] {
			return nil
		}
		return err
	})
	if err != nil {
		r.gap(fleet.Providers, fmt.Errorf("%d of %d trees were not read: %w", failed, len(roots), err))
	}
	if err := r.traits(ctx); err != nil {
		r.gap(fleet.Providers, fmt.Errorf("traits were not read: %w", err))
	}
	if err := r.shared(ctx); err != nil {
		r.gap(fleet.Providers, fmt.Errorf("aggregates of sharing providers were not read: %w", err))
	}
	for i, root := range roots {
		if gone[i] { // a provider of it was deleted while it was read
			r.gap(fleet.Providers, fmt.Errorf("the tree of %s changed while it was read", trees[root][0].Name))
		}
	}
	return nil
}

// rootOf returns the id of the root provider of the host.
func (r *reader) rootOf(ctx context.Context) (id provider.ID, err error) {
	err = again(ctx, func() error {
		root, err := r.Placement.ProviderByName(ctx, r.Host)
		id = root.ID
		return err
	})
	return id, err
}

// wholeTree reads a tree with one request from Berth's Placement. It returns fault.NotFound for another one.
func (r *reader) wholeTree(ctx context.Context, root provider.ID) error {
	var tree placement.Tree
	if err := again(ctx, func() (err error) {
		tree, err = r.Placement.TreeByID(ctx, root)
		return err
	}); err != nil {
		return err
	}
	for _, doc := range tree.Providers {
		p := fleet.Provider{Provider: provider.Provider{ID: doc.ID, Name: doc.Name, Parent: doc.Parent, Root: tree.Root,
			Generation: doc.Generation, Inventories: map[resource.Class]resource.Inventory{}, Traits: doc.Traits},
			Held: doc.Allocations}
		for class, inventory := range doc.Inventories {
			p.Inventories[class] = inventory.Inventory()
		}
		if r.Shared {
			p.Aggregates = doc.Aggregates
		}
		r.out.Providers = append(r.out.Providers, p)
	}
	return nil
}

// providers returns the list of the providers that a query selects.
func (r *reader) providers(ctx context.Context, query url.Values) (list []provider.Provider, err error) {
	err = again(ctx, func() error {
		list, err = r.Placement.Providers(ctx, query)
		return err
	})
	return list, err
}

// tree reads the inventories of the providers of a tree and the allocations on them. The root is the first one.
func (r *reader) tree(ctx context.Context, tree []*fleet.Provider) error {
	held, err := r.Placement.TreeAllocations(ctx, tree[0].ID, len(tree) > 1)
	if err != nil {
		return err
	}
	for i, p := range tree {
		if p.Held = held.By[p.ID]; i > 0 && !held.Whole {
			if p.Held, err = r.Placement.ProviderAllocations(ctx, p.ID); err != nil {
				return err
			}
		}
		set, err := r.Placement.Inventories(ctx, p.ID)
		if err != nil {
			return err
		}
		p.Inventories = set.Inventories
	}
	return nil
}

// traits reads which providers have which trait: one request for each trait, because there are fewer traits than
// providers. A named trait that no provider has is not requested: Placement may not know it.
func (r *reader) traits(ctx context.Context) error {
	list := []resource.Trait{sharing}
	if r.Traits || len(r.Named) > 0 {
		var doc struct {
			Traits []resource.Trait `json:"traits"`
		}
		if err := again(ctx, func() error {
			_, err := r.Placement.REST.Do(ctx, http.MethodGet, "/traits?associated=true", nil, &doc)
			return err
		}); err != nil {
			return err
		}
		list = slices.DeleteFunc(doc.Traits, func(t resource.Trait) bool {
			return !r.Traits && t != sharing && !slices.Contains(r.Named, t)
		})
	}
	of := make([][]provider.Provider, len(list))
	_, err := r.each(ctx, len(list), func(i int) (err error) {
		of[i], err = r.Placement.Providers(ctx, url.Values{"required": {string(list[i])}})
		return err
	})
	if err != nil {
		return err
	}
	at := map[provider.ID]*fleet.Provider{}
	for i := range r.out.Providers {
		at[r.out.Providers[i].ID] = &r.out.Providers[i]
	}
	for i, trait := range list {
		for _, p := range of[i] {
			if known := at[p.ID]; known != nil {
				known.Traits = append(known.Traits, trait)
			}
		}
	}
	for _, p := range at {
		slices.Sort(p.Traits)
	}
	return nil
}

// shared reads the aggregates of sharing providers and their members, if they are wanted: one request for each sharing
// provider and one for each aggregate.
func (r *reader) shared(ctx context.Context) error {
	if !r.Shared {
		return nil
	}
	at, aggregates := map[provider.ID]*fleet.Provider{}, map[resource.AggregateID]bool{}
	for i := range r.out.Providers {
		p := &r.out.Providers[i]
		if at[p.ID] = p; !p.Shares() {
			continue
		}
		err := again(ctx, func() error {
			doc, err := r.Placement.Aggregates(ctx, p.ID)
			for _, aggregate := range doc.Aggregates {
				aggregates[aggregate] = true
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for aggregate := range aggregates {
		var members []provider.Provider
		err := again(ctx, func() (err error) {
			members, err = r.Placement.Providers(ctx, url.Values{"member_of": {string(aggregate)}})
			return err
		})
		if err != nil {
			return err
		}
		for _, m := range members {
			if p := at[m.ID]; p != nil {
				p.Aggregates = append(p.Aggregates, aggregate)
			}
		}
	}
	for _, p := range at {
		slices.Sort(p.Aggregates)
	}
	return nil
}

// Owners adds the generations and owners of consumers to a snapshot. Those that have no allocations any more get none.
// It returns the number of consumers that were not read, and the first error.
func Owners(ctx context.Context, client *placement.Client, s *fleet.Snapshot, of []resource.ConsumerID) (int, error) {
	r := &reader{Options: Options{Parallel: 16}, out: s}
	got := make([]*fleet.Consumer, len(of))
	failed, err := r.each(ctx, len(of), func(i int) error {
		held, err := client.Allocation(ctx, of[i])
		if err == nil && len(held.Allocation) > 0 {
			got[i] = &fleet.Consumer{Generation: held.Generation, Project: held.Project, User: held.User,
				Type: held.ConsumerType}
		}
		return err
	})
	if s.Consumers == nil {
		s.Consumers = map[resource.ConsumerID]fleet.Consumer{}
	}
	for i, consumer := range of {
		if got[i] != nil {
			s.Consumers[consumer] = *got[i]
		}
	}
	return failed, err
}
