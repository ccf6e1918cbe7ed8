package placementtest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// EnsureClass creates a custom resource class if it does not exist.
func (p *Placement) EnsureClass(_ context.Context, class resource.Class) error {
	return p.do(Call{Op: "EnsureClass"}, func() error { p.classes[class] = true; return nil })
}

// EnsureTrait creates a custom trait if it does not exist.
func (p *Placement) EnsureTrait(_ context.Context, trait resource.Trait) error {
	return p.do(Call{Op: "EnsureTrait"}, func() error { p.traits[trait] = true; return nil })
}

// CreateProvider creates a provider, a root if parent is empty. It returns fault.Conflict if the name or the id is in
// use, and fault.Invalid if the parent does not exist.
func (p *Placement) CreateProvider(_ context.Context, id provider.ID, name string, parent provider.ID) (
	made provider.Provider, err error) {
	err = p.do(Call{Op: "CreateProvider", Provider: id}, func() error {
		root := id
		if parent != "" {
			above, err := p.find(parent)
			if err != nil || parent == id {
				return refuse(fault.Invalid, "the parent %s of provider %s does not exist", parent, id)
			}
			root = above.Root
		}
		if p.providers[id] != nil || p.byName(name) != nil {
			return refuse(fault.Conflict, "the resource provider %s (%s) exists already", name, id).
				WithCode(placement.CodeDuplicateName)
		}
		made = provider.Provider{ID: id, Name: name, Parent: parent, Root: root}
		p.add(made)
		return nil
	})
	return made, err
}

// add adds a provider to its tree.
func (d *database) add(p provider.Provider) {
	d.providers[p.ID], d.trees[p.Root] = &p, append(d.trees[p.Root], p.ID)
	d.touch(p.Root)
}

// DeleteProvider deletes a provider that has neither children nor allocations.
func (p *Placement) DeleteProvider(_ context.Context, id provider.ID) error {
	return p.do(Call{Op: "DeleteProvider", Provider: id}, func() error {
		row, err := p.find(id)
		if err != nil {
			return err
		}
		for _, other := range p.trees[row.Root] {
			if p.providers[other].Parent == id {
				return refuse(fault.Conflict, "the resource provider %s has children", id).
					WithCode(placement.CodeProviderCannotDelete)
			}
		}
		if len(p.holders[id]) > 0 {
			return refuse(fault.Conflict, "the resource provider %s has allocations", id).
				WithCode(placement.CodeProviderInUse)
		}
		p.remove(row)
		return nil
	})
}

// remove removes a provider from its tree.
func (d *database) remove(p *provider.Provider) {
	delete(d.providers, p.ID)
	left := slices.DeleteFunc(d.trees[p.Root], func(id provider.ID) bool { return id == p.ID })
	if d.trees[p.Root] = left; len(left) == 0 {
		delete(d.trees, p.Root)
	}
	d.touch(p.Root)
}

// PutTraits replaces all traits of a provider and returns its new generation.
func (p *Placement) PutTraits(_ context.Context, id provider.ID, generation int, traits []resource.Trait) (
	next int, err error) {
	err = p.do(Call{Op: "PutTraits", Provider: id}, func() error {
		row, err := p.findAt(id, generation)
		if err != nil {
			return err
		}
		for _, trait := range traits {
			if !p.hasTrait(trait) {
				return refuse(fault.Invalid, "No such trait(s): %s.", trait)
			}
		}
		sorted := slices.Compact(slices.Sorted(slices.Values(traits)))
		if !slices.Equal(row.Traits, sorted) { // equal traits do not raise the generation
			row.Traits = sorted
			row.Generation++
			p.touch(row.Root)
		}
		next = row.Generation
		return nil
	})
	return next, err
}

// PutInventories replaces all inventories of a provider and returns its new generation. An inventory may become smaller
// than its usage.
func (p *Placement) PutInventories(_ context.Context, id provider.ID, generation int,
	inventories map[resource.Class]resource.Inventory) (next int, err error) {
	err = p.do(Call{Op: "PutInventories", Provider: id}, func() error {
		row, err := p.findAt(id, generation)
		if err != nil {
			return err
		}
		for class, inv := range inventories {
			if inv.Capacity() < 0 {
				return refuse(fault.Invalid, "Invalid inventory for '%s' on resource provider '%s': "+
					"reserved is %d of a total of %d", class, id, inv.Reserved, inv.Total)
			}
		}
		if err := p.checkInventories(row, inventories); err != nil {
			return err
		}
		row.Inventories = maps.Clone(inventories)
		row.Generation++
		next = row.Generation
		p.touch(row.Root)
		return nil
	})
	return next, err
}

// checkInventories returns why the inventories of a provider cannot be replaced: an unknown class, or one that would be
// removed and is in use.
func (d *database) checkInventories(p *provider.Provider, next map[resource.Class]resource.Inventory) error {
	if err := d.checkClasses(next); err != nil {
		return err
	}
	return d.checkRemoved(p.ID, p.Inventories, next)
}

