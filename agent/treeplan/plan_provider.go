package treeplan

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// planProvider plans the changes of one provider: traits before inventories, so that nothing is offered without its
// traits.
func (m *planner) planProvider(want, have provider.Provider) {
	owned := m.ownedClasses(want, have)
	inventories, ok := m.inventories(want, have, owned)
	if !ok {
		// The device stays as it was claimed, traits included.
		m.plan.Owned[have.ID] = Owned{Classes: sorted(owned, have.Inventories), Traits: m.owned[have.ID].Traits}
		return
	}
	m.planned[have.ID], m.observed[have.ID] = inventories, have
	m.plan.Owned[have.ID] = Owned{Classes: sorted(owned, inventories), Traits: unique(want.Traits)}
	traits := mergeTraits(want.Traits, have.Traits, m.owned[have.ID].Traits)
	if !slices.Equal(traits, unique(have.Traits)) {
		for _, t := range traits {
			m.planName(CreateTrait, string(t))
		}
		m.plan.Steps = append(m.plan.Steps, Step{Op: PutTraits, Provider: have.ID, Name: have.Name,
			Generation: have.Generation,
			Traits:     traits, Change: traitChange(have.Traits, traits)})
		if holders := m.uses.all(have.ID); len(holders) > 0 && want.Parent != "" {
			m.addNote("%s changes its traits (%s), and %s: what they were promised may no longer be true", have.Name,
				traitChange(have.Traits, traits), heldBy(holders))
			m.plan.Warnings[have.ID] = m.plan.Notes[len(m.plan.Notes)-1]
		}
	}
	if !maps.Equal(inventories, have.Inventories) {
		for _, c := range slices.Sorted(maps.Keys(inventories)) {
			m.planName(CreateClass, string(c))
		}
		m.plan.Steps = append(m.plan.Steps, Step{Op: PutInventories, Provider: have.ID, Name: have.Name,
			Generation:  have.Generation,
			Inventories: inventories, Change: inventoryChange(have.Inventories, inventories)})
	}
}

// ownedClasses returns the classes of a provider that the agent may change and delete.
func (m *planner) ownedClasses(want, have provider.Provider) map[resource.Class]bool {
	owned := map[resource.Class]bool{}
	for c := range want.Inventories {
		owned[c] = true
	}
	for _, c := range m.owned[have.ID].Classes {
		owned[c] = true
	}
	if want.Parent == "" {
		for _, c := range rootClasses {
			owned[c] = true
		}
		return owned
	}
	if root, _ := m.actual.Root(); isNode(have, root) {
		for c := range nodeClasses(have) {
			owned[c] = true
		}
		return owned
	}
	// A provider without an ownership record (the journal is lost, or Nova created it) with only one class has the
	// class of its device, because no other client has added to it.
	if _, remembered := m.owned[have.ID]; !remembered && m.isDevice(have) && len(have.Inventories) == 1 {
		for c := range have.Inventories {
			owned[c] = true
		}
	}
	return owned
}

// inventories returns the desired inventories of a provider. ok is false when a held device would have to change its
// class; then the provider stays as it is.
func (m *planner) inventories(want, have provider.Provider,
	owned map[resource.Class]bool) (result map[resource.Class]resource.Inventory, ok bool) {
	root := want.Parent == ""
	result = map[resource.Class]resource.Inventory{}
	maps.Copy(result, have.Inventories)
	for _, class := range slices.Sorted(maps.Keys(have.Inventories)) {
		if !owned[class] || want.Inventories[class].Total > 0 {
			continue
		}
		holders, _ := m.holders(have.ID, class)
		if len(holders) == 0 || root && class == numa.DedicatedCPUs && m.numa == toNodes {
			delete(result, class)
			continue
		}
		m.addObjection(have, class, holders, "the host no longer reports it")
		if !root {
			return nil, false
		}
	}
	for _, class := range slices.Sorted(maps.Keys(want.Inventories)) {
		next := want.Inventories[class]
		if next.Total <= 0 {
			continue // Placement has no inventories with a total of 0
		}
		before, exists := have.Inventories[class]
		if exists && !root {
			next = m.holdTotal(have, class, before, next)
		}
		if firm := root && slices.Contains(m.aim.ReservedClasses, class); exists && !firm && !m.aim.Returned[want.ID] {
			next.Reserved = min(max(next.Reserved, before.Reserved), next.Total)
		}
		if exists && root && !slices.Contains(m.aim.Ratios, class) {
			next.AllocationRatio = before.AllocationRatio
		}
		result[class] = next
	}
	return result, true
}

// holdTotal keeps the total of a device class from decreasing below what is held: a device that vanished while a guest
// holds it still belongs to the guest, because an observation frees nothing.
func (m *planner) holdTotal(have provider.Provider, class resource.Class, before,
	next resource.Inventory) resource.Inventory {
	holders, used := m.holders(have.ID, class)
	if next.AllocationRatio > 1 {
		used = int(math.Ceil(float64(used) / next.AllocationRatio))
	}
	total := min(before.Total, used)
	if total <= next.Total {
		return next
	}
	m.addObjection(have, class, holders, fmt.Sprintf("only %d of them can still be offered", next.Total))
	next.Total, next.MaxUnit = total, max(next.MaxUnit, total)
	return next
}

// remove plans the deletion of a provider whose device is gone, unless a consumer holds something of it.
func (m *planner) remove(have provider.Provider) {
	held := false
	for _, class := range slices.Sorted(maps.Keys(have.Inventories)) {
		if holders, _ := m.holders(have.ID, class); len(holders) > 0 {
			held = true
			m.addObjection(have, class, holders, "the host no longer offers the device")
		}
	}
	for _, child := range m.actual.Children(have.ID) {
		if !slices.Contains(m.deleted, child.ID) {
			held = true
			m.plan.Objections = append(m.plan.Objections, Objection{Provider: have.ID, Name: have.Name,
				Text: fmt.Sprintf("%s stays: the host no longer offers the device, but the provider %s is its child", have.Name,
					child.Name)})
		}
	}
	if held {
		if mark, remembered := m.owned[have.ID]; remembered {
			m.plan.Owned[have.ID] = mark
		}
		return
	}
	m.deleted = append(m.deleted, have.ID)
	change := "the host no longer offers the device"
	if root, _ := m.actual.Root(); isNode(have, root) {
		change = "the host no longer reports the NUMA node"
	}
	m.plan.Steps = append(m.plan.Steps, Step{Op: DeleteProvider, Provider: have.ID, Name: have.Name,
		Generation: have.Generation, Change: change})
}

// mergeTraits adds the wanted traits, removes the agent's former ones, and keeps the others.
func mergeTraits(want, have, ours []resource.Trait) []resource.Trait {
	kept := slices.DeleteFunc(slices.Clone(have), func(t resource.Trait) bool { return slices.Contains(ours, t) })
	return unique(append(kept, want...))
}

// isDevice reports whether an agent of this host has made the provider for a device.
func (m *planner) isDevice(p provider.Provider) bool {
	return p.HasTrait(Managed) || m.aim.owns(p, m.actual)
}

// sorted lists the owned classes of an inventory.
func sorted(owned map[resource.Class]bool, inventories map[resource.Class]resource.Inventory) []resource.Class {
	var out []resource.Class
	for _, c := range slices.Sorted(maps.Keys(inventories)) {
		if owned[c] {
			out = append(out, c)
		}
	}
	return out
}
