// Package heal finds the way from the provider tree that Placement has to the tree that a host ought to report.
//
// Make plans and cannot act; Check judges a plan without knowing how it was made; the loop carries a
// plan out whole or throws it away. A host where nothing changed has an empty plan.
//
// The agent touches only what it owns: the root's VCPU, PCPU, MEMORY_MB and DISK_GB, and children that bear the
// trait COMPUTE_MANAGED_PCI_DEVICE (or that carry the name of a device the host has, which is how a child
// looks whose creation was cut short). What others put there stays: other classes and traits, a
// reserved amount, the root's allocation ratio. What the agent put there before, and may take
// away again, it knows from its Marks.
package heal

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Managed is the trait that marks a provider as a PCI device which an agent reports (spec 002, "Modeling PCI devices
// in Placement").
const Managed resource.Trait = "COMPUTE_MANAGED_PCI_DEVICE"

// Uses says who holds what of each provider. It must be complete for each provider that a plan touches, and for those that guests hold
// devices of; a plan that is empty without any uses is with them at most a reshape that gives guests their shares.
type Uses map[provider.ID]map[resource.ConsumerID]resource.Amounts

// Mark is what the agent put on a provider.
type Owned struct {
	Classes []resource.Class // sorted
	Traits  []resource.Trait // sorted
}

// Marks is what the agent put on each provider, as far as it remembers.
type OwnedSet map[provider.ID]Owned

// rootClasses are the agent's own on the root.
var rootClasses = [...]resource.Class{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}

// Aim is what a host ought to be in Placement.
type Aim struct {
	Tree            provider.Tree
	Ratios          []resource.Class                 // of the root, whose allocation_ratio the configuration decides; of others, that which Placement has stays
	ReservedClasses []resource.Class                 // of the root, whose reserved amount the configuration decides; of others, it never sinks
	Returned        map[provider.ID]bool             // providers of Tree whose reserved amount is given back: their device has been cleaned
	Expected        map[resource.ConsumerID]Expected // everybody whose guest here has devices
}

// Hold is what the guest of one consumer has, and what Placement says.
type Expected struct {
	Devices    resource.Allocation // by providers of Tree
	Allocation resource.Allocation // all that Placement has for the consumer, anywhere; empty also when nobody asked
	State      HolderState         // which of its shares may be written now
}

// Standing is what compute says of a consumer whose guest has devices here. It decides which shares may be written to
// Placement.
type HolderState int

// The standings.
const (
	Assigned   HolderState = iota // compute has confirmed that it belongs here: all
	Moving                        // compute has, and its claims may be on the move: only those of providers that do not exist yet
	Pending                       // compute has not confirmed it yet: none, and a provider of its devices that does not exist yet is not created
	Unassigned                    // compute does not assign it to this host: none
)

// Holds are what guests hold, by consumer: the devices by provider of the tree, without those that Placement does not count. Allocations are
// left empty; standing says what compute says of a consumer.
func ExpectedAllocations(tree provider.Tree, held []device.Claim, standing func(resource.ConsumerID) HolderState) map[resource.ConsumerID]Expected {
	out := map[resource.ConsumerID]Expected{}
	for _, c := range held {
		h, known := out[c.Holder]
		if !known {
			h = Expected{Devices: resource.Allocation{}, State: standing(c.Holder)}
		}
		if p, counted := tree.ByID(c.Provider); counted && c.Provider != "" && c.Class != "" {
			if h.Devices[p.ID] == nil {
				h.Devices[p.ID] = resource.Amounts{}
			}
			h.Devices[p.ID][c.Class]++
		}
		out[c.Holder] = h
	}
	return out
}

// Make plans the smallest set of steps from actual to the aim. Providers are the same when their names are; new
// ones get their id from the aim. What cannot be done without taking something from a consumer is no step but an
// objection of the plan. The fault is Invalid when the aim is no tree of one root, and Conflict when
// actual is the tree of somebody else.
func Make(aim Aim, actual provider.Tree, uses Uses, marks OwnedSet) (Plan, error) {
	m := planner{aim: aim, actual: actual, uses: uses, owned: marks, ids: map[provider.ID]provider.ID{}, known: names(actual),
		planned: map[provider.ID]map[resource.Class]resource.Inventory{}, observed: map[provider.ID]provider.Provider{}}
	m.plan.Owned, m.plan.Warnings = OwnedSet{}, map[provider.ID]string{}
	desired := aim.Tree
	for _, p := range desired.Providers {
		if p.ID == "" {
			return Plan{}, fault.New(fault.Invalid, "heal.Make", "the tree to report has a provider %s without an id", p.Name)
		}
	}
	desired = desired.Sorted()
	if err := m.validate(desired); err != nil {
		return Plan{}, err
	}
	wanted, postponed := map[string]bool{}, map[provider.ID]bool{}
	for _, want := range desired.Providers {
		wanted[want.Name] = true
		have, exists := actual.ByName(want.Name)
		if !exists && m.postpone(want, postponed) {
			continue
		}
		if !exists {
			have = m.create(want)
		}
		m.ids[want.ID] = have.ID
		m.planProvider(want, have)
	}
	m.planReshape()
	// Children before parents, so that a parent may go with its children.
	providers := actual.Sorted().Providers
	for _, have := range slices.Backward(providers) {
		if have.HasTrait(Managed) && have.Parent != "" && !wanted[have.Name] {
			m.remove(have)
		}
	}
	m.plan.Steps = slices.Concat(m.nameSteps, m.plan.Steps)
	return m.plan, nil
}

// pending returns a consumer that holds devices of a provider and that compute has not confirmed; empty when there is
// none. The provider and the shares of all its holders are written together, or its devices would look free.
func (m *planner) pending(id provider.ID) resource.ConsumerID {
	for _, consumer := range slices.Sorted(maps.Keys(m.aim.Expected)) {
		if hold := m.aim.Expected[consumer]; hold.State == Pending && len(hold.Devices[id]) > 0 {
			return consumer
		}
	}
	return ""
}

// postpone reports whether a provider is not created yet, and adds it to those.
func (m *planner) postpone(want provider.Provider, postponed map[provider.ID]bool) bool {
	if holder := m.pending(want.ID); holder != "" {
		m.addNote("%s is not reported yet: compute has not confirmed that its holder %s belongs here", want.Name, holder)
		postponed[want.ID] = true
	}
	postponed[want.ID] = postponed[want.ID] || postponed[want.Parent]
	return postponed[want.ID]
}

type planner struct {
	aim       Aim
	actual    provider.Tree
	uses      Uses
	owned     OwnedSet
	ids       map[provider.ID]provider.ID                           // of desired → as Placement has or will have it
	known     map[string]bool                                       // custom classes and traits that exist for certain
	nameSteps []Step                                                // that create custom classes and traits
	deleted   []provider.ID                                         // planned to be deleted
	planned   map[provider.ID]map[resource.Class]resource.Inventory // what each provider shall have
	observed  map[provider.ID]provider.Provider                     // of the aim, as it is now or is created
	plan      Plan
}

// names are the custom names that a tree uses.
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

func (m *planner) validate(desired provider.Tree) error {
	const op = "heal.Make"
	root, ok := desired.Root()
	if !ok {
		return fault.New(fault.Invalid, op, "the tree to report has no root")
	}
	byName, byID := map[string]bool{}, map[provider.ID]bool{}
	for i, p := range desired.Providers {
		if byName[p.Name] || byID[p.ID] {
			return fault.New(fault.Invalid, op, "the tree to report has two providers %s", p.Name)
		}
		if i > 0 && !byID[p.Parent] {
			return fault.New(fault.Invalid, op, "the tree to report has a provider %s whose parent %q is not in it", p.Name, p.Parent)
		}
		byName[p.Name], byID[p.ID] = true, true
	}
	have, ok := m.actual.Root()
	if ok && have.Name != root.Name {
		return fault.New(fault.Conflict, op, "the provider %s lies in the tree of %s (%s); this host reports only a tree of its own",
			root.Name, have.Name, have.ID)
	}
	if !ok && len(m.actual.Providers) > 0 {
		return fault.New(fault.Conflict, op, "the tree that Placement has for %s has no root", root.Name)
	}
	return nil
}

func (m *planner) create(want provider.Provider) provider.Provider {
	p := provider.Provider{ID: want.ID, Name: want.Name, Parent: m.ids[want.Parent]}
	change := "a root"
	if want.Parent != "" {
		change = "under " + m.nameOf(p.Parent)
	}
	m.plan.Steps = append(m.plan.Steps, Step{Op: CreateProvider, Provider: p.ID, Name: p.Name, Parent: p.Parent, Change: change})
	return p
}

func (m *planner) nameOf(id provider.ID) string {
	if p, ok := m.actual.ByID(id); ok {
		return p.Name
	}
	for _, s := range m.plan.Steps {
		if s.Op == CreateProvider && s.Provider == id {
			return s.Name
		}
	}
	return string(id)
}