func (d *database) checkClasses(all map[resource.Class]resource.Inventory) error {
	for _, class := range slices.Sorted(maps.Keys(all)) {
		if !d.hasClass(class) {
			return refuse(fault.Invalid, "No such resource class: %s.", class)
		}
	}
	return nil
}

func (d *database) checkRemoved(id provider.ID, before, next map[resource.Class]resource.Inventory) error {
	for _, class := range slices.Sorted(maps.Keys(before)) {
		if _, stays := next[class]; !stays && d.used[id][class] > 0 {
			return refuse(fault.Conflict, "the inventory of %s on the resource provider %s is in use",
				class, id).WithCode(placement.CodeInventoryInUse)
		}
	}
	return nil
}

// PutAllocation replaces the allocation of a consumer by held; an empty one removes it.
func (p *Placement) PutAllocation(_ context.Context, id resource.ConsumerID, held placement.ConsumerAllocation) error {
	return p.do(Call{Op: "PutAllocation", Consumer: []resource.ConsumerID{id}}, func() error {
		return p.put(map[resource.ConsumerID]placement.ConsumerAllocation{id: held})
	})
}

// PutAllocations replaces the allocations of several consumers, all or none.
func (p *Placement) PutAllocations(_ context.Context,
	all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	return p.do(Call{Op: "PutAllocations", Consumer: slices.Sorted(maps.Keys(all))}, func() error { return p.put(all) })
}

// DeleteAllocation removes the allocation of a consumer. It returns nil also if there is none. It raises no generation.
func (p *Placement) DeleteAllocation(_ context.Context, id resource.ConsumerID) error {
	return p.do(Call{Op: "DeleteAllocation", Consumer: []resource.ConsumerID{id}}, func() error {
		p.write(id, consumer{})
		return nil
	})
}

// Reshape replaces inventories of providers and allocations of consumers together, or changes nothing. Claims are
// checked against the new inventories and those that will be removed.
func (p *Placement) Reshape(_ context.Context, r placement.Reshape) error {
	return p.do(Call{Op: "Reshape", Consumer: slices.Sorted(maps.Keys(r.Allocations))}, func() error {
		if err := checkOwners(r.Allocations); err != nil {
			return err
		}
		ids := slices.Sorted(maps.Keys(r.Inventories))
		for _, id := range ids {
			if p.providers[id] == nil {
				return refuse(fault.Invalid, "no resource provider %s", id).WithCode(placement.CodeProviderNotFound)
			}
			if _, err := p.findAt(id, r.Inventories[id].Generation); err != nil {
				return err
			}
		}
		if err := p.checkGenerations(r.Allocations); err != nil {
			return err
		}
		return p.reshape(ids, r)
	})
}

// reshape is the part of Reshape after the generations are checked.
func (d *database) reshape(ids []provider.ID, r placement.Reshape) error {
	before := map[provider.ID]map[resource.Class]resource.Inventory{}
	for _, id := range ids {
		if err := d.checkClasses(r.Inventories[id].Inventories); err != nil {
			return err
		}
		before[id] = d.providers[id].Inventories
	}
	saved := d.saved(r.Allocations)
	for _, id := range ids {
		both := maps.Clone(r.Inventories[id].Inventories)
		if both == nil {
			both = map[resource.Class]resource.Inventory{}
		}
		for class, inv := range before[id] {
			if _, replaced := both[class]; !replaced {
				both[class] = inv
			}
		}
		d.providers[id].Inventories = both
	}
	err := d.put(r.Allocations)
	for _, id := range ids {
		if err == nil {
			err = d.checkRemoved(id, before[id], r.Inventories[id].Inventories)
		}
	}
	for _, id := range ids {
		p := d.providers[id]
		if p.Inventories = maps.Clone(r.Inventories[id].Inventories); err != nil {
			p.Inventories = before[id]
			continue
		}
		if p.Generation++; len(r.Inventories[id].Inventories) > 0 {
			p.Generation++ // as often as the real service
		}
		d.touch(p.Root)
	}
	if err != nil {
		d.rollBack(saved)
	}
	return err
}

// checkGenerations returns a concurrent update if a consumer has another generation than its caller has read.
func (d *database) checkGenerations(all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	for _, id := range slices.Sorted(maps.Keys(all)) {
		now, exists := d.consumers[id]
		if want := all[id].Generation; exists != (want != nil) || exists && *want != now.generation {
			return concurrent("the consumer %s has generation %d now (0: it does not exist): read it again", id,
				now.generation)
		}
	}
	return nil
}

// saved is what a transaction replaces: consumers, and the generations of providers.
type saved struct {
	consumers   map[resource.ConsumerID]consumer
	generations map[provider.ID]int
}

