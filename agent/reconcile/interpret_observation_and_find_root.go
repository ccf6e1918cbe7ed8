package reconcile

import (
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// interpret returns what an observation means. A device that exists but cannot be read counts as it was last read.
// Faults: Invalid when the host's provider in Placement cannot be the agent's, or when the configuration cannot be
// reported.
func (s *syncer) interpret(o Observation) (v view, err error) {
	machine := withLastRead(o.Machine, s.scanned)
	for _, p := range machine.Problems {
		v.problems = append(v.problems, p.String())
	}
	if o.Capacity.Remark != "" {
		v.problems = append(v.problems, o.Capacity.Remark)
	}
	for _, g := range o.Guests {
		if g.Remark != "" {
			v.problems = append(v.problems, g.Remark)
		}
	}
	s.hypervisorType(o.Capacity.Type)
	s.recordDiskImages(o.Capacity)
	v.cells, v.guests, v.noDisks = s.config.CPUs.cells(machine), o.Guests, o.Capacity.NoDiskMoves
	v.identity = journal.Identity{Host: s.config.Host, Provider: s.root}
	if o.ByName { // at the start, or another client has deleted the root
		if v.identity, v.adopted, err = s.identify(o); err != nil {
			return v, err
		}
		s.warnOfConfig(machine, o.Capacity)
	}
	v.facts = survey.Facts{Host: s.config.Host, Root: v.identity.Provider, Devices: machine.Devices,
		Rules: s.config.Rules, Report: s.config.ReportInPlacement, ReportNetwork: s.config.ReportNetwork,
		VFIO: s.config.VFIO,
		NICs: machine.NICs, Actual: o.Tree, Spent: map[device.ID]bool{},
		Unreadable: unreadable(machine)}
	s.config.CPUs.fillFacts(&v.facts, machine, o.Capacity)
	for at, spent := range s.state.Spent() {
		v.facts.Spent[at] = !spent.Returning
	}
	v.offers, v.present = survey.Offers(v.facts), machine.Devices
	s.interpretKinds(&v, machine.Parts, o.Tree)
	return v, survey.CheckSwitch(v.facts)
}

// recordDiskImages records which images the disks of guests can become.
func (s *syncer) recordDiskImages(c hypervisor.Capacity) {
	if s.diskImages != c.DiskImages || s.noDiskImages != c.NoDiskImages {
		s.diskImages, s.noDiskImages = c.DiskImages, c.NoDiskImages
		s.reportChanged()
	}
}

// hypervisorType records what the driver says that it is. It warns of a driver that runs no virtual machines, because
// everything else looks as if it did.
func (s *syncer) hypervisorType(name string) {
	if s.hypervisor == name {
		return
	}
	s.hypervisor = name
	if name == hypervisor.FakeType {
		s.warn("FAKE hypervisor: guests are files, no virtual machine runs", "option", "[DEFAULT] compute_driver")
	}
	s.reportChanged()
}

// warnOfConfig logs what the configuration names and the host does not have. Wrong rules refuse the plan.
func (s *syncer) warnOfConfig(machine facts.Facts, capacity hypervisor.Capacity) {
	for _, finding := range s.config.Rules.Judge(machine.Devices) {
		if !finding.Wrong {
			s.warn(finding.Sentence)
		}
	}
	for _, sentence := range s.config.CPUs.Warnings(machine, capacity) {
		s.warn(sentence)
	}
}

// withLastRead returns the machine with each device that exists but cannot be read as it was last read. A NIC whose
// driver is one for guests has no network interface: its MAC address is the last one too.
func withLastRead(machine facts.Facts, last []pci.Device) facts.Facts {
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
func (s *syncer) identify(o Observation) (id journal.Identity, adopted string, err error) {
	known, written := s.state.Identity()
	if written && known.Host != s.config.Host {
		return id, "", fault.New(fault.Invalid, "the journal in %s is that of host %q, but this host is called %q; "+
			"give each host its own directory, or its old name back", s.config.Dir, known.Host, s.config.Host)
	}
	id = journal.Identity{Host: s.config.Host, Provider: known.Provider}
	switch found := o.Named; {
	case found == nil && !written:
		id.Provider = provider.ID(s.config.NewID())
		return id, "", nil
	case found == nil:
		if p, there := o.Tree.ByID(known.Provider); there && p.Name != s.config.Host {
			return id, "", fault.New(fault.Invalid,
				"Placement has this host's provider %s under the name %q, not %q; rename the provider or the host",
				p.ID, p.Name, s.config.Host)
		}
		return id, "", nil
	case found.Parent != "":
		return id, "", fault.New(fault.Invalid, "Placement has a provider %q (%s), but its parent is %s, and a host's "+
			"provider must be a root; rename the provider, or give this host another name", s.config.Host, found.ID,
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
func (s *syncer) observe(v view, epoch int) error {
	known, _ := s.state.Identity()
	v.identity.Instance, v.identity.Starts, v.identity.Cloud, v.identity.Machine = s.start.instance, s.start.number,
		known.Cloud, s.config.Machine.ID
	s.writeIdentity(v.identity)
	if !slices.Equal(s.state.Starts(), s.start.ids) {
		s.record(journal.Starts(s.start.ids))
	}
	if v.adopted != "" {
		s.condition("identity", v.adopted)
	}
	s.root, s.tree, s.scanned, s.cells = v.identity.Provider, v.facts.Actual, v.present, v.cells
	s.noDisks = v.noDisks
	s.condition("host", v.problems...)
	s.reportChanged() // also when nothing changed: compute expects a report at least once a minute
	if !s.restored {
		s.guestEpoch++
		return s.restoreGuests(v.offers, v.guests)
	}
	set, changes := s.set.Sync(s.withUsed(v.offers))
	for _, change := range changes {
		s.log("device", "change", change.String())
	}
	s.set = set
	s.setConflictCondition()
	if epoch == s.guestEpoch {
		s.guests = map[string]hypervisor.Guest{}
		for _, g := range v.guests {
			s.guests[g.ID] = g
		}
		s.markUsedByGuests()
		s.wake = true
	}
	return nil
}
