package sync

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// disabledDevices counts the devices of each provider that must be reserved because they are disabled: the free ones.
// The only device of a provider is also reserved while a server holds it, so that it is never offered when it is freed.
// Of several devices a held one must not be reserved: Placement counts it as used already. Of a card that is offered as
// its PF and as its VFs, the VFs count: those that are disabled, or all if the PF is.
func disabledDevices(set device.Set) map[provider.ID]resource.Amounts {
	total, out := map[provider.ID]int{}, map[provider.ID]resource.Amounts{}
	entries := set.Entries()
	for _, e := range entries {
		total[e.Provider]++
	}
	for _, e := range entries {
		several := total[e.Provider] > 1
		if !e.Disabled || e.Provider == "" || e.ResourceClass == "" || several && (e.Holder != "" || e.Slices > 0) {
			continue
		}
		if out[e.Provider] == nil {
			out[e.Provider] = resource.Amounts{}
		}
		out[e.Provider][e.ResourceClass] += e.Amount()
	}
	return out
}

// reserveDisabled adds to the reserved amounts of the aim what this agent reserves for disabled devices, or no longer
// reserves. What other clients have reserved stays, as far as the total allows.
func (d *planning) reserveDisabled(actual provider.Tree) {
	for i, p := range d.aim.Tree.Providers {
		before := d.reserved[p.ID]
		if before == 0 && len(d.disabled[p.ID]) == 0 {
			continue
		}
		now, _ := actual.ByID(p.ID)
		inventories := maps.Clone(p.Inventories)
		for class, inv := range inventories {
			n, others := d.disabled[p.ID][class], now.Inventories[class].Reserved-before
			if d.aim.Returned[p.ID] { // the aim has what others reserve
				others = 0
			}
			inv.Reserved = min(max(inv.Reserved, n, n+others), inv.Total)
			inventories[class] = inv
		}
		d.aim.Tree.Providers[i].Inventories = inventories
	}
	for _, known := range []map[provider.ID]bool{keys(d.disabled), keys(d.reserved)} {
		maps.Copy(d.aim.Returned, known)
	}
}

// keys returns the keys of a map as a set.
func keys[K comparable, V any](m map[K]V) map[K]bool {
	out := make(map[K]bool, len(m))
	for k := range m {
		out[k] = true
	}
	return out
}

// reserving returns how many devices of a provider a plan reserves because they are disabled.
func (d planning) reserving(id provider.ID) (n int) {
	for _, amount := range d.disabled[id] {
		n += amount
	}
	return n
}

// recordReserving records what a plan is about to reserve. After a crash the agent must not take it for the amount of
// another client, which would stay.
func (s *Syncer) recordReserving(d planning) {
	for _, id := range slices.Sorted(maps.Keys(d.disabled)) {
		if _, planned := d.aim.Tree.ByID(id); planned && d.reserving(id) > d.reserved[id] {
			s.Record(journal.Reserved(id, d.reserving(id)))
		}
	}
}

// recordDisabled records what is no longer reserved, after Placement has it.
func (s *Syncer) recordDisabled(d planning, tree provider.Tree) {
	for _, id := range slices.Sorted(maps.Keys(d.reserved)) {
		now, there := tree.ByID(id)
		aim, planned := d.aim.Tree.ByID(id) // otherwise it stays as it is, because a consumer holds something of it
		written := func() bool {
			for class, inv := range aim.Inventories {
				if now.Inventories[class].Reserved != inv.Reserved {
					return false
				}
			}
			return true
		}
		if n := d.reserving(id); n < d.reserved[id] && (!there || planned && written()) {
			s.Record(journal.Reserved(id, n))
		}
	}
}
