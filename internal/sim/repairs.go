package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file is the simulated operator. What the cloud does not repair by itself after a restore, a loss or a copy, the
// operator repairs after a while with what Berth offers: `berth agent adopt`, `berth agent destroy`, `berth host heal`,
// deleting servers, and Placement's API.

// patience is how long the operator lets a host be that does not follow compute's assignments.
const patience = 10 * time.Minute

// operatorSome repairs something that has been wrong for a while: on some hosts, or of one server.
func (rp *repairs) operatorSome() {
	left := 1 + len(rp.hosts)/12 // hosts
	switch rp.rng.IntN(5) {
	case 0, 1:
		for _, m := range rp.hosts {
			waits := m.agent != nil && !m.cut && m.host.row.report.NotFollowed != "" && rp.clock-m.host.behindSince > patience
			if waits && left > 0 && rp.halfTheTime() {
				rp.adopt(m)
				left--
			}
		}
	case 2:
		for _, m := range rp.hosts {
			if left > 0 && rp.halfTheTime() && rp.destroyUnassigned(m) {
				left--
			}
		}
	case 4:
		for _, m := range rp.hosts {
			if left > 0 && rp.heal(m) {
				left--
			}
		}
	case 3:
		if ids := rp.compute.ids.list; len(ids) > 0 {
			rp.repairServer(rp.compute.servers[ids[rp.rng.IntN(len(ids))]], false)
		}
	}
}

// repair repairs everything that is wrong in a quiet cloud, and reports whether there was anything.
func (rp *repairs) repair() bool {
	return rp.repairHosts() || rp.freeNames() || rp.repairPlacement() || rp.cleanReserved() || rp.releaseReserved() ||
		rp.repairPorts()
}

// heal is `berth host heal`, if compute reports that something is wrong with the allocations of a host.
func (rp *repairs) heal(m *simHost) (healed bool) {
	if len(rp.compute.conductor.HostConditions(m.name)) == 0 {
		return false
	}
	found, _ := rp.compute.conductor.Audits.HostHeal(background, m.name, audit.Healing{})
	for _, missing := range found.Missing {
		if missing.Healed {
			rp.note("operator", missing.Consumer, m.name, "heals: "+missing.Outcome)
			rp.report.Happened["allocation healed"]++
			healed = true
		}
	}
	return healed
}

// freeNames is `berth agent destroy --force` of the guests whose ids other guests must take. This happens on a host
// that was declared dead while a server was resized on it: compute has taken the guest of the new size for gone.
func (rp *repairs) freeNames() (busy bool) {
	for _, m := range rp.hosts {
		if m.agent == nil || !m.agent.received {
			continue
		}
		for _, want := range rp.compute.lines(m.host).servers {
			if !m.nameTaken(want) {
				continue
			}
			if !m.zombie && !rp.mayBeUnknown(m, want.ID) {
				rp.violation(m, "name: the guest %s must take the id %s of another guest, and the host was never declared dead",
					want.PreviousID, want.ID)
			}
			rp.note("operator", want.ID, m.tag, "destroys, so that "+want.PreviousID+" can take the id")
			rp.report.Happened["name freed by the operator"]++
			rp.destroyByHand(m, want.ID)
			busy = true
			break
		}
	}
	return busy
}

// nameTaken reports whether a guest must take an id that another guest has.
func (m *simHost) nameTaken(want host.Server) bool {
	_, had := m.disk.found.Of(want.ID)
	_, comes := m.disk.found.Of(want.PreviousID)
	return want.PreviousID != want.ID && m.disk.found.Renames()[want.ID].Was != want.PreviousID && had && comes &&
		m.guests[want.ID] != nil
}

// destroyByHand destroys a guest while its agent is stopped.
func (rp *repairs) destroyByHand(m *simHost, id string) {
	rp.agents.crash(m)
	claims, _ := m.disk.found.Of(id)
	for _, c := range claims {
		delete(m.configured, c.Device.Address)
	}
	delete(m.guests, id)
	m.disk.change(journal.Gone(id))
	rp.agents.start(m)
}

// repairHosts adopts the hosts that do not follow the assignments, and destroys unassigned guests.
func (rp *repairs) repairHosts() (busy bool) {
	for _, m := range rp.hosts {
		if a := m.agent; a != nil && a.behind() != "" {
			rp.adopt(m)
			busy = true
		}
	}
	for _, m := range rp.hosts {
		for rp.destroyMissing(m) || rp.destroyUnassigned(m) {
			busy = true
		}
	}
	return busy
}

