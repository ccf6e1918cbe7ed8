package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file is the simulated operator. What the cloud does not repair by itself after a restore, a loss or a copy, the
// operator repairs after a while with what Berth offers: `berth agent adopt`, `berth agent destroy`, `berth host heal`,
// deleting servers, and Placement's API.

// patience is how long the operator lets a host be that does not follow compute's assignments.
const patience = 10 * time.Minute

// operatorSome repairs something that has been wrong for a while: on some hosts, or of one server.
func (w *World) operatorSome() {
	left := 1 + len(w.hosts)/12 // hosts
	switch w.rng.IntN(5) {
	case 0, 1:
		for _, m := range w.hosts {
			waits := m.agent != nil && !m.cut && m.host.row.report.NotFollowed != "" && w.clock-m.host.behindSince > patience
			if waits && left > 0 && w.halfTheTime() {
				w.adopt(m)
				left--
			}
		}
	case 2:
		for _, m := range w.hosts {
			if left > 0 && w.halfTheTime() && w.destroyUnassigned(m) {
				left--
			}
		}
	case 4:
		for _, m := range w.hosts {
			if left > 0 && w.heal(m) {
				left--
			}
		}
	case 3:
		if ids := w.compute.ids.list; len(ids) > 0 {
			w.repairServer(w.compute.servers[ids[w.rng.IntN(len(ids))]], false)
		}
	}
}

// repair repairs everything that is wrong in a quiet cloud, and reports whether there was anything.
func (w *World) repair() bool {
	return w.repairHosts() || w.freeNames() || w.repairPlacement() || w.cleanReserved() || w.repairPorts()
}

// heal is `berth host heal`, if compute reports that something is wrong with the allocations of a host.
func (w *World) heal(m *simHost) (healed bool) {
	if len(w.compute.conductor.HostConditions(m.name)) == 0 {
		return false
	}
	audit, _ := w.compute.conductor.HostHeal(background, m.name, conductor.Healing{})
	for _, missing := range audit.Missing {
		if missing.Healed {
			w.note("operator", missing.Consumer, m.name, "heals: "+missing.Outcome)
			w.report.Happened["allocation healed"]++
			healed = true
		}
	}
	return healed
}

