package sync

import (
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// interpret returns what an observation means. A device that exists but cannot be read counts as it was last read.
// Faults: Invalid when the host's provider in Placement cannot be the agent's, or when the configuration cannot be
// reported.
func (s *Syncer) interpret(o state.Observation) (v view, err error) {
	machine := WithLastRead(o.Machine, s.Scanned)
	v.Problems = problems(machine, o)
	s.hypervisorType(o.Capacity.Type)
	s.recordDisks(o.Capacity)
	v.cells, v.nodes = s.Config.CPUs.Cells(machine), state.Topology(machine)
	v.guests, v.noDisks = o.Guests, o.Capacity.NoDiskMoves
	v.identity = journal.Identity{Host: s.Config.Host, Provider: s.Root}
	if o.ByName { // at the start, or another client has deleted the root
		if v.identity, v.adopted, err = s.identify(o); err != nil {
			return v, err
		}
		s.warnOfConfig(machine, o.Capacity)
	}
	v.facts = survey.Facts{Host: s.Config.Host, Root: v.identity.Provider, Devices: machine.Devices,
		Rules: s.Config.Rules, Report: s.Config.ReportInPlacement, ReportNetwork: s.Config.ReportNetwork,
		VFIO: s.Config.VFIO,
		NUMA: survey.NUMA{Cells: v.cells, Limits: s.Config.CPUs.Limits(), InPlacement: s.Config.CPUs.InPlacement},
		NICs: machine.NICs, Actual: o.Tree, Unreadable: unreadable(machine),
		Past: survey.Past{Spent: map[device.ID]bool{}, VFs: cardVFs(s.Core, o, machine.Devices)}}
	s.Config.CPUs.FillFacts(&v.facts, machine, o.Capacity)
	for at, spent := range s.State.Spent() {
		v.facts.Spent[at] = !spent.Returning
	}
	v.offers, v.present = survey.Offers(v.facts), machine.Devices
	s.interpretKinds(&v, machine.Parts, o.Tree)
	return v, survey.CheckSwitch(v.facts)
}

// problems returns what could not be read of the host, and what the hypervisor has remarked on it and on guests.
func problems(machine facts.Facts, o state.Observation) (list []condition.Condition) {
	add := func(kind condition.Kind, subject, text string) {
		list = append(list, condition.New(kind, subject, text))
	}
	for _, p := range machine.Problems {
		add(condition.Hardware, p.Name, p.String())
	}
	for _, r := range o.Capacity.Remarks {
		add(condition.HypervisorRemark, r.Subject, r.Text)
	}
	for _, t := range o.Capacity.Transfers {
		add(condition.Transfer, t.Subject, t.Text)
	}
	for _, g := range o.Guests {
		if g.Remark != "" {
			add(condition.HypervisorRemark, g.ID, g.Remark)
		}
	}
	return list
}

// recordDisks records which images the disks of guests can become, and where they can be copied from.
func (s *Syncer) recordDisks(c hypervisor.Capacity) {
	if s.DiskImages != c.DiskImages || s.NoDiskImages != c.NoDiskImages || s.MoveAddress != c.MoveAddress {
		s.DiskImages, s.NoDiskImages, s.MoveAddress = c.DiskImages, c.NoDiskImages, c.MoveAddress
		s.ReportChanged()
	}
}

// hypervisorType records what the driver says that it is. It warns of a driver that runs no virtual machines, because
// everything else looks as if it did.
func (s *Syncer) hypervisorType(name string) {
	if s.Hypervisor == name {
		return
	}
	s.Hypervisor = name
	if name == hypervisor.FakeType {
		s.Warn("FAKE hypervisor: guests are files, no virtual machine runs", "option", "[DEFAULT] compute_driver")
	}
	s.ReportChanged()
}

// warnOfConfig logs what the configuration names and the host does not have. Wrong rules refuse the plan.
func (s *Syncer) warnOfConfig(machine facts.Facts, capacity hypervisor.Capacity) {
	for _, finding := range s.Config.Rules.Judge(machine.Devices) {
		if !finding.Wrong {
			s.Warn(finding.Sentence)
		}
	}
	for _, sentence := range s.Config.CPUs.Warnings(machine, capacity) {
		s.Warn(sentence)
	}
}

// WithLastRead returns the machine with each device that exists but cannot be read as it was last read. A NIC whose
// driver is one for guests has no network interface: its MAC address is the last one too.
func WithLastRead(machine facts.Facts, last []pci.Device) facts.Facts {
	machine.Devices = slices.Clone(machine.Devices)
	for i, d := range machine.Devices {
		at := slices.IndexFunc(last, func(l pci.Device) bool { return l.Address == d.Address })
		if d.PFMAC == "" && len(d.Net) == 0 && at >= 0 && last[at].Vendor == d.Vendor && last[at].Product == d.Product &&
			last[at].Type == d.Type {
			machine.Devices[i].PFMAC = last[at].PFMAC
		}
	}
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
			d := &machine.Devices[now]
			d.Serial, d.PFMAC, d.VFNumber = last[i].Serial, last[i].PFMAC, last[i].VFNumber
		}
	}
	return machine
}

