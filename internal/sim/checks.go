package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// checkMarked checks the invariants of all machines that the operation has touched.
func (ck *checks) checkMarked() {
	for _, m := range ck.marked {
		ck.checkCapacity(m)
		ck.checkDevices(m)
		ck.checkJournal(m)
		ck.checkOnce(m)
		ck.checkService(m)
		if !m.zombie {
			ck.checkClaims(m)
		}
	}
	clear(ck.marked)
	ck.marked = ck.marked[:0]
}

// checkCapacity: allocations do not exceed the total. Reserved amounts do not count, because a used device for one-time
// use is reserved while it has a holder. What an agent has reported to be less than is in use may only be released: it
// is bandwidth that is configured to less, or a plan of before a restore of Placement, which restores generations too.
func (ck *checks) checkCapacity(m *simHost) {
	for _, id := range ck.placement.TreeIDs(m.root) {
		p, _ := ck.placement.Provider(id)
		used := ck.placement.Used(id)
		if ck.placement.someRestored(id) {
			continue
		}
		for class, n := range used {
			if limit := int(float64(p.Inventories[class].Total) * p.Inventories[class].AllocationRatio); n <= limit {
				delete(ck.placement.lowered, inventory{id, class})
			} else if before, lowered := ck.placement.lowered[inventory{id, class}]; lowered && n <= before {
				ck.placement.lowered[inventory{id, class}] = n
			} else {
				ck.violation(m, "capacity: %d %s of %s are held, and there are %d", n, class, p.Name, p.Inventories[class].Total)
			}
		}
	}
}

// checkDevices: no device has two guests, and none runs with a PF beside one of its VFs (8.1/3).
func (ck *checks) checkDevices(m *simHost) {
	holder := map[pci.Address]string{}
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		for _, d := range m.guests[id].Devices {
			if by := holder[d.ID.Address()]; by != "" {
				ck.violation(m, "held twice: %s has the guests %s and %s", d.ID.Address(), by, id)
			}
			holder[d.ID.Address()] = id
		}
	}
	for _, d := range m.made {
		if d.Parent != nil && holder[d.Address] != "" && holder[*d.Parent] != "" {
			ck.violation(m, "family: the guest %s has %s and %s has its PF", holder[d.Address], d.Address, holder[*d.Parent])
		}
	}
}

// checkJournal: the devices of every guest are in the journal, no device is there twice, and an agent that has nothing
// to write holds what the journal has.
func (ck *checks) checkJournal(m *simHost) {
	if m.fresh {
		return // the first sync has yet to record the guests
	}
	written := map[pci.Address]string{}
	for _, c := range m.disk.found.Claims() {
		if by, twice := written[c.Device.Address]; twice {
			ck.violation(m, "journal: %s is held by %s and %s", c.Device.Address, by, c.Holder)
		}
		written[c.Device.Address] = string(c.Holder)
	}
	for id, g := range m.guests {
		for _, d := range g.Devices {
			if by := written[d.ID.Address()]; by != id && by != m.journalID(id) {
				ck.violation(m, "journal: the guest %s has %s, and the journal gives it to %q", id, d.ID.Address(), by)
			}
		}
	}
	if a := m.agent; a != nil && !a.unwritten && a.state.Devices().Len() > 0 {
		ck.checkHolders(m, written)
	}
}

// checkHolders: the agent gives each device to the server that the journal gives it to.
func (ck *checks) checkHolders(m *simHost, written map[pci.Address]string) {
	held := m.agent.state.Devices().Claims()
	for _, c := range held {
		if by := written[c.Device.Address]; by != string(c.Holder) {
			ck.violation(m, "journal: %s holds %s, and the journal gives it to %q", c.Holder, c.Device.Address, by)
		}
	}
	if len(held) != len(written) {
		ck.violation(m, "journal: %d devices are held, and it has %d", len(held), len(written))
	}
}

// checkClaims: every guest has an allocation in Placement, on the providers that were chosen for it. While a server
// moves, the allocation of its migration counts.
func (ck *checks) checkClaims(m *simHost) {
	have := map[string]map[provider.ID]int{} // by owner
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		owner := ck.ownerOf[id]
		s, lives := ck.compute.servers[owner]
		if m.late[id] {
			continue // it was built after its server had left, without devices; the agent destroys it
		}
		if !lives && !ck.rolledBack[owner] {
			ck.violation(m, "freed: the guest %s is there, and compute has forgotten its server", id)
			return
		}
		if ck.rolledBack[owner] && m.built[id] {
			ck.altered[owner] = true // compute's database was restored to before the claim, and its user may delete it
			continue
		}
		if have[owner] == nil {
			have[owner] = map[provider.ID]int{}
		}
		for _, d := range m.guests[id].Devices {
			have[owner][d.Provider]++
		}
		if have[owner][m.root] == 0 && !m.guests[id].Departed {
			have[owner][m.root] = 1
		}
		if !ck.rolledBack[owner] {
			ck.checkChosen(m, m.guests[id], s)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(have)) {
		for _, id := range slices.Sorted(maps.Keys(have[owner])) {
			n := have[owner][id]
			if got := ck.holdsOf(owner, id); got < n && !ck.altered[owner] {
				ck.violation(m, "freed: guests of server %s have %d devices of %s, and it has claimed %d", owner, n, id, got)
			}
		}
	}
}

