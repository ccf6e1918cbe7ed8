package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// simHost is one host: its hardware, its hypervisor, its disk, and the agent while it runs. A copy of an agent's
// directory runs on a machine of its own that has the same host name.
type simHost struct {
	name string     // of the host
	tag  string     // name, or for a machine with a copied directory another one
	host *hostState // what compute has of the host
	root provider.ID
	zone int
	hardware
	hypervised
	service service

	disk    disk
	fresh   bool   // no agent has served the host with this journal
	agent   *agent // nil while it does not run
	install string // machine-id of the installed system, also in a copy of it
	refused int    // configurations that its agent has refused one after the other
	stuck   bool   // its agent has refused to start with any configuration

	cut    bool // requests of its agent to compute and Placement fail
	frozen bool // its agent does nothing, and its connections stay open

	zombie   bool // oracle: its guests exist although their allocations may have been removed, see checks.exempt
	orphaned bool // oracle: compute may have forgotten guests that exist, see repairs.mayBeUnknown
}

// hardware is the devices of a machine, and how they are configured.
type hardware struct {
	made  []pci.Device         // all that can be plugged in
	away  map[pci.Address]bool // what is not there now
	nodes []facts.Node
	rules []pci.Rules // what the operator may configure; the first is the usual one, the fourth fits what is held
	rule  int
	flags string                 // of the devices, as text of a device_spec
	texts map[pci.Address]string // the same of each device of a varied machine
	once  bool                   // it has devices for one-time use

	// the agent counts what NUMA nodes give to guests on providers of their own
	nodesInPlacement bool
	cpus             state.CPUs // how guests may use its CPUs and memory

	// PFs that are offered also as their VFs and whose VFs an agent has removed
	bare map[pci.Address]bool

	portVFs    bool                   // it has VFs for ports
	configured map[pci.Address]string // ports for which its VFs are configured
	unplugged  map[pci.Address]bool   // VFs that were unplugged since they were configured
}

// hypervised is what the hypervisor of a machine has.
type hypervised struct {
	guests  map[string]*hypervisor.Guest
	content map[string]int  // of the disks of guests; each blank disk has another number
	built   map[string]bool // oracle: guests that no report of the agent has named as built
	late    map[string]bool // oracle: guests that were built after the agent had given them up
}

// newHypervised returns a hypervisor without guests.
func newHypervised() hypervised {
	return hypervised{map[string]*hypervisor.Guest{}, map[string]int{}, map[string]bool{}, map[string]bool{}}
}

// hostModel is the machines.
type hostModel struct {
	*kernel
	hosts  []*simHost
	copies []*simHost // with copied directories, beside those of hosts
	byName map[string]*simHost
	byRoot map[provider.ID]*simHost
	byTag  map[string]*simHost // also copies
	zones  []zone
	active randomSet  // tags of machines on which something is to be done
	marked []*simHost // by the present operation
}

// advance moves the clock. Agents whose deadline has passed get a Tick.
func (hm *hostModel) advance(d time.Duration) {
	hm.clock += d
	hm.agentClock += hm.agentWait(d)
	hm.now = beginning().Add(hm.clock + hm.skew)
	now := hm.agentTime()
	for _, list := range [][]*simHost{hm.hosts, hm.copies} {
		for _, m := range list {
			if a := m.agent; a != nil && !a.deadline.IsZero() && !now.Before(a.deadline) {
				hm.active.add(m.tag)
			}
		}
	}
}

// some returns a random host.
func (hm *hostModel) some() *simHost { return hm.hosts[hm.rng.IntN(len(hm.hosts))] }

// fleetFactor is by how much more seldom something happens that concerns all hosts: the more there are, the longer they
// take to come through it.
func (hm *hostModel) fleetFactor() int { return max(1, len(hm.hosts)/40) }

// mark makes a machine active, and has it checked after this operation.
func (hm *hostModel) mark(m *simHost) {
	if !slices.Contains(hm.marked, m) {
		hm.marked = append(hm.marked, m)
	}
	hm.active.add(m.tag)
}

// machines returns the machines with the name of a host: the host itself and copies.
func (hm *hostModel) machines(name string) []*simHost {
	list := []*simHost{hm.byName[name]}
	for _, c := range hm.copies {
		if c.name == name {
			list = append(list, c)
		}
	}
	return list
}

// markHost marks all machines of a host.
func (hm *hostModel) markHost(name string) {
	hm.mark(hm.byName[name])
	for _, c := range hm.copies {
		if c.name == name {
			hm.mark(c)
		}
	}
}