// unreadable returns the devices that exist and cannot be identified.
func unreadable(machine facts.Facts) map[device.ID]bool {
	out := map[device.ID]bool{}
	for _, p := range machine.Problems {
		if address, err := pci.ParseAddress(p.Name); err == nil && p.Unreadable {
			out[device.PCI(address)] = true
		}
	}
	return out
}

// identify determines the host's root provider: the one that Placement has under the host's name, because allocations
// refer to it; else the journal's, so that a restart keeps it; else a new one. adopted is a sentence when Placement's
// differs from the journal's. Invalid: the journal is another host's, or Placement has the provider elsewhere or under
// another name.
func (s *Syncer) identify(o state.Observation) (id journal.Identity, adopted string, err error) {
	known, written := s.State.Identity()
	if written && known.Host != s.Config.Host {
		return id, "", fault.New(fault.Invalid, "the journal in %s is that of host %q, but this host is called %q; "+
			"give each host its own directory, or its old name back", s.Config.Dir, known.Host, s.Config.Host)
	}
	id = journal.Identity{Host: s.Config.Host, Provider: known.Provider}
	switch found := o.Named; {
	case found == nil && !written:
		id.Provider = provider.ID(s.Config.NewID())
		return id, "", nil
	case found == nil:
		if p, there := o.Tree.ByID(known.Provider); there && p.Name != s.Config.Host {
			return id, "", fault.New(fault.Invalid,
				"Placement has this host's provider %s under the name %q, not %q; rename the provider or the host",
				p.ID, p.Name, s.Config.Host)
		}
		return id, "", nil
	case found.Parent != "":
		return id, "", fault.New(fault.Invalid, "Placement has a provider %q (%s), but its parent is %s, and a host's "+
			"provider must be a root; rename the provider, or give this host another name", s.Config.Host, found.ID,
			found.Parent)
	case written && found.ID != known.Provider:
		adopted = "Placement has this host as provider " + string(found.ID) + ", the journal had it as " +
			string(known.Provider) + "; the agent uses Placement's, which has the allocations"
		fallthrough
	default:
		id.Provider = found.ID
	}
	return id, adopted, nil
}

// observe stores what an observation means as the state of the host. The observed guests are stored only if none was
// built or removed since the epoch.
func (s *Syncer) observe(v view, epoch int) error {
	known, _ := s.State.Identity()
	v.identity.Instance, v.identity.Starts, v.identity.Cloud, v.identity.Machine = s.Start.Instance, s.Start.Number,
		known.Cloud, s.Config.Machine.ID
	s.WriteIdentity(v.identity)
	if !slices.Equal(s.State.Starts(), s.Start.Ids) {
		s.Record(journal.Starts(s.Start.Ids))
	}
	if v.adopted != "" {
		s.Condition(condition.Identity, "", v.adopted)
	}
	s.DisableVanished(v.present)
	s.Root, s.Tree, s.Scanned = v.identity.Provider, v.facts.Actual, v.present
	s.Cells, s.Nodes = v.cells, v.nodes
	s.NoDisks = v.noDisks
	state.SetConditions(s.Core, "host", v.Problems)
	s.ReportChanged() // also when nothing changed: compute expects a report at least once a minute
	if !s.Restored {
		s.GuestEpoch++
		err := s.restoreGuests(v.offers, v.guests)
		state.VFsObserved(s.Core, v.present)
		return err
	}
	set, changes := s.Set.Sync(s.withUsed(v.offers))
	for _, change := range changes {
		s.Log("device", "change", change.String())
	}
	s.Set = set
	state.VFsObserved(s.Core, v.present)
	s.setConflictCondition()
	if epoch == s.GuestEpoch {
		s.Guests = map[string]hypervisor.Guest{}
		for _, g := range v.guests {
			s.Guests[g.ID] = g
		}
		s.MarkUsedByGuests()
		s.Wake = true
	}
	return nil
}