// holdsOf returns how many devices of a provider a server and its migrations have allocations for.
func (ck *checks) holdsOf(server string, id provider.ID) (n int) {
	for c, amounts := range ck.placement.Holders(id) {
		if ck.ownerOf[string(c)] == server {
			for _, more := range amounts {
				n += more
			}
		}
	}
	return n
}

// checkChosen: a guest's devices are of the providers that its requests name, each as often.
func (ck *checks) checkChosen(m *simHost, g *hypervisor.Guest, s lifecycle.Server) {
	for _, residence := range s.Residences() {
		if residence.Host != m.name || residence.Consumer != g.ID {
			continue
		}
		changing := func(request string) bool { return isChanging(s, request) || ck.portChanges[request] }
		if why := chosen(g, residence, changing); why != "" && len(g.Devices) > 0 {
			ck.violation(m, "chosen: the guest %s %s", g.ID, why)
		}
	}
}

// chosen says why the devices of a guest are not those that its stay asks for; empty when they are. While the port of a
// request is changing, the guest may have its device or not.
func chosen(g *hypervisor.Guest, residence lifecycle.Residence, changing func(request string) bool) string {
	n := 0
	for _, d := range g.Devices {
		wanted := slices.ContainsFunc(residence.Requests, func(r pci.Request) bool { return r.ID == d.Request })
		if changing(d.Request) && !wanted {
			n++
		}
	}
	for _, r := range residence.Requests {
		have := providersOf(g, r.ID)
		if n += len(have); len(have) == 0 && changing(r.ID) {
			continue
		}
		if want := slices.Sorted(slices.Values(r.Providers)); !slices.Equal(have, want) {
			return fmt.Sprintf("has devices of %v for request %s, and %v were chosen", have, r.ID, want)
		}
	}
	if n != len(g.Devices) {
		return fmt.Sprintf("has %d devices, and %d of them for its requests", len(g.Devices), n)
	}
	return ""
}

// providersOf lists the provider of each device of a guest for a request, sorted.
func providersOf(g *hypervisor.Guest, request string) (list []provider.ID) {
	for _, d := range g.Devices {
		if d.Request == request {
			list = append(list, d.Provider)
		}
	}
	slices.Sort(list)
	return list
}

// checks are the invariants of a cloud.
type checks struct {
	*cloud
	runs map[string][]*simHost // where servers have run
}

// checkOnce: no server runs twice.
func (ck *checks) checkOnce(m *simHost) {
	for _, g := range m.guests {
		if g.Stopped || g.Departed {
			continue
		}
		owner := ck.ownerOf[g.ID]
		for _, other := range ck.runs[owner] {
			for _, twin := range other.guests {
				if twin != g && !twin.Stopped && !twin.Departed && ck.ownerOf[twin.ID] == owner && !ck.exempt(owner, m, other) {
					ck.violation(m, "running twice: server %s runs here as %s, and on %s as %s", owner, g.ID, other.tag, twin.ID)
				}
			}
		}
		if !slices.Contains(ck.runs[owner], m) {
			ck.runs[owner] = append(ck.runs[owner], m)
		}
	}
}

// exempt reports whether the guests of a server may run twice: an operator has evacuated it from a host that was
// unreachable and not dead.
func (ck *checks) exempt(server string, machines ...*simHost) bool {
	return ck.evacuated[server] || slices.ContainsFunc(machines, func(m *simHost) bool { return m.zombie })
}

// isChanging reports whether a port with this request of a device is being attached to a server, or detached.
func isChanging(s lifecycle.Server, request string) bool {
	return s.PortChange != nil && s.PortChange.Device != nil && s.PortChange.Device.ID == request
}

// checkService: nothing is placed on a device after its agent has reported that it is disabled.
func (ck *checks) checkService(m *simHost) {
	a := m.agent
	if a == nil || a.state.Devices().Len() == 0 {
		return // it has not read its devices yet
	}
	now := map[pci.Address]string{}
	for _, c := range a.state.Devices().Claims() {
		if owner := ck.ownerOf[string(c.Holder)]; owner != "" {
			now[c.Address] = owner
		}
	}
	maps.DeleteFunc(m.service.out, func(_ pci.Address, d pci.Disablement) bool {
		return d.Expired(ck.agentTime()) || d.Expired(ck.now)
	})
	if len(m.service.out) > 0 {
		ck.checkAffected(m, now)
	}
	if m.service.holders == nil {
		m.service.holders = map[pci.Address]string{}
	}
	maps.Copy(m.service.holders, now) // also of freed ones: a crash may lose that they were freed
}

// checkAffected: no server has got a device since it is disabled. now are the servers that have devices.
func (ck *checks) checkAffected(m *simHost, now map[pci.Address]string) {
	var devices []pci.Device
	for _, e := range m.agent.state.Devices().Entries() {
		devices = append(devices, e.Device)
	}
	affected := pci.Affecting(slices.Collect(maps.Values(m.service.out)), devices)
	for at, owner := range now {
		if len(affected[at]) > 0 && m.service.holders[at] != owner && len(m.late) == 0 {
			ck.violation(m, "disabled: %s was given to server %s after it had been disabled by %s at %s", at, owner,
				affected[at][0].ID, affected[at][0].Address)
		}
	}
}