// freeNames is `berth agent destroy --force` of the guests whose ids other guests must take. This happens on a host
// that was declared dead while a server was resized on it: compute has taken the guest of the new size for gone.
func (w *World) freeNames() (busy bool) {
	for _, m := range w.hosts {
		if m.agent == nil || !m.agent.received {
			continue
		}
		for _, want := range w.compute.lines(m.host).servers {
			if !m.nameTaken(want) {
				continue
			}
			if !m.zombie && !w.mayBeUnknown(m, want.ID) {
				w.violation(m, "name: the guest %s must take the id %s of another guest, and the host was never declared dead",
					want.PreviousID, want.ID)
			}
			w.note("operator", want.ID, m.tag, "destroys, so that "+want.PreviousID+" can take the id")
			w.report.Happened["name freed by the operator"]++
			w.destroyByHand(m, want.ID)
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
func (w *World) destroyByHand(m *simHost, id string) {
	w.crash(m)
	claims, _ := m.disk.found.Of(id)
	for _, c := range claims {
		delete(m.configured, c.Device.Address)
	}
	delete(m.guests, id)
	m.disk.change(journal.Gone(id))
	w.start(m)
}

// repairHosts adopts the hosts that do not follow the assignments, and destroys unassigned guests.
func (w *World) repairHosts() (busy bool) {
	for _, m := range w.hosts {
		if a := m.agent; a != nil && a.behind() != "" {
			w.adopt(m)
			busy = true
		}
	}
	for _, m := range w.hosts {
		for w.destroyMissing(m) || w.destroyUnassigned(m) {
			busy = true
		}
	}
	return busy
}

// adopt is `berth agent adopt`: the agent follows the next assignments that it reads, whatever they are.
func (w *World) adopt(m *simHost) {
	w.note("operator", "", m.tag, "adopts: "+m.agent.behind())
	w.report.Happened["host adopted"]++
	w.crash(m)
	if id, written := m.disk.found.Identity(); written { // else the first sync records one, as in loop.Agent.Adopt
		if id.Machine != m.install {
			w.forgetMissing(m)
		}
		id.Cloud, id.Machine = "", m.install
		m.disk.change(id.Entry())
	}
	m.disk.change(journalPosition{}.Entry())
	m.disk.followed = stamp{}
	w.start(m)
}

// forgetMissing is what adopting does to guests that the machine does not have.
func (w *World) forgetMissing(m *simHost) {
	for _, id := range m.disk.found.Servers() {
		if m.guests[id] == nil {
			m.disk.change(journal.Unbuilt(id))
		}
	}
}

// destroyUnassigned is `berth agent destroy` of a guest that the assignments do not mention.
func (w *World) destroyUnassigned(m *simHost) bool {
	a := m.agent
	if a == nil || !a.received || len(m.guests) == 0 || w.compute.servedBy(m.host) != m {
		return false
	}
	list := slices.DeleteFunc(a.unassigned(), func(id string) bool {
		return m.late[id] && m.disk.found.Ended(id) // the agent destroys it
	})
	if len(list) == 0 {
		return false
	}
	id := list[w.rng.IntN(len(list))]
	for _, want := range w.compute.lines(m.host).servers {
		if want.ID == id || want.PreviousID == id {
			return false // it refuses: compute assigns the guest
		}
	}
	if !w.mayBeUnknown(m, id) && !m.late[id] {
		w.violation(m, "unassigned: the guest %s of server %s, and nothing has been restored or lost", id, w.owners[id])
	}
	w.note("operator", id, m.tag, "destroys")
	w.report.Happened["guest destroyed by the operator"]++
	w.destroyByHand(m, id)
	return true
}

// destroyMissing is `berth agent destroy --force` of a guest that only the journal has, as after the journal was
// restored from a backup: then it may be built again, without its data.
func (w *World) destroyMissing(m *simHost) bool {
	a := m.agent
	if a == nil || !a.received || w.compute.servedBy(m.host) != m {
		return false
	}
	renames := m.disk.found.Renames()
	for _, id := range m.disk.found.Servers() {
		_, built := m.disk.found.Built(id)
		if was := renames[id]; built && m.guests[id] == nil && (was.Was == "" || was.Done) {
			w.note("operator", id, m.tag, "destroys what is missing")
			w.report.Happened["missing guest given up by the operator"]++
			w.destroyByHand(m, id)
			return true
		}
	}
	return false
}

// unassigned lists the guests that the assignments do not mention. Nothing is known while they are not followed.
func (a *agent) unassigned() (list []string) {
	report := a.state.Report()
	for _, g := range report.Guests {
		if !g.Assigned && report.NotFollowed == "" {
			list = append(list, g.ID)
		}
	}
	return list
}

// repairPlacement makes Placement's allocations what compute's records say. Servers whose guests have something else
// than their records say are deleted.
func (w *World) repairPlacement() (busy bool) {
	for _, m := range w.hosts {
		if w.removeWrongClasses(m) {
			busy = true
		}
		if w.heal(m) {
			busy = true
		}
		if m.stuck {
			w.start(m)
			busy = true
		}
	}
	residences := w.residences()
	for _, c := range w.placement.Consumers() {
		if _, there := residences[string(c)]; !there && !strings.HasPrefix(string(c), foreign) {
			if owner := w.owners[string(c)]; !w.rolledBack[owner] && !w.altered[owner] {
				w.violation(nil, "orphan: %s of server %s holds something in Placement, and nothing has been restored", c, owner)
			}
			w.note("operator", string(c), "", "drops an allocation")
			w.report.Happened["allocation dropped by the operator"]++
			w.drop(c)
			w.altered[w.owners[string(c)]] = true // its guest may stand under another id
			busy = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.compute.servers)) {
		s := w.compute.servers[id]
		if w.repairServer(s, true) {
			busy = true
		}
	}
	return busy
}

// removeWrongClasses removes classes that the agent does not report any more from the providers of a host's devices.
// They return with a restored database of Placement, and the agent does not own them then.
func (w *World) removeWrongClasses(m *simHost) (busy bool) {
	right := map[provider.ID]resource.Class{}
	state, _ := w.dryRun(m)
	for _, e := range state.Devices().Entries() {
		right[e.Provider] = e.Class
	}
	for _, c := range state.Devices().Claims() { // a provider keeps the class that guests hold
		right[c.Provider] = c.Class
	}
	for _, id := range slices.Clone(w.placement.TreeIDs(m.root)) {
		p, _ := w.placement.Provider(id)
		if m.stuck && p.Parent != "" {
			w.dropWrongAllocations(m, p, right[id])
		}
		rest := maps.Clone(p.Inventories)
		maps.DeleteFunc(rest, func(class resource.Class, _ resource.Inventory) bool {
			return p.Parent != "" && right[id] != "" && right[id] != class && w.placement.Used(id)[class] == 0
		})
		if len(rest) == len(p.Inventories) {
			continue
		}
		if _, err := w.placement.PutInventories(background, id, p.Generation, rest); err == nil {
			w.note("operator", "", m.tag, "takes a class away from "+p.Name)
			w.report.Happened["class taken away by the operator"]++
			w.changed(m)
			busy = true
		}
	}
	return busy
}

// dropWrongAllocations deletes the allocations of other classes than the right one on a provider, which an older
// database of Placement has.
func (w *World) dropWrongAllocations(m *simHost, p provider.Provider, right resource.Class) {
	for _, c := range slices.Sorted(maps.Keys(w.placement.Holders(p.ID))) {
		if amounts := w.placement.Holders(p.ID)[c]; right == "" || len(amounts) == 1 && amounts[right] > 0 {
			continue
		}
		w.note("operator", string(c), m.tag, "drops an allocation of another class")
		w.report.Happened["allocation dropped by the operator"]++
		w.altered[w.owners[string(c)]] = true
		w.drop(c)
	}
}

// residences returns all residences of compute's records, by consumer.
func (w *World) residences() map[string]lifecycle.Residence {
	out := map[string]lifecycle.Residence{}
	for _, s := range w.compute.servers {
		for _, residence := range s.Residences() {
			out[residence.Consumer] = residence
		}
	}
	return out
}

// repairServer writes the allocations of one server as its record has them, if a restore or another client has changed
// one of them. With last, a server for which that is not possible is deleted.
func (w *World) repairServer(s lifecycle.Server, last bool) bool {
	if s.Phase() == lifecycle.RevertBlocked && last {
		w.remove(s.ID)
		return true
	}
	if s.State != lifecycle.Active && s.Phase() != lifecycle.Resized || s.Task != "" || len(s.Leftovers) > 0 ||
		!s.Requested.IsZero() || s.PortChange != nil {
		return false
	}
	for _, residence := range s.Residences() {
		c := resource.ConsumerID(residence.Consumer)
		held, _ := w.placement.Allocation(background, c)
		g := w.byName[residence.Host].guests[residence.Consumer]
		changing := func(request string) bool { return isChanging(s, request) }
		fits := g != nil && chosen(g, residence, changing) == ""
		want := w.expected(s, residence, held.Allocation)
		if fits && want.Equal(held.Allocation) {
			continue
		}
		if !fits && !last {
			continue
		}
		if fits && !w.altered[s.ID] && !w.rolledBack[s.ID] {
			if last { // otherwise a change of the server may be in progress
				w.violation(w.byName[residence.Host],
					"allocation: %s of server %s holds %v, its record and its ports need %v, and "+
						"nothing was restored or taken away", residence.Consumer, s.ID, held.Allocation, want)
			}
			continue
		}
		err := error(nil)
		if fits {
			held.Allocation, held.Project, held.User = want, s.Project, s.User
			held.ConsumerType = "INSTANCE"
			err = w.placement.PutAllocation(background, c, held)
		}
		if fits && err == nil {
			w.note("operator", residence.Consumer, residence.Host, "writes its allocation")
			w.report.Happened["allocation written by the operator"]++
			return true
		}
		if !last {
			continue
		}
		w.note("operator", s.ID, residence.Host, "gives it up")
		w.report.Happened["server given up by the operator"]++
		w.remove(s.ID)
		return true
	}
	return false
}

// cleanReserved cleans the devices for one-time use that no server has and that only Placement has as used.
func (w *World) cleanReserved() (busy bool) {
	for _, m := range w.hosts {
		for _, d := range m.host.row.report.Devices {
			if _, known := m.disk.found.Spent()[device.PCI(d.Address)]; !known && w.requestClean(m, d) {
				busy = true
			}
		}
	}
	return busy
}

// expected returns the allocation that a guest must have: its choice, with what the ports of a server request now. The
// source of a move has the ports that it had when the move began, so what it holds for them counts.
func (w *World) expected(s lifecycle.Server, residence lifecycle.Residence, held resource.Allocation,
) resource.Allocation {
	all := lifecycle.WithoutPorts(residence.Choice.Allocation)
	if residence.Consumer == s.ID {
		maps.Copy(all, w.network.guaranteed(s))
		return all
	}
	rest := lifecycle.WithoutPorts(held)
	for id, amounts := range held {
		if len(rest[id]) == 0 {
			all[id] = amounts
		}
	}
	return all
}