func (d *database) saved(all map[resource.ConsumerID]placement.ConsumerAllocation) saved {
	s := saved{map[resource.ConsumerID]consumer{}, map[provider.ID]int{}}
	for id, next := range all {
		s.consumers[id] = d.consumers[id]
		for _, allocation := range []resource.Allocation{d.consumers[id].allocation, next.Allocation} {
			for p := range allocation {
				if d.providers[p] != nil {
					s.generations[p] = d.providers[p].Generation
				}
			}
		}
	}
	return s
}

func (d *database) rollBack(s saved) {
	for _, id := range slices.Sorted(maps.Keys(s.consumers)) {
		d.write(id, s.consumers[id])
	}
	for id, generation := range s.generations {
		d.providers[id].Generation = generation
	}
}

// put replaces the allocations of consumers, all or none. A provider gets another generation if an allocation names it,
// or if an empty one releases it.
func (d *database) put(all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	if err := cmp.Or(checkOwners(all), d.checkGenerations(all), d.checkTargets(all)); err != nil {
		return err
	}
	ids, before := slices.Sorted(maps.Keys(all)), d.saved(all)
	for _, id := range ids {
		d.write(id, consumer{})
	}
	raised := map[provider.ID]bool{}
	for _, id := range ids {
		next := cloned(all[id].Allocation)
		if err := d.fits(id, next); err != nil {
			d.rollBack(before)
			return err
		}
		old := before.consumers[id]
		kind := all[id].ConsumerType
		if kind == "unknown" {
			kind = instance // as the client writes it
		}
		d.write(id, consumer{allocation: next, generation: old.generation + 1, project: all[id].Project,
			user: all[id].User, kind: kind})
		names := next
		if len(next) == 0 {
			names = old.allocation
		}
		for p := range names {
			raised[p] = true
		}
	}
	for id := range raised {
		if p := d.providers[id]; p != nil {
			p.Generation++
		}
	}
	return nil
}

// instance is the consumer type of servers.
const instance = "INSTANCE"

// checkOwners returns fault.Invalid for an allocation without project, user or consumer type.
func checkOwners(all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if held := all[id]; held.Project == "" || held.User == "" || held.ConsumerType == "" {
			return refuse(fault.Invalid, "the allocation of consumer %s names no project, user or consumer type", id)
		}
	}
	return nil
}

// checkTargets returns fault.Invalid for the first provider or class in allocations that does not exist.
func (d *database) checkTargets(all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	var unknown error
	for _, id := range slices.Sorted(maps.Keys(all)) {
		for _, on := range slices.Sorted(maps.Keys(all[id].Allocation)) {
			if d.providers[on] == nil && len(all[id].Allocation[on]) > 0 {
				return refuse(fault.Invalid, "no resource provider %s", on)
			}
			for _, class := range all[id].Allocation[on].Sorted() {
				if !d.hasClass(class) {
					unknown = cmp.Or(unknown, error(refuse(fault.Invalid, "No such resource class: %s.", class)))
				}
			}
		}
	}
	return unknown
}

// fits returns fault.Conflict if there is not enough room for an allocation.
func (d *database) fits(id resource.ConsumerID, allocation resource.Allocation) error {
	for _, on := range slices.Sorted(maps.Keys(allocation)) {
		p := d.providers[on]
		for _, class := range allocation[on].Sorted() {
			inv, exists := p.Inventories[class]
			why := "has no inventory of it"
			if exists {
				why = inv.Refuse(d.used[on][class], allocation[on][class])
			}
			if why != "" {
				return refuse(fault.Conflict, "%s on the resource provider %s: consumer %s %s", class, p.Name, id, why)
			}
		}
	}
	return nil
}

// write sets a consumer, or removes it if it has no allocation. It checks nothing and raises no generation.
func (d *database) write(id resource.ConsumerID, next consumer) {
	before := d.consumers[id].allocation
	for _, on := range slices.Sorted(maps.Keys(before)) {
		amounts := before[on]
		if delete(d.holders[on], id); len(d.holders[on]) == 0 {
			delete(d.holders, on)
		}
		for class, n := range amounts {
			if d.used[on][class] -= n; d.used[on][class] == 0 {
				delete(d.used[on], class)
			}
		}
		if len(d.used[on]) == 0 {
			delete(d.used, on)
		}
		if p := d.providers[on]; p != nil {
			d.touch(p.Root)
		}
	}
	for _, on := range slices.Sorted(maps.Keys(next.allocation)) {
		amounts := next.allocation[on]
		if d.holders[on] == nil {
			d.holders[on] = map[resource.ConsumerID]resource.Amounts{}
		}
		if d.used[on] == nil {
			d.used[on] = resource.Amounts{}
		}
		d.holders[on][id] = amounts
		for class, n := range amounts {
			d.used[on][class] += n
		}
		if p := d.providers[on]; p != nil {
			d.touch(p.Root)
		}
	}
	if len(next.allocation) == 0 {
		delete(d.consumers, id)
		return
	}
	d.consumers[id] = next
}