// adopt is `berth agent adopt`: the agent follows the next assignments that it reads, whatever they are.
func (rp *repairs) adopt(m *simHost) {
	rp.note("operator", "", m.tag, "adopts: "+m.agent.behind())
	rp.report.Happened["host adopted"]++
	rp.agents.crash(m)
	if id, written := m.disk.found.Identity(); written { // else the first sync records one, as in loop.Agent.Adopt
		if id.Machine != m.install {
			rp.forgetMissing(m)
		}
		id.Cloud, id.Machine = "", m.install
		m.disk.change(id.Entry())
	}
	m.disk.change(journalPosition{}.Entry())
	m.disk.followed = stamp{}
	rp.agents.start(m)
}

// forgetMissing is what adopting does to guests that the machine does not have.
func (rp *repairs) forgetMissing(m *simHost) {
	for _, id := range m.disk.found.Servers() {
		if m.guests[id] == nil {
			m.disk.change(journal.Unbuilt(id))
		}
	}
}

// destroyUnassigned is `berth agent destroy` of a guest that the assignments do not mention.
func (rp *repairs) destroyUnassigned(m *simHost) bool {
	a := m.agent
	if a == nil || !a.received || len(m.guests) == 0 || rp.servedBy(m.host) != m {
		return false
	}
	list := slices.DeleteFunc(a.unassigned(), func(id string) bool {
		return m.late[id] && m.disk.found.Ended(id) // the agent destroys it
	})
	if len(list) == 0 {
		return false
	}
	id := list[rp.rng.IntN(len(list))]
	for _, want := range rp.compute.lines(m.host).servers {
		if want.ID == id || want.PreviousID == id {
			return false // it refuses: compute assigns the guest
		}
	}
	if !rp.mayBeUnknown(m, id) && !m.late[id] {
		rp.violation(m, "unassigned: the guest %s of server %s, and nothing has been restored or lost", id, rp.ownerOf[id])
	}
	rp.note("operator", id, m.tag, "destroys")
	rp.report.Happened["guest destroyed by the operator"]++
	rp.destroyByHand(m, id)
	return true
}

// destroyMissing is `berth agent destroy --force` of a guest that only the journal has, as after the journal was
// restored from a backup: then it may be built again, without its data.
func (rp *repairs) destroyMissing(m *simHost) bool {
	a := m.agent
	if a == nil || !a.received || rp.servedBy(m.host) != m {
		return false
	}
	renames := m.disk.found.Renames()
	for _, id := range m.disk.found.Servers() {
		_, built := m.disk.found.Built(id)
		if was := renames[id]; built && m.guests[id] == nil && (was.Was == "" || was.Done) {
			rp.note("operator", id, m.tag, "destroys what is missing")
			rp.report.Happened["missing guest given up by the operator"]++
			rp.destroyByHand(m, id)
			return true
		}
	}
	return false
}

// repairPlacement makes Placement's allocations what compute's records say. Servers whose guests have something else
// than their records say are deleted.
func (rp *repairs) repairPlacement() (busy bool) {
	for _, m := range rp.hosts {
		if rp.removeWrongClasses(m) {
			busy = true
		}
		if rp.heal(m) {
			busy = true
		}
		if m.stuck {
			rp.agents.start(m)
			busy = true
		}
	}
	residences := rp.residences()
	for _, c := range rp.placement.Consumers() {
		if _, there := residences[string(c)]; !there && !strings.HasPrefix(string(c), foreign) {
			if owner := rp.ownerOf[string(c)]; !rp.rolledBack[owner] && !rp.altered[owner] {
				rp.violation(nil, "orphan: %s of server %s holds something in Placement, and nothing has been restored", c, owner)
			}
			rp.note("operator", string(c), "", "drops an allocation")
			rp.report.Happened["allocation dropped by the operator"]++
			rp.placement.drop(c)
			rp.altered[rp.ownerOf[string(c)]] = true // its guest may stand under another id
			busy = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rp.compute.servers)) {
		s := rp.compute.servers[id]
		if rp.repairServer(s, true) {
			busy = true
		}
	}
	return busy
}

