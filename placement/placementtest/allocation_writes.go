package placementtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// PutAllocation replaces the allocation of a consumer by held; an empty one removes it.
func (p *Placement) PutAllocation(_ context.Context, id resource.ConsumerID, held placement.ConsumerAllocation) error {
	return p.do(Call{Op: "PutAllocation", Consumer: []resource.ConsumerID{id}}, func() error {
		if now := p.treeState(held.Tree); held.TreeState != "" && beforeLastDot(held.TreeState) != beforeLastDot(now) {
			return refuse(fault.Conflict, "allocations on the tree of %s may have been removed since", held.Tree).
				WithCode(placement.CodeTreeChanged)
		}
		return p.put(map[resource.ConsumerID]placement.ConsumerAllocation{id: held})
	})
}

// PutAllocations replaces the allocations of several consumers, all or none.
func (p *Placement) PutAllocations(_ context.Context,
	all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	return p.do(Call{Op: "PutAllocations", Consumer: slices.Sorted(maps.Keys(all))}, func() error { return p.put(all) })
}

// treeState returns the state of a tree; see placement.TreeStateHeader.
func (d *database) treeState(root provider.ID) string {
	return fmt.Sprintf("%d.%d.%d", d.restores, d.writes[root].removals, d.writes[root].additions)
}

func beforeLastDot(state string) string { return state[:max(0, strings.LastIndexByte(state, '.'))] }

// DeleteAllocation removes the allocation of a consumer. It returns nil also if there is none. It raises no generation.
func (p *Placement) DeleteAllocation(_ context.Context, id resource.ConsumerID) error {
	return p.do(Call{Op: "DeleteAllocation", Consumer: []resource.ConsumerID{id}}, func() error {
		p.write(id, consumer{})
		return nil
	})
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
	ids, before, usedBefore := slices.Sorted(maps.Keys(all)), d.saved(all), d.usedAtTargets(all)
	for _, id := range ids {
		d.write(id, consumer{})
	}
	raised := map[provider.ID]bool{}
	for _, id := range ids {
		next := all[id].Allocation.Add(nil)
		if err := d.fits(id, next, usedBefore); err != nil {
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

// usedAtTargets returns what is in use at the providers that allocations name.
func (d *database) usedAtTargets(
	all map[resource.ConsumerID]placement.ConsumerAllocation) map[provider.ID]resource.Amounts {
	used := map[provider.ID]resource.Amounts{}
	for _, next := range all {
		for on := range next.Allocation {
			used[on] = maps.Clone(d.used[on])
		}
	}
	return used
}

// fits returns fault.Conflict if there is not enough room for an allocation. before is what was in use before the
// request: a use above the capacity is allowed if it is not above that.
func (d *database) fits(id resource.ConsumerID, allocation resource.Allocation,
	before map[provider.ID]resource.Amounts) error {
	for _, on := range slices.Sorted(maps.Keys(allocation)) {
		p := d.providers[on]
		for _, class := range allocation[on].Sorted() {
			inv, exists := p.Inventories[class]
			why := "has no inventory of it"
			if exists {
				used := d.used[on][class]
				limit := before[on][class]
				if d.older {
					limit = used
				}
				why = inv.Refuse(limit, used, allocation[on][class])
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
			counts := d.writes[p.Root]
			counts.removals++
			d.writes[p.Root] = counts
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
			counts := d.writes[p.Root]
			counts.additions++
			d.writes[p.Root] = counts
		}
	}
	if len(next.allocation) == 0 {
		delete(d.consumers, id)
		return
	}
	d.consumers[id] = next
}
