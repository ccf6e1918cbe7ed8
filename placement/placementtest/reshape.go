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
