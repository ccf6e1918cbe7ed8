package loop

import (
	"context"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// observation is the observed state of the host and of its tree in Placement.
type observation struct {
	facts    survey.Facts // without Held
	offers   []device.Offer
	guests   []hypervisor.Guest
	problems []string // of the host, as sentences
	identity journal.Identity
	cells    []numa.Cell
	adopted  string // a sentence, when Placement's root provider differs from the journal's
}

// observe reads the host and its tree in Placement, and changes nothing. root is the root provider if it is known.
func (a *Agent) observe(ctx context.Context, state journal.State, root provider.ID) (observation, error) {
	var s observation
	machine, err := a.scan()
	if err != nil {
		return s, err
	}
	for _, p := range machine.Problems {
		s.problems = append(s.problems, p.String())
	}
	s.cells = a.o.CPUs.cells(machine)
	if s.guests, err = a.o.Hypervisor.Guests(ctx); err != nil {
		return s, fault.Wrap("", "hypervisor.Guests", err)
	}
	capacity, err := a.o.Hypervisor.Capacity(ctx)
	if err != nil {
		return s, fault.Wrap("", "hypervisor.Capacity", err)
	}
	var tree provider.Tree
	if root != "" {
		tree, err = a.readTree(ctx, root)
		if err != nil {
			return s, err
		}
	}
	s.identity = journal.Identity{Host: a.o.Host, Provider: root}
	if len(tree.Providers) == 0 { // at the start, or another client has deleted the root
		if s.identity, s.adopted, err = a.identify(ctx, state); err != nil {
			return s, err
		}
		if tree, err = a.readTree(ctx, s.identity.Provider); err != nil {
			return s, err
		}
		for _, finding := range a.o.Rules.Judge(machine.Devices) { // wrong rules refuse the plan
			if !finding.Wrong {
				a.log.Warn(finding.Sentence)
			}
		}
		for _, sentence := range a.o.CPUs.Doubts(machine, capacity) {
			a.log.Warn(sentence)
		}
	}
	s.facts = survey.Facts{Host: a.o.Host, Root: s.identity.Provider, Devices: machine.Devices, Rules: a.o.Rules,
		Report: a.o.ReportInPlacement, Actual: tree, Spent: map[pci.Address]bool{}, Unreadable: unreadable(machine)}
	a.o.CPUs.fillFacts(&s.facts, machine, capacity)
	for at, spent := range state.Spent() {
		s.facts.Spent[at] = !spent.Returning
	}
	s.offers = survey.Offers(s.facts)
	return s, survey.CheckSwitch(s.facts)
}

// checkSys returns a fault when Options.Sys is not a /sys.
func (a *Agent) checkSys() error { return sysfs.Check(a.o.Sys, "what the agent was given as /sys") }

// scan reads the host's devices. A device that exists but cannot be read is returned as it was last read.
func (a *Agent) scan() (sysfs.Facts, error) {
	machine, err := sysfs.Read(a.o.Sys)
	if err != nil {
		return machine, err
	}
	a.mu.Lock()
	last := a.scanned
	a.mu.Unlock()
	machine.Devices = slices.Clone(machine.Devices)
	machine.ReadSerials(a.o.Sys, a.o.Rules.NeedSerial)
	for _, p := range machine.Problems {
		address, err := pci.ParseAddress(p.Name)
		if err != nil {
			continue
		}
		at := func(d pci.Device) bool { return d.Address == address }
		i, now := slices.IndexFunc(last, at), slices.IndexFunc(machine.Devices, at)
		switch {
		case i < 0:
		case now < 0:
			machine.Devices = append(machine.Devices, last[i])
		case machine.Devices[now].Serial == "":
			machine.Devices[now].Serial = last[i].Serial
		}
	}
	return machine, nil
}

// unreadable returns the devices that exist and cannot be identified.
func unreadable(machine sysfs.Facts) map[pci.Address]bool {
	out := map[pci.Address]bool{}
	for _, p := range machine.Problems {
		if address, err := pci.ParseAddress(p.Name); err == nil && p.Unreadable {
			out[address] = true
		}
	}
	return out
}

// readTree returns the tree of a provider; empty when there is no such provider.
func (a *Agent) readTree(ctx context.Context, id provider.ID) (provider.Tree, error) {
	tree, err := a.o.Placement.Tree(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return provider.Tree{}, nil
	}
	return tree, err
}

// identify determines the host's root provider: the one that Placement has under the host's name, because allocations
// refer to it; else the journal's, so that a restart keeps it; else a new one. adopted is a sentence when Placement's
// differs from the journal's.
func (a *Agent) identify(ctx context.Context, state journal.State) (id journal.Identity, adopted string, err error) {
	const op = "loop.identify"
	known, written := state.Identity()
	if written && known.Host != a.o.Host {
		return id, "", fault.New(fault.Invalid, op, "the journal in %s is that of host %q, but this host is called %q; "+
			"give each host its own directory, or its old name back", a.o.Dir, known.Host, a.o.Host)
	}
	id = journal.Identity{Host: a.o.Host, Provider: known.Provider}
	found, err := a.o.Placement.ProviderByName(ctx, a.o.Host)
	switch {
	case fault.Is(err, fault.NotFound):
		if !written {
			id.Provider = provider.ID(a.o.NewID())
			return id, "", nil
		}
		return id, "", a.refuseOtherName(ctx, known.Provider)
	case err != nil:
		return id, "", err
	case found.Parent != "":
		return id, "", fault.New(fault.Invalid, op, "Placement has a provider %q (%s), but its parent is %s, and a host's "+
			"provider must be a root; rename the provider, or give this host another name", a.o.Host, found.ID, found.Parent)
	case written && found.ID != known.Provider:
		adopted = "Placement has this host as provider " + string(found.ID) + ", the journal had it as " +
			string(known.Provider) + "; the agent uses Placement's, which has the allocations"
	}
	id.Provider = found.ID
	return id, adopted, nil
}

// refuseOtherName returns a fault when Placement has the journal's root provider under another name.
func (a *Agent) refuseOtherName(ctx context.Context, id provider.ID) error {
	tree, err := a.readTree(ctx, id)
	if err != nil {
		return err
	}
	if p, there := tree.ByID(id); there && p.Name != a.o.Host {
		return fault.New(fault.Invalid, "loop.identify",
			"Placement has this host's provider %s under the name %q, not %q; rename the provider or the host",
			id, p.Name, a.o.Host)
	}
	return nil
}

// planInput is a plan with the input that it was made from.
type planInput struct {
	plan  heal.Plan
	aim   heal.Aim
	uses  heal.Uses
	owned heal.OwnedSet
	notes []survey.Note
	held  map[resource.ConsumerID]placement.ConsumerAllocation // allocations of the consumers with a missing one
}

// check returns the objections against the plan.
func (d planInput) check(actual provider.Tree) []heal.Objection {
	return heal.Check(d.plan, d.aim, actual, d.uses, d.owned)
}

// plan computes the steps from the observed tree to the desired one. Usages are read only of the providers that a plan
// made without them would change, and of those whose devices guests hold.
func (a *Agent) plan(ctx context.Context, s observation, held []device.Claim, state journal.State,
	stateOf func(resource.ConsumerID) heal.HolderState) (d planInput, err error) {
	facts := s.facts
	facts.Held = held
	if d.aim.Tree, d.notes, err = survey.Desired(facts); err != nil {
		return d, err
	}
	d.owned = ownedOf(state)
	d.aim.Ratios, d.aim.ReservedClasses, d.aim.Returned = survey.Ratios(facts), survey.ReservedClasses(facts),
		cleanedProviders(s.offers, state)
	if facts.Report {
		d.aim.Expected = heal.ExpectedAllocations(d.aim.Tree, held, stateOf)
	}
	if d.plan, err = heal.Make(d.aim, facts.Actual, nil, d.owned); err != nil || d.plan.Empty() &&
		len(d.aim.Expected) == 0 {
		return d, err
	}
	if err := a.readUses(ctx, &d, facts.Actual); err != nil {
		return d, err
	}
	d.plan, err = heal.Make(d.aim, facts.Actual, d.uses, d.owned)
	return d, err
}

// readUses reads the usages of the plan's providers, and the allocations of the consumers with a missing one.
func (a *Agent) readUses(ctx context.Context, d *planInput, actual provider.Tree) error {
	d.uses = heal.Uses{}
	asked := map[provider.ID]bool{}
	for _, step := range d.plan.Steps {
		asked[step.Provider] = true
	}
	for _, h := range d.aim.Expected {
		for id := range h.Devices {
			asked[id] = true
		}
	}
	for id := range asked {
		if _, there := actual.ByID(id); !there {
			continue
		}
		who, err := a.o.Placement.ProviderAllocations(ctx, id)
		if err != nil {
			return err
		}
		if d.uses[id] = who; who == nil {
			d.uses[id] = map[resource.ConsumerID]resource.Amounts{}
		}
	}
	d.held = map[resource.ConsumerID]placement.ConsumerAllocation{}
	for _, consumer := range heal.Lacking(d.aim, d.uses) {
		has, err := a.o.Placement.Allocation(ctx, consumer)
		if err != nil {
			return err
		}
		d.held[consumer] = has
		hold := d.aim.Expected[consumer]
		hold.Allocation = has.Allocation
		d.aim.Expected[consumer] = hold
	}
	return nil
}

// Plan returns what the agent would write to Placement now, by the code that writes it. It changes nothing, and works
// whether the agent runs or not. The plan's objections include those of heal.Check.
func (a *Agent) Plan(ctx context.Context) (heal.Plan, error) {
	a.mu.Lock()
	j, root, set, restored := a.journal, a.root, a.set, a.restored
	a.mu.Unlock()
	var state journal.State
	err := a.checkSys()
	if err != nil {
		return heal.Plan{}, err
	}
	if j != nil {
		state = j.State()
	} else if state, err = journal.Read(a.o.Dir); err != nil {
		return heal.Plan{}, err
	}
	s, err := a.observe(ctx, state, root)
	if err != nil {
		return heal.Plan{}, err
	}
	if restored {
		set, _ = set.Sync(s.offers)
	} else if set, _, err = restore(s.offers, state, s.guests); err != nil {
		return heal.Plan{}, err
	}
	d, err := a.plan(ctx, s, set.Claims(), state, func(resource.ConsumerID) heal.HolderState { return heal.Assigned })
	if err != nil {
		return heal.Plan{}, err
	}
	for _, n := range d.notes {
		d.plan.Notes = append(d.plan.Notes, n.String())
	}
	d.plan.Notes = append(d.plan.Notes, s.problems...)
	d.plan.Objections = append(d.plan.Objections, d.check(s.facts.Actual)...)
	return d.plan, nil
}

func ownedOf(state journal.State) heal.OwnedSet {
	marks := heal.OwnedSet{}
	for id, m := range state.Owned() {
		marks[id] = heal.Owned{Classes: m.Classes, Traits: m.Traits}
	}
	return marks
}