// removeWrongClasses removes classes that the agent does not report any more from the providers of a host's devices.
// They return with a restored database of Placement, and the agent does not own them then.
func (rp *repairs) removeWrongClasses(m *simHost) (busy bool) {
	right := map[provider.ID]resource.Class{}
	state, _ := rp.agents.dryRun(m)
	for _, e := range state.Devices().Entries() {
		right[e.Provider] = e.ResourceClass
	}
	for _, c := range state.Devices().Claims() { // a provider keeps the class that guests hold
		right[c.Provider] = c.ResourceClass
	}
	for _, id := range slices.Clone(rp.placement.TreeIDs(m.root)) {
		p, _ := rp.placement.Provider(id)
		if m.stuck && p.Parent != "" {
			rp.dropWrongAllocations(m, p, right[id])
		}
		rest := maps.Clone(p.Inventories)
		maps.DeleteFunc(rest, func(class resource.Class, _ resource.Inventory) bool {
			return p.Parent != "" && right[id] != "" && right[id] != class && rp.placement.Used(id)[class] == 0
		})
		if len(rest) == len(p.Inventories) {
			continue
		}
		if _, err := rp.placement.PutInventories(background, id, p.Generation, rest); err == nil {
			rp.note("operator", "", m.tag, "takes a class away from "+p.Name)
			rp.report.Happened["class taken away by the operator"]++
			rp.agents.changed(m)
			busy = true
		}
	}
	return busy
}

// dropWrongAllocations deletes the allocations of other classes than the right one on a provider, which an older
// database of Placement has.
func (rp *repairs) dropWrongAllocations(m *simHost, p provider.Provider, right resource.Class) {
	for _, c := range slices.Sorted(maps.Keys(rp.placement.Holders(p.ID))) {
		if amounts := rp.placement.Holders(p.ID)[c]; right == "" || len(amounts) == 1 && amounts[right] > 0 {
			continue
		}
		rp.note("operator", string(c), m.tag, "drops an allocation of another class")
		rp.report.Happened["allocation dropped by the operator"]++
		rp.altered[rp.ownerOf[string(c)]] = true
		rp.placement.drop(c)
	}
}

// residences returns all residences of compute's records, by consumer.
func (rp *repairs) residences() map[string]lifecycle.Residence {
	out := map[string]lifecycle.Residence{}
	for _, s := range rp.compute.servers {
		for _, residence := range s.Residences() {
			out[residence.Consumer] = residence
		}
	}
	return out
}

// repairServer writes the allocations of one server as its record has them, if a restore or another client has changed
// one of them. With last, a server for which that is not possible is deleted.
func (rp *repairs) repairServer(s lifecycle.Server, last bool) bool {
	if s.Phase() == lifecycle.RevertBlocked && last {
		rp.compute.remove(s.ID)
		return true
	}
	if s.State != lifecycle.Active && s.Phase() != lifecycle.Resized || s.Task != "" || len(s.Leftovers) > 0 ||
		!s.Requested.IsZero() || s.PortChange != nil {
		return false
	}
	for _, residence := range s.Residences() {
		c := resource.ConsumerID(residence.Consumer)
		held, _ := rp.placement.Allocation(background, c)
		g := rp.byName[residence.Host].guests[residence.Consumer]
		changing := func(request string) bool { return isChanging(s, request) }
		fits := g != nil && chosen(g, residence, changing) == ""
		want := rp.expected(s, residence, held.Allocation)
		if fits && withoutCounters(want).Equal(withoutCounters(held.Allocation)) {
			continue
		}
		if !fits && !last {
			continue
		}
		if fits && !rp.altered[s.ID] && !rp.rolledBack[s.ID] {
			if last { // otherwise a change of the server may be in progress
				rp.violation(rp.byName[residence.Host],
					"allocation: %s of server %s holds %v, its record and its ports need %v, and "+
						"nothing was restored or taken away", residence.Consumer, s.ID, held.Allocation, want)
			}
			continue
		}
		err := error(nil)
		if fits {
			held.Allocation, held.Project, held.User = want, s.Project, s.User
			held.ConsumerType = "INSTANCE"
			err = rp.placement.PutAllocation(background, c, held)
		}
		if fits && err == nil {
			rp.note("operator", residence.Consumer, residence.Host, "writes its allocation")
			rp.report.Happened["allocation written by the operator"]++
			return true
		}
		if !last {
			continue
		}
		rp.note("operator", s.ID, residence.Host, "gives it up")
		rp.report.Happened["server given up by the operator"]++
		rp.compute.remove(s.ID)
		return true
	}
	return false
}