// markResidences marks the machines on which a server has a residence.
func (hm *hostModel) markResidences(s lifecycle.Server) {
	for _, residence := range s.Residences() {
		if hm.byName[residence.Host] != nil {
			hm.markHost(residence.Host)
		}
	}
}

// mayHaveGuests notes that guests may exist on a dead host.
func (hm *hostModel) mayHaveGuests(m *simHost) {
	for _, o := range hm.machines(m.name) {
		o.zombie = true
	}
}

// replacedBy reports whether a copy of its directory serves the host of a machine or tries to.
func (hm *hostModel) replacedBy(m *simHost) bool { return len(hm.machines(m.name)) > 1 }

// servedBy returns the machine whose admitted agent runs and is connected; nil if there is none.
func (hm *hostModel) servedBy(h *hostState) *simHost {
	serving := func(m *simHost) bool {
		a := m.agent
		return a != nil && !m.cut && !m.frozen && h.row.known && a.start == h.row.report.Start
	}
	if m := hm.byName[h.name]; serving(m) {
		return m
	}
	for _, c := range hm.copies {
		if c.name == h.name && serving(c) {
			return c
		}
	}
	return nil
}

// away returns how long compute has had no sign of life of a host.
func (hm *hostModel) away(m *simHost) time.Duration {
	if hm.servedBy(m.host) != nil {
		return 0
	}
	return hm.clock - m.host.sign
}

// willReport reports whether an agent of a host is about to report.
func (hm *hostModel) willReport(h *hostState) bool {
	return slices.ContainsFunc(hm.machines(h.name), func(m *simHost) bool { return m.agent != nil && !m.cut })
}

// violation records a violated invariant of a machine, or of the cloud if it is nil; the first one counts.
func (hm *hostModel) violation(m *simHost, format string, args ...any) {
	if hm.failure == "" {
		hm.failure = fmt.Sprintf(format, args...)
		if m != nil {
			hm.failure = m.tag + ": " + hm.failure
		}
	}
}

// devices are those that are plugged in.
func (m *simHost) devices() []pci.Device {
	there := slices.DeleteFunc(slices.Clone(m.made), func(d pci.Device) bool {
		return m.away[d.Address] || d.Parent != nil && m.bare[*d.Parent]
	})
	if m.bare == nil {
		return there
	}
	for i := range there {
		there[i].NumVFs = 0
		for _, d := range there {
			if d.Parent != nil && *d.Parent == there[i].Address {
				there[i].NumVFs++
			}
		}
	}
	return there
}

// hasNews reports whether compute has assignments that the agent has not read.
func (a *agent) hasNews(m *simHost) bool {
	return a.stream != nil && !m.cut && a.stream.read != m.host.row.revision
}

// known lists the ids that the journal or the hypervisor has, in order.
func (m *simHost) known() []string {
	all := map[string]bool{}
	for _, id := range slices.Concat(m.disk.found.Servers(), m.disk.found.Gone()) {
		all[id] = true
	}
	for id := range m.guests {
		all[id] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// journalID returns the id under which the journal has a guest: the new one while a rename is unfinished.
func (m *simHost) journalID(id string) string {
	renames := m.disk.found.Renames()
	for _, now := range slices.Sorted(maps.Keys(renames)) {
		if renames[now].Was == id && !renames[now].Done {
			return now
		}
	}
	return id
}

// journalHolder returns the consumer that the journal of a machine gives a device to; empty if there is none.
func (m *simHost) journalHolder(at pci.Address) string {
	for _, c := range m.disk.found.Claims() {
		if c.Device.Address == at {
			return string(c.Holder)
		}
	}
	return ""
}

// setFound replaces what the next process finds. What a failed write has left may be gone after the next write.
func (m *simHost) setFound(state journal.State) {
	m.disk.found, m.disk.followed = state, m.disk.durable
	if followed, known := m.agent.followed[state.Position()]; known {
		m.disk.followed = followed
	}
}

// restoreService exempts the devices whose requests a restored database lacks, unless the journal has them.
func (m *simHost) restoreService() {
	maps.DeleteFunc(m.service.out, func(at pci.Address, d pci.Disablement) bool {
		_, found := m.disk.found.Disablement(d.ID)
		_, durable := m.disk.state.Disablement(d.ID)
		_, enabled := m.host.row.devices.enable[d.ID] // before the backup
		return enabled || m.host.row.devices.disabled[at].ID != d.ID && !(found && durable)
	})
}
