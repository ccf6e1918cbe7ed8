package treeplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Lacking lists the consumers of an aim whose allocation in Placement lacks what they hold here, in order.
// Make needs their whole allocations.
func Lacking(aim Aim, uses Uses) []resource.ConsumerID {
	var list []resource.ConsumerID
	for _, consumer := range slices.Sorted(maps.Keys(aim.Expected)) {
		lacks := false
		for id, amounts := range aim.Expected[consumer].all() {
			for class, n := range amounts {
				lacks = lacks || uses[id][consumer][class] < n
			}
		}
		if lacks {
			list = append(list, consumer)
		}
	}
	return list
}

// missingAllocation is one class of one provider that a consumer holds and that its allocation lacks.
type missingAllocation struct {
	consumer resource.ConsumerID
	want, id provider.ID // in the aim, and as Placement has it
	class    resource.Class
	has, n   int
}

// planReshape plans one reshape that adds what guests have to their consumers' allocations. It never removes an
// allocation: what a consumer has and its guest does not use stays, with a note. Only dedicated CPUs are moved.
func (m *planner) planReshape() {
	if m.uses == nil {
		return
	}
	step := Step{Op: Reshape, InventorySets: map[provider.ID]InventorySet{},
		Allocations: map[resource.ConsumerID]resource.Allocation{}}
	changes := m.moveNUMA(step)
	for _, s := range m.missingAllocations() {
		if !m.writable(s) {
			continue
		}
		if step.Allocations[s.consumer] == nil {
			step.Allocations[s.consumer] = m.aim.Allocations[s.consumer].Clone()
		}
		a := step.Allocations[s.consumer]
		if a[s.id] == nil {
			a[s.id] = resource.Amounts{}
		}
		a[s.id][s.class] = s.n
		if _, there := step.InventorySets[s.id]; !there {
			step.InventorySets[s.id] = InventorySet{Generation: m.observed[s.id].Generation,
				Inventories: maps.Clone(m.planned[s.id])}
		}
		m.makeRoom(step, s)
		changes = append(changes, fmt.Sprintf("%s %s %d → %d of %s", s.consumer, s.class, s.has, s.n, m.observed[s.id].Name))
	}
	if len(changes) == 0 {
		return
	}
	m.widen(step)
	step.Name, step.Change = "shares of guests", strings.Join(changes, ", ")
	// What the reshape writes needs no write of its own.
	m.plan.Steps = slices.DeleteFunc(m.plan.Steps, func(s Step) bool {
		_, reshaped := step.InventorySets[s.Provider]
		return s.Op == PutInventories && reshaped
	})
	m.plan.Steps = append(m.plan.Steps, step)
}

// missingAllocations lists what is missing, by consumer, provider and class, and adds a note on what is too much.
func (m *planner) missingAllocations() []missingAllocation {
	var list []missingAllocation
	for _, consumer := range slices.Sorted(maps.Keys(m.aim.Expected)) {
		devices := m.aim.Expected[consumer].Devices
		if m.numa == stays {
			devices = m.aim.Expected[consumer].all()
		}
		for _, want := range slices.Sorted(maps.Keys(devices)) {
			id, planned := m.ids[want]
			if !planned {
				continue
			}
			for _, class := range devices[want].Sorted() {
				s := missingAllocation{consumer: consumer, want: want, id: id, class: class, has: m.uses[id][consumer][class],
					n: devices[want][class]}
				switch {
				case s.has < s.n:
					list = append(list, s)
				case s.has > s.n:
					m.addNote("%s has %d %s of %s in Placement, and its guest has %d of them; nothing is taken from it", consumer,
						s.has, class, m.nameOf(id), s.n)
				}
			}
		}
	}
	return list
}

