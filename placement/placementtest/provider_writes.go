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

// PutProvider changes the name and the parent of a provider, which moves with all providers below it. It returns
// fault.Conflict if another provider has the name, and fault.Invalid if the parent does not exist or is below the
// provider.
func (p *Placement) PutProvider(_ context.Context, id provider.ID, name string, parent provider.ID) (
	changed provider.Provider, err error) {
	err = p.do(Call{Op: "PutProvider", Provider: id}, func() error {
		row, err := p.find(id)
		if err != nil {
			return err
		}
		above, err := p.find(parent)
		if err != nil {
			return refuse(fault.Invalid, "the parent %s of provider %s does not exist", parent, id)
		}
		if p.isBelow(parent, id) {
			return refuse(fault.Invalid, "the parent %s is below the provider %s", parent, id)
		}
		if other := p.byName(name); other != nil && other.ID != id {
			return refuse(fault.Conflict, "the resource provider %s exists already", name).
				WithCode(placement.CodeDuplicateName)
		}
		from := row.Root
		for _, moved := range slices.Clone(p.trees[from]) {
			if !p.isBelow(moved, id) {
				continue
			}
			next := *p.providers[moved]
			if next.ID == id {
				next.Name, next.Parent = name, parent
			}
			p.remove(p.providers[moved])
			next.Root = above.Root
			p.add(next)
		}
		now := p.providers[id]
		changed = provider.Provider{ID: id, Name: name, Parent: parent, Root: now.Root, Generation: now.Generation}
		return nil
	})
	return changed, err
}

// isBelow reports whether a provider is another one or below it.
func (d *database) isBelow(id, other provider.ID) bool {
	for at := d.providers[id]; at != nil; at = d.providers[at.Parent] {
		if at.ID == other {
			return true
		}
	}
	return false
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
