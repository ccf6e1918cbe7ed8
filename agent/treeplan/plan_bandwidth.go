package treeplan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Bandwidth is the desired state of the bandwidth providers below the roots that a host reports for. They belong to the
// reporter by their names and IDs, not by a trait: they must be equal to those that Neutron reports.
type Bandwidth struct {
	Providers []bandwidth.Device // parents before children; each parent is a root or a desired provider
	// Owns reports whether the reporter may delete a bandwidth provider that is not among Providers.
	Owns func(provider.Provider, bandwidth.Name) bool
}

// MakeBandwidth plans the changes of bandwidth providers from trees, which holds all providers of the roots. Providers
// match by ID. A provider that is no longer desired is deleted when it has no allocation; otherwise its inventories are
// reserved whole, so that nothing more is placed on it, and an objection names the consumers. Nothing else is changed:
// neither roots, nor other providers, nor traits and classes of other clients. With nil uses nothing counts as held.
func MakeBandwidth(aim Bandwidth, trees provider.Tree, uses Uses, owned OwnedSet) Plan {
	b := bandwidthPlanner{planner: planner{actual: trees, uses: uses, owned: owned, known: names(trees)}, aim: aim,
		present: map[provider.ID]bool{}}
	b.plan.Owned = OwnedSet{}
	for _, p := range trees.Providers {
		b.present[p.ID] = true
	}
	wanted := map[provider.ID]bool{}
	for _, want := range aim.Providers {
		wanted[want.Provider.ID] = true
		if have, ready := b.place(want); ready {
			b.fill(want, have)
		}
	}
	for _, have := range slices.Backward(trees.Sorted().Providers) {
		if n, is := bandwidth.Recognise(have); is && !wanted[have.ID] && aim.Owns(have, n) {
			b.retire(have)
		}
	}
	b.plan.Steps = slices.Concat(b.nameSteps, b.plan.Steps)
	return b.plan
}

type bandwidthPlanner struct {
	planner
	aim     Bandwidth
	present map[provider.ID]bool // providers that exist, or that the plan creates
}

// place plans the creation of a provider, or its move to the right parent and name. ready is false when it will not
// exist.
func (b *bandwidthPlanner) place(want bandwidth.Device) (have provider.Provider, ready bool) {
	p := want.Provider
	have, exists := b.actual.ByID(p.ID)
	if !b.present[p.Parent] {
		return have, false // its parent has an objection
	}
	if other, taken := b.actual.ByName(p.Name); taken && other.ID != p.ID {
		b.object(p, "%s cannot be reported: provider %s has this name and another ID; delete or rename that "+
			"provider", p.Name, other.ID)
		return have, false
	}
	switch {
	case !exists && want.Absent != "":
		b.object(p, "%s is not reported: %s", p.Name, want.Absent)
		return have, false
	case !exists:
		have = provider.Provider{ID: p.ID, Name: p.Name, Parent: p.Parent}
		b.present[p.ID] = true
		b.plan.Steps = append(b.plan.Steps, Step{Op: CreateProvider, Provider: p.ID, Name: p.Name,
			Parent: p.Parent, Change: "under " + b.nameOf(p.Parent)})
	case have.Parent != p.Parent || have.Name != p.Name:
		change := "under " + b.nameOf(p.Parent)
		if have.Name != p.Name {
			change += ", name was " + have.Name
		}
		b.plan.Steps = append(b.plan.Steps, Step{Op: MoveProvider, Provider: p.ID, Name: p.Name,
			Parent: p.Parent, Generation: have.Generation, Change: change})
	}
	return have, true
}

