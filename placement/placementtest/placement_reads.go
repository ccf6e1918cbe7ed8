package placementtest

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ProviderByName returns the provider of this name, without its inventories; fault.NotFound if there is none.
func (p *Placement) ProviderByName(_ context.Context, name string) (found provider.Provider, err error) {
	err = p.do(Call{Op: "ProviderByName"}, func() error {
		row := p.byName(name)
		if row == nil {
			return fault.New(fault.NotFound, "no resource provider is called %q", name)
		}
		found = provider.Provider{ID: row.ID, Name: row.Name, Parent: row.Parent, Root: row.Root,
			Generation: row.Generation}
		return nil
	})
	return found, err
}

func (d *database) byName(name string) *provider.Provider {
	for _, p := range d.providers {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Tree returns all providers of the tree that contains id; fault.NotFound if the provider does not exist.
func (p *Placement) Tree(_ context.Context, id provider.ID) (tree provider.Tree, err error) {
	err = p.do(Call{Op: "Tree", Provider: id}, func() error {
		row := p.providers[id]
		if row == nil { // the client finds no provider in an empty list
			return fault.New(fault.NotFound, "No resource provider with uuid %s found", id)
		}
		for _, id := range p.trees[row.Root] {
			tree.Providers = append(tree.Providers, copyOf(p.providers[id]))
		}
		tree = tree.Sorted()
		return nil
	})
	return tree, err
}

// copyOf returns a provider that shares nothing with p.
func copyOf(p *provider.Provider) provider.Provider {
	out := *p
	if out.Inventories = maps.Clone(p.Inventories); out.Inventories == nil {
		out.Inventories = map[resource.Class]resource.Inventory{}
	}
	out.Traits = slices.Clone(p.Traits)
	return out
}

// Inventories returns the inventories of a provider and its generation; fault.NotFound if the provider does not exist.
func (p *Placement) Inventories(_ context.Context, id provider.ID) (all placement.InventorySet, err error) {
	err = p.do(Call{Op: "Inventories", Provider: id}, func() error {
		row, err := p.find(id)
		if err == nil {
			all = placement.InventorySet{Generation: row.Generation, Inventories: copyOf(row).Inventories}
		}
		return err
	})
	return all, err
}

// Usages returns how much of each class in its inventory is used on a provider.
func (p *Placement) Usages(_ context.Context, id provider.ID) (used resource.Amounts, err error) {
	err = p.do(Call{Op: "Usages", Provider: id}, func() error {
		row, err := p.find(id)
		if err != nil {
			return err
		}
		used = resource.Amounts{}
		for class := range row.Inventories {
			used[class] = p.used[id][class]
		}
		return nil
	})
	return used, err
}

// ProviderAllocations returns the allocations on a provider, by consumer.
func (p *Placement) ProviderAllocations(_ context.Context, id provider.ID) (
	all map[resource.ConsumerID]resource.Amounts, err error) {
	err = p.do(Call{Op: "ProviderAllocations", Provider: id}, func() error {
		if _, err := p.find(id); err != nil {
			return err
		}
		all = make(map[resource.ConsumerID]resource.Amounts, len(p.holders[id]))
		for consumer, amounts := range p.holders[id] {
			all[consumer] = maps.Clone(amounts)
		}
		return nil
	})
	return all, err
}

// TreeAllocations returns the allocations on a root provider, or on its whole tree, and the state of the tree.
func (p *Placement) TreeAllocations(_ context.Context, root provider.ID, whole bool) (
	all placement.TreeAllocations, err error) {
	err = p.do(Call{Op: "TreeAllocations", Provider: root}, func() error {
		if _, err := p.find(root); err != nil {
			return err
		}
		ids := []provider.ID{root}
		all = placement.TreeAllocations{By: map[provider.ID]map[resource.ConsumerID]resource.Amounts{}}
		if !p.NoTreeStates {
			all.State, all.Whole = p.treeState(root), whole
		}
		if all.Whole {
			ids = p.trees[root]
		}
		for _, id := range ids {
			all.By[id] = make(map[resource.ConsumerID]resource.Amounts, len(p.holders[id]))
			for consumer, amounts := range p.holders[id] {
				all.By[id][consumer] = maps.Clone(amounts)
			}
		}
		return nil
	})
	return all, err
}

// TreeState returns the state of the tree of a root provider.
func (p *Placement) TreeState(_ context.Context, root provider.ID) (state string, err error) {
	err = p.do(Call{Op: "TreeState", Provider: root}, func() error {
		if _, err := p.find(root); err != nil {
			return err
		}
		if !p.NoTreeStates {
			state = p.treeState(root)
		}
		return nil
	})
	return state, err
}

// Allocation returns the allocation of a consumer. Without any, the allocation is empty and the generation nil.
func (p *Placement) Allocation(_ context.Context, id resource.ConsumerID) (
	held placement.ConsumerAllocation, err error) {
	err = p.do(Call{Op: "Allocation", Consumer: []resource.ConsumerID{id}}, func() error {
		held.Allocation = resource.Allocation{}
		if c, exists := p.consumers[id]; exists {
			held = placement.ConsumerAllocation{Allocation: c.allocation.Add(nil), Generation: &c.generation,
				Project: c.project, User: c.user, ConsumerType: c.kind}
		}
		return nil
	})
	return held, err
}
