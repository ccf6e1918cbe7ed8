package sync

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// draft returns the plan without the usages of providers. final reports that the plan needs none. Invalid: the
// configuration cannot be reported.
func draft(v view, set device.Set, written journal.State, stateOf func(resource.ConsumerID) treeplan.HolderState) (
	d planning, final bool, err error) {
	facts, held := v.facts, set.Claims()
	facts.Held, d.kinds = split(held, v.kinds)
	d.disabled, d.reserved = disabledDevices(set), written.Reserved()
	if d.host, d.hostNotes, err = survey.Desired(facts); err != nil {
		return d, false, err
	}
	d.owned = ownedOf(written)
	d.aim.Ratios, d.aim.ReservedClasses, d.aim.Returned = survey.Ratios(facts), survey.ReservedClasses(facts),
		cleanedProviders(v.offers, written)
	if err := d.addKinds(nil); err != nil {
		return d, false, err
	}
	d.reserveDisabled(facts.Actual)
	if facts.Report || facts.NUMA.InPlacement {
		nodes := state.UsedNodes(written, facts.Host, d.host)
		d.aim.Expected = treeplan.ExpectedAllocations(d.aim.Tree, held, nodes, stateOf)
	}
	if d.Plan, err = treeplan.Make(d.aim, facts.Actual, nil, d.owned); err != nil {
		return d, false, err
	}
	return d, d.Plan.Empty() && len(d.aim.Expected) == 0, nil
}

// usedProviders lists the providers whose usages the final plan needs, by id: the existing ones that the draft changes
// or whose devices guests hold.
func (d planning) usedProviders(actual provider.Tree) []provider.ID {
	used := map[provider.ID]bool{}
	for _, step := range d.Plan.Steps {
		used[step.Provider] = true
	}
	for _, h := range d.aim.Expected {
		for id := range h.Devices {
			used[id] = true
		}
		for id := range h.Nodes {
			used[id] = true
		}
	}
	maps.DeleteFunc(used, func(id provider.ID, _ bool) bool { _, there := actual.ByID(id); return !there })
	return slices.Sorted(maps.Keys(used))
}

// finish returns the final plan, with the usages of the providers and the allocations of the consumers with a missing
// one.
func (d planning) finish(actual provider.Tree) (planning, error) {
	d.aim.Allocations = map[resource.ConsumerID]resource.Allocation{}
	for consumer, has := range d.held {
		d.aim.Allocations[consumer] = has.Allocation
	}
	err := d.addKinds(d.uses)
	if err != nil {
		return d, err
	}
	d.reserveDisabled(actual)
	d.Plan, err = treeplan.Make(d.aim, actual, d.uses, d.owned)
	return d, err
}

// check returns the objections against the plan.
func (d planning) check(actual provider.Tree) []treeplan.Objection {
	return treeplan.Check(d.Plan, d.aim, actual, d.uses, d.owned)
}

// reshape returns the request of a step that writes inventories and allocations, with the generations that earlier
// steps have returned.
func (d planning) reshape(s treeplan.Step, generations map[provider.ID]int) placement.Reshape {
	r := placement.Reshape{Inventories: map[provider.ID]placement.InventorySet{},
		Allocations: map[resource.ConsumerID]placement.ConsumerAllocation{}}
	for id, set := range s.InventorySets {
		generation, written := generations[id]
		if !written {
			generation = set.Generation
		}
		r.Inventories[id] = placement.InventorySet{Generation: generation, Inventories: set.Inventories}
	}
	for consumer, allocation := range s.Allocations {
		held := d.held[consumer]
		held.Allocation = allocation
		r.Allocations[consumer] = held
	}
	return r
}

func ownedOf(state journal.State) treeplan.OwnedSet {
	out := treeplan.OwnedSet{}
	for id, m := range state.Owned() {
		out[id] = treeplan.Owned{Classes: m.Classes, Traits: m.Traits}
	}
	return out
}

// recordOwned records what the agent owns on each provider: what it writes now, and with before also what it has
// written until now.
func (s *Syncer) recordOwned(now, before treeplan.OwnedSet) {
	written := s.State.Owned()
	for _, id := range slices.Sorted(maps.Keys(now)) {
		m, old := now[id], before[id]
		want := journal.Owned{Classes: union(m.Classes, old.Classes), Traits: union(m.Traits, old.Traits)}
		if !slices.Equal(want.Classes, written[id].Classes) || !slices.Equal(want.Traits, written[id].Traits) {
			s.Record(journal.OwnedBy(id, want))
		}
	}
	if before != nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(written)) {
		if _, still := now[id]; !still {
			s.Record(journal.OwnedBy(id, journal.Owned{}))
		}
	}
}

func union[T ~string](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