// fill plans the traits and the inventories of a provider.
func (b *bandwidthPlanner) fill(want bandwidth.Device, have provider.Provider) {
	p := want.Provider
	foreign := slices.DeleteFunc(slices.Clone(have.Traits), bandwidth.IsReported)
	traits := unique(append(foreign, p.Traits...))
	inventories := b.inventories(want, have)
	var classes []resource.Class
	for _, class := range slices.Sorted(maps.Keys(inventories)) {
		if slices.Contains(bandwidth.Classes(), class) {
			classes = append(classes, class)
		}
	}
	b.plan.Owned[have.ID] = Owned{Classes: classes, Traits: unique(p.Traits)}
	if !slices.Equal(traits, unique(have.Traits)) {
		for _, t := range traits {
			b.planName(CreateTrait, string(t))
		}
		b.plan.Steps = append(b.plan.Steps, Step{Op: PutTraits, Provider: have.ID, Name: p.Name,
			Generation: have.Generation, Traits: traits, Change: traitChange(have.Traits, traits)})
	}
	b.putInventories(have, p.Name, inventories)
}

func (b *bandwidthPlanner) putInventories(have provider.Provider, name string,
	inventories map[resource.Class]resource.Inventory) {
	if maps.Equal(inventories, have.Inventories) {
		return
	}
	b.plan.Steps = append(b.plan.Steps, Step{Op: PutInventories, Provider: have.ID, Name: name,
		Generation: have.Generation, Inventories: inventories, Change: inventoryChange(have.Inventories, inventories)})
}

// inventories returns the inventories that a provider must have: those of other clients, the desired ones, and former
// ones that consumers hold.
func (b *bandwidthPlanner) inventories(want bandwidth.Device,
	have provider.Provider) map[resource.Class]resource.Inventory {
	if want.Absent != "" {
		b.object(have, "%s is reserved: %s", have.Name, want.Absent)
		return reserved(have.Inventories)
	}
	out := map[resource.Class]resource.Inventory{}
	maps.Copy(out, have.Inventories)
	for _, class := range bandwidth.Classes() {
		holders, used := b.holders(have.ID, class)
		next, desired := want.Provider.Inventories[class]
		before, exists := have.Inventories[class]
		switch {
		case desired:
			out[class] = next
			if exists && used > next.Capacity() {
				b.addNote("%s has %d %s allocated, more than its capacity of %d: %s; nothing more is placed there until it "+
					"fits", have.Name, used, class, next.Capacity(), heldBy(holders))
			}
		case exists && len(holders) > 0:
			before.Reserved = before.Total
			out[class] = before
			b.addObjection(have, class, holders, "it is no longer configured and all of it is reserved")
		default:
			delete(out, class)
		}
	}
	return out
}

// retire plans the deletion of a provider that is no longer desired, or reserves it while it has allocations or
// children.
func (b *bandwidthPlanner) retire(have provider.Provider) {
	blocked := false
	if holders := b.uses.all(have.ID); len(holders) > 0 {
		blocked = true
		b.object(have, "%s stays with all of it reserved: it is no longer configured, but %s", have.Name, heldBy(holders))
	}
	for _, child := range b.actual.Children(have.ID) {
		if !slices.Contains(b.deleted, child.ID) {
			blocked = true
			b.object(have, "%s stays: it is no longer configured, but the provider %s is its child", have.Name, child.Name)
		}
	}
	if blocked {
		b.plan.Owned[have.ID] = b.owned[have.ID]
		b.putInventories(have, have.Name, reserved(have.Inventories))
		return
	}
	if record, written := b.owned[have.ID]; written {
		b.plan.Owned[have.ID] = record // until it is gone
	}
	b.deleted = append(b.deleted, have.ID)
	b.plan.Steps = append(b.plan.Steps, Step{Op: DeleteProvider, Provider: have.ID, Name: have.Name,
		Generation: have.Generation, Change: "it is no longer configured"})
}

// reserved returns inventories with all of the reporter's classes reserved.
func reserved(inventories map[resource.Class]resource.Inventory) map[resource.Class]resource.Inventory {
	out := map[resource.Class]resource.Inventory{}
	for class, inv := range inventories {
		if slices.Contains(bandwidth.Classes(), class) {
			inv.Reserved = inv.Total
		}
		out[class] = inv
	}
	return out
}

func (b *bandwidthPlanner) object(p provider.Provider, format string, args ...any) {
	b.plan.Objections = append(b.plan.Objections, Objection{Provider: p.ID, Name: p.Name,
		Text: fmt.Sprintf(format, args...)})
}
