// Package treeplan plans the changes from the provider tree that Placement has to the tree that a host should report.
//
// Make plans and does not execute; Check judges a plan independently of how it was made; the loop executes a whole
// plan or discards it. A host where nothing changed has an empty plan.
//
// The agent changes only what it owns: the root's VCPU, PCPU, MEMORY_MB and DISK_GB, children with the trait
// COMPUTE_MANAGED_PCI_DEVICE or with the name of a device that the host has (a child whose creation was interrupted
// has no trait yet), children that Aim.Owns recognises, and the providers of NUMA nodes.
//
// What other clients wrote stays: other classes and traits, a reserved amount, the root's allocation ratio. An OwnedSet
// records what the agent wrote before and may delete again.
package treeplan

import (
	"maps"
	"slices"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Make plans the smallest set of steps from actual to the aim. Providers match by name; new ones get their id from the
// aim. A change that would take something from a consumer becomes an objection of the plan instead of a step. The
// fault is Invalid when the aim is not a tree with one root, and Conflict when actual is the tree of another host.
func Make(aim Aim, actual provider.Tree, uses Uses, marks OwnedSet) (Plan, error) {
	m := planner{aim: aim, actual: actual, uses: uses, owned: marks, ids: map[provider.ID]provider.ID{},
		known:   names(actual),
		planned: map[provider.ID]map[resource.Class]resource.Inventory{}, observed: map[provider.ID]provider.Provider{}}
	m.plan.Owned, m.plan.Warnings = OwnedSet{}, map[provider.ID]string{}
	desired := aim.Tree
	for _, p := range desired.Providers {
		if p.ID == "" {
			return Plan{}, fault.New(fault.Invalid, "the tree to report has a provider %s without an id",
				p.Name)
		}
	}
	desired = desired.Sorted()
	if err := m.validate(desired); err != nil {
		return Plan{}, err
	}
	desired = m.prepareMove(desired)
	wanted, postponed := map[string]bool{}, map[provider.ID]bool{}
	for _, want := range desired.Providers {
		wanted[want.Name] = true
		have, exists := actual.ByName(want.Name)
		if !exists && m.postpone(want, postponed) {
			continue
		}
		if !exists {
			have = m.create(want)
		} else {
			m.move(want, have)
		}
		m.ids[want.ID] = have.ID
		m.planProvider(want, have)
	}
	m.planReshape()
	// Children before parents, so that a parent can be deleted after its children.
	providers := actual.Sorted().Providers
	root, _ := actual.Root()
	for _, have := range slices.Backward(providers) {
		node := isNode(have, root) && (m.numa != toRoot || m.uses == nil)
		ours := have.HasTrait(Managed) || aim.Orphans[have.ID] && aim.owns(have, actual) || m.isBegun(have) || node
		if ours && have.Parent != "" && !wanted[have.Name] {
			m.remove(have)
		}
	}
	m.plan.Steps = slices.Concat(m.nameSteps, m.plan.Steps)
	return m.plan, nil
}

// isBegun reports whether a provider is that of a device of which an interrupted report has written nothing yet but the
// provider itself. Its ID shows that, because no other program derives it from the name. Without this it would stay
// once the host no longer offers the device, and keep the provider of its NIC.
func (m *planner) isBegun(p provider.Provider) bool {
	root, _ := m.actual.Root()
	return len(p.Inventories) == 0 && len(p.Traits) == 0 && p.ID == provider.IDFromName(root.ID, p.Name)
}

// pending returns a consumer that holds devices of a provider and that compute has not confirmed; empty when there is
// none. The provider and the allocations of all its holders are written together; otherwise its devices would look
// free.
func (m *planner) pending(id provider.ID) resource.ConsumerID {
	for _, consumer := range slices.Sorted(maps.Keys(m.aim.Expected)) {
		if hold := m.aim.Expected[consumer]; hold.State == Pending && len(hold.Devices[id]) > 0 {
			return consumer
		}
	}
	return ""
}

// postpone reports whether a provider is not to be created yet, and then adds it to postponed.
func (m *planner) postpone(want provider.Provider, postponed map[provider.ID]bool) bool {
	if holder := m.pending(want.ID); holder != "" {
		m.addNote("%s is not reported yet: compute has not confirmed that its holder %s belongs here", want.Name, holder)
		postponed[want.ID] = true
		if m.plan.Postponed == nil {
			m.plan.Postponed = map[resource.ConsumerID]bool{}
		}
		m.plan.Postponed[holder] = true
	}
	postponed[want.ID] = postponed[want.ID] || postponed[want.Parent]
	return postponed[want.ID]
}

// names returns the classes and traits that a tree uses.
func names(t provider.Tree) map[string]bool {
	known := map[string]bool{}
	for _, p := range t.Providers {
		for c := range p.Inventories {
			known[string(c)] = true
		}
		for _, tr := range p.Traits {
			known[string(tr)] = true
		}
	}
	return known
}

// validate checks that the desired tree has one root and unique names and ids, and that actual is its tree.
func (m *planner) validate(desired provider.Tree) error {
	root, ok := desired.Root()
	if !ok {
		return fault.New(fault.Invalid, "the tree to report has no root")
	}
	byName, byID := map[string]bool{}, map[provider.ID]bool{}
	for i, p := range desired.Providers {
		if byName[p.Name] || byID[p.ID] {
			return fault.New(fault.Invalid, "the tree to report has two providers %s", p.Name)
		}
		if i > 0 && !byID[p.Parent] && !m.isBandwidth(p.Parent) {
			return fault.New(fault.Invalid, "the tree to report has a provider %s whose parent %q is not in it", p.Name,
				p.Parent)
		}
		byName[p.Name], byID[p.ID] = true, true
	}
	have, ok := m.actual.Root()
	if ok && have.Name != root.Name {
		return fault.New(fault.Conflict,
			"the provider %s is in the tree of %s (%s); this host reports only a tree of its own",
			root.Name, have.Name, have.ID)
	}
	if !ok && len(m.actual.Providers) > 0 {
		return fault.New(fault.Conflict, "the tree that Placement has for %s has no root", root.Name)
	}
	return nil
}

// isBandwidth reports whether a provider exists and is the bandwidth provider of a device: the devices for ports of an
// interface are below it.
func (m *planner) isBandwidth(id provider.ID) bool {
	p, exists := m.actual.ByID(id)
	n, is := bandwidth.Recognise(p)
	return exists && is && n.Device != ""
}

// parentOf returns the parent's id in Placement.
func (m *planner) parentOf(want provider.Provider) provider.ID {
	if id, ours := m.ids[want.Parent]; ours {
		return id
	}
	return want.Parent // a bandwidth provider
}

// move plans the move of a device provider to another parent. Its inventories and allocations stay as they are.
func (m *planner) move(want, have provider.Provider) {
	parent := m.parentOf(want)
	if want.Parent == "" || have.Parent == parent || !m.isBandwidth(parent) && !m.isBandwidth(have.Parent) {
		return
	}
	m.plan.Steps = append(m.plan.Steps, Step{Op: MoveProvider, Provider: have.ID, Name: have.Name, Parent: parent,
		Generation: have.Generation, Change: "from " + m.nameOf(have.Parent) + " to " + m.nameOf(parent)})
}

func (m *planner) create(want provider.Provider) provider.Provider {
	p := provider.Provider{ID: want.ID, Name: want.Name, Parent: m.parentOf(want)}
	change := "a root"
	if want.Parent != "" {
		change = "under " + m.nameOf(p.Parent)
	}
	m.plan.Steps = append(m.plan.Steps, Step{Op: CreateProvider, Provider: p.ID, Name: p.Name, Parent: p.Parent,
		Change: change})
	return p
}