// cleanReserved cleans the devices for one-time use that no server has and that only Placement has as used.
func (rp *repairs) cleanReserved() (busy bool) {
	for _, m := range rp.hosts {
		for _, d := range m.host.row.report.Devices {
			if _, known := m.disk.found.Spent()[device.PCI(d.Address)]; !known && rp.compute.requestClean(m, d) {
				busy = true
			}
		}
	}
	return busy
}

// releaseReserved enables devices that are free and that Placement has as reserved, on hosts whose agent may not know
// that it has reserved them.
func (rp *repairs) releaseReserved() (busy bool) {
	for _, m := range rp.hosts {
		free, one := map[provider.ID]int{}, map[provider.ID]pci.Address{}
		for _, d := range m.host.row.report.Devices {
			if d.State == pci.Available && !d.Spent && !d.Disabled {
				free[d.Provider]++
				one[d.Provider] = d.Address
			}
		}
		for _, id := range slices.Sorted(maps.Keys(free)) {
			p, _ := rp.placement.Provider(id)
			for class, inv := range p.Inventories {
				if m.service.lost && inv.Capacity()-rp.placement.Used(id)[class] < free[id] && inv.Reserved > 0 &&
					len(m.host.row.devices.enable) == 0 {
					rp.compute.enableDevice(m, one[id])
					rp.report.Happened["reserved device enabled"]++
					busy = true
				}
			}
		}
	}
	return busy
}

// expected returns the allocation that a guest must have: its choice, with what the ports of a server request now. The
// source of a move has the ports that it had when the move began, so what it holds for them counts, and so does what a
// server holds whose ports are short.
func (rp *repairs) expected(s lifecycle.Server, residence lifecycle.Residence,
	held resource.Allocation) resource.Allocation {
	all := rp.shareOf(s, residence)
	if residence.Consumer == s.ID && !isShort(s) {
		maps.Copy(all, rp.network.guaranteed(s))
		return all
	}
	maps.Copy(all, onlyPorts(held))
	return all
}

// withoutCounters returns an allocation without what agents add to a claim that was made before its host had providers
// of nodes.
func withoutCounters(a resource.Allocation) resource.Allocation {
	out := a.Clone()
	for id, amounts := range out {
		maps.DeleteFunc(amounts, func(class resource.Class, _ int) bool {
			return numa.IsNodeClass(class) && class != numa.DedicatedCPUs
		})
		if len(amounts) == 0 {
			delete(out, id)
		}
	}
	return out
}

// repairs is the simulated operator.
type repairs struct {
	*cloud
	*checks
}

// repairPorts is what an operator does about ports after a restore: those of servers that compute does not have any
// more are returned, and a server whose ports contradict its record is deleted.
func (rp *repairs) repairPorts() (busy bool) {
	for _, id := range slices.Clone(rp.network.ids) {
		p := rp.network.ports[id]
		if _, exists := rp.compute.servers[p.Device]; p.Device == "" || exists {
			continue
		}
		if !rp.rolledBack[p.Device] {
			rp.violation(nil, "port: %s belongs to server %s, which does not exist, and nothing was restored", id, p.Device)
			return false
		}
		rp.note("operator", p.Device, p.Host, "returns port "+id)
		rp.report.Happened["port returned by the operator"]++
		rp.network.remove(id)
		busy = true
	}
	for _, id := range slices.Sorted(maps.Keys(rp.compute.servers)) {
		if s := rp.compute.servers[id]; (rp.rolledBack[id] || rp.altered[id]) && s.Requested.IsZero() &&
			rp.portFault(s, rp.placement.Held(resource.ConsumerID(id))) != "" {
			rp.report.Happened["server with other ports deleted by the operator"]++
			rp.compute.remove(id)
			busy = true
		}
	}
	return busy
}

// mayBeUnknown reports whether a machine may have a guest that compute does not know: a restored database has another
// record of its server, an operator has had compute forget the host, or machines with a copied directory took turns.
func (rp *repairs) mayBeUnknown(m *simHost, guest string) bool {
	return m.orphaned || rp.rolledBack[rp.ownerOf[guest]]
}