// writable reports whether a missing allocation may be written, and adds a note if not.
func (m *planner) writable(s missingAllocation) bool {
	hold, name := m.aim.Expected[s.consumer], m.nameOf(s.id)
	// No consumer can have an allocation of a provider that does not exist yet.
	_, exists := m.actual.ByID(s.id)
	if hold.State > Moving || hold.State == Moving && exists {
		return false
	}
	if m.planned[s.id][s.class].Total == 0 {
		m.addNote("%s holds %d %s of %s, which does not have that class: its share cannot be written", s.consumer, s.n,
			s.class, name)
		return false
	}
	// A consumer unknown to this host may be the same guest under another id, in a move that the agent does not know yet.
	// Of a NUMA node many consumers have a part, and servers that are being built or deleted are unknown.
	root, _ := m.actual.Root()
	for _, other := range m.uses.all(s.id) {
		if isNode(m.observed[s.id], root) {
			break
		}
		if _, here := m.aim.Expected[other]; !here && m.uses[s.id][other][s.class] > 0 {
			m.addNote("%s holds %d %s of %s and has %d in Placement; its share is not written while %s, who has nothing "+
				"here, has some there",
				s.consumer, s.n, s.class, name, s.has, other)
			return false
		}
	}
	has := m.aim.Allocations[s.consumer]
	if len(has) > 0 && !m.hasPartHere(has) {
		m.addNote("%s holds %d %s of %s, and all that Placement has of it is on other hosts: its share is not written",
			s.consumer, s.n, s.class, name)
		return false
	}
	if len(has) == 0 {
		m.addNote("%s holds %d %s of %s, but Placement has no allocation of it at all; put its other resources back "+
			"first, then the agent adds the devices",
			s.consumer, s.n, s.class, name)
		return false
	}
	return true
}

// hasPartHere reports whether a part of an allocation is on this host.
func (m *planner) hasPartHere(a resource.Allocation) bool {
	for id := range a {
		if _, here := m.actual.ByID(id); here {
			return true
		}
	}
	return false
}

// makeRoom raises a total where a reserved amount (of a used device for one-time use) or a reduced total leaves no
// capacity for an allocation. The next plan reduces it again. No other consumer can claim the room, because the holder
// has it.
func (m *planner) makeRoom(step Step, s missingAllocation) {
	_, used := m.uses.holders(s.id, s.class)
	for consumer, a := range step.Allocations {
		used += a[s.id][s.class] - m.uses[s.id][consumer][s.class]
	}
	inv := step.InventorySets[s.id].Inventories[s.class]
	inv.MaxUnit = max(inv.MaxUnit, s.n)
	if inv.Capacity() < used {
		if seen := m.observed[s.id]; !m.aim.Returned[s.want] { // a reduced total must not release the reserved amount yet
			inv.Reserved = max(inv.Reserved, seen.Inventories[s.class].Reserved)
		}
		inv.Total, m.plan.More = used+inv.Reserved, true
	}
	step.InventorySets[s.id].Inventories[s.class] = inv
}

// widen raises the totals of a reshape where a host has less now than its guests use, also of a device that is reserved
// while a guest has it: the reshape writes whole allocations, and Placement refuses what exceeds the capacity. The next
// plan reduces those of the root and of devices again; those of nodes are held until the guests are gone.
func (m *planner) widen(step Step) {
	m.addInventories(step)
	for id, set := range step.InventorySets {
		for class, inv := range set.Inventories {
			used, most := 0, 0
			for consumer, a := range step.Allocations {
				used, most = used+a[id][class]-m.uses[id][consumer][class], max(most, a[id][class])
			}
			if most == 0 {
				continue
			}
			for _, amounts := range m.uses[id] {
				used += amounts[class]
			}
			set.Inventories[class] = inv.Widened(used, most)
			m.plan.More = m.plan.More || set.Inventories[class] != inv
		}
	}
}

// addInventories adds to a reshape the inventories of the other providers of this host that its allocations have a part
// of and that have less room than is in use there.
func (m *planner) addInventories(step Step) {
	for _, a := range step.Allocations {
		for id := range a {
			seen, inventories, ours := m.ours(id)
			if _, there := step.InventorySets[id]; there || !ours || !m.exceeded(id, seen.Inventories) {
				continue
			}
			step.InventorySets[id] = InventorySet{Generation: seen.Generation, Inventories: maps.Clone(inventories)}
		}
	}
}

// ours returns a provider that the agent may write, with the inventories that it is to have: one of the aim, or a
// bandwidth provider that the agent has written, which MakeBandwidth plans.
func (m *planner) ours(id provider.ID) (p provider.Provider, inventories map[resource.Class]resource.Inventory,
	ok bool) {
	if p, ok = m.observed[id]; ok {
		return p, m.planned[id], true
	}
	p, _ = m.actual.ByID(id)
	_, recognised := bandwidth.Recognise(p)
	_, written := m.owned[id]
	return p, p.Inventories, recognised && written
}

// exceeded reports whether more of a provider is in use than its inventories have room for.
func (m *planner) exceeded(id provider.ID, inventories map[resource.Class]resource.Inventory) bool {
	for class, inv := range inventories {
		used := 0
		for _, amounts := range m.uses[id] {
			used += amounts[class]
		}
		if used > inv.Capacity() {
			return true
		}
	}
	return false
}
