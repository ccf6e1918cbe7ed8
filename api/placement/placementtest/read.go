package placementtest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ProviderByName returns the provider of this name, without its inventories; fault.NotFound if there is none.
func (p *Placement) ProviderByName(_ context.Context, name string) (found provider.Provider, err error) {
	err = p.do(Call{Op: "ProviderByName"}, func() error {
		row := p.byName(name)
		if row == nil {
			return fault.New(fault.NotFound, "placementtest", "no resource provider is called %q", name)
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
			return fault.New(fault.NotFound, "placementtest", "No resource provider with uuid %s found", id)
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

// Allocation returns the allocation of a consumer. Without any, the allocation is empty and the generation nil.
func (p *Placement) Allocation(_ context.Context, id resource.ConsumerID) (
	held placement.ConsumerAllocation, err error) {
	err = p.do(Call{Op: "Allocation", Consumer: []resource.ConsumerID{id}}, func() error {
		held.Allocation = resource.Allocation{}
		if c, exists := p.consumers[id]; exists {
			held = placement.ConsumerAllocation{Allocation: cloned(c.allocation), Generation: &c.generation,
				Project: c.project, User: c.user, ConsumerType: c.kind}
		}
		return nil
	})
	return held, err
}

// cloned returns a copy of an allocation without providers from which nothing is taken.
func cloned(a resource.Allocation) resource.Allocation {
	out := make(resource.Allocation, len(a))
	for id, amounts := range a {
		if len(amounts) > 0 {
			out[id] = maps.Clone(amounts)
		}
	}
	return out
}

// Candidates returns the allocation candidates for an ask. An empty list is not an error. It returns fault.Invalid if
// the ask names a class or a trait that does not exist, or has several suffixed groups and no group policy. The amounts
// of the candidates may be shared: do not modify them.
func (p *Placement) Candidates(_ context.Context, ask resource.Ask) (found placement.Candidates, err error) {
	err = p.do(Call{Op: "Candidates"}, func() error {
		if err := p.checkAsk(ask); err != nil {
			return err
		}
		found.List, found.Summaries = []placement.Candidate{}, map[provider.ID]placement.Summary{}
		for c := range candidate.Find(p.currentSnapshot(), ask, candidate.Options{BreadthFirst: true}) {
			one := placement.Candidate{Allocation: c.Allocation(), Mappings: c.Mappings()}
			found.List = append(found.List, one)
			for _, take := range c.Takes {
				p.summarise(take.Tree.Root, found.Summaries)
			}
		}
		return nil
	})
	return found, err
}

// checkAsk returns fault.Invalid for an ask that the real service rejects.
func (d *database) checkAsk(ask resource.Ask) error {
	var missing []string
	check := func(sets ...[]resource.Trait) {
		for _, trait := range slices.Concat(sets...) {
			if !d.hasTrait(trait) {
				missing = append(missing, string(trait))
			}
		}
	}
	for _, g := range ask.Groups {
		for _, class := range g.Resources.Sorted() {
			if !d.hasClass(class) {
				return refuse(fault.Invalid, "Invalid resource class in resources parameter: "+
					"No such resource class %s.", class)
			}
		}
		check(g.Required...)
		check(g.Forbidden)
	}
	if ask.Suffixed() > 1 && ask.GroupPolicy == resource.PolicyUnset {
		return refuse(fault.Invalid, "group_policy is required if more than one group has a suffix")
	}
	if check(ask.RootRequired, ask.RootForbidden); len(missing) > 0 {
		return refuse(fault.Invalid, "No such trait(s): %s.", strings.Join(missing, ", "))
	}
	return nil
}

func (d *database) hasClass(class resource.Class) bool {
	return d.classes[class] || !strings.HasPrefix(string(class), "CUSTOM_")
}

func (d *database) hasTrait(trait resource.Trait) bool {
	return d.traits[trait] || !strings.HasPrefix(string(trait), "CUSTOM_")
}

// currentSnapshot returns the snapshot of all trees, updated for those that have changed.
func (d *database) currentSnapshot() *index.Snapshot {
	for _, root := range slices.Sorted(maps.Keys(d.stale)) {
		var rows []index.Row
		for _, id := range d.trees[root] {
			rows = append(rows, index.Row{Provider: *d.providers[id], Used: d.used[id]})
		}
		d.snapshot = d.snapshot.Replace(root, rows)
	}
	clear(d.stale)
	return d.snapshot
}

// summarise adds the summaries of all providers of a tree, unless they are there.
func (d *database) summarise(root provider.ID, out map[provider.ID]placement.Summary) {
	if _, done := out[root]; done {
		return
	}
	for _, id := range d.trees[root] {
		p := d.providers[id]
		s := placement.Summary{Root: p.Root, Parent: p.Parent, Traits: append([]resource.Trait{}, p.Traits...),
			Resources: make(map[resource.Class]placement.Capacity, len(p.Inventories))}
		for class, inv := range p.Inventories {
			s.Resources[class] = placement.Capacity{Capacity: inv.Capacity(), Used: d.used[id][class]}
		}
		out[id] = s
	}
}
