package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// checkMarked checks the invariants of all machines that the operation has touched.
func (ck *checks) checkMarked() {
	for _, m := range ck.marked {
		ck.checkCapacity(m)
		ck.checkDevices(m)
		ck.checkJournal(m)
		ck.checkOnce(m)
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

// someRestored reports whether a restore of Placement has changed the allocation of a consumer of a provider: it
// restores generations too, so that a write of an agent may succeed that was made for another state.
func (pm *placementModel) someRestored(id provider.ID) bool {
	for c := range pm.Holders(id) {
		if pm.altered[pm.ownerOf[string(c)]] {
			return true
		}
	}
	return false
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
	if a := m.agent; a != nil && !a.unwritten && len(a.state.Devices().Entries()) > 0 {
		ck.checkHolders(m, written)
	}
}

// checkHolders: the agent gives each device to the server that the journal gives it to.
func (ck *checks) checkHolders(m *simHost, written map[pci.Address]string) {
	held := 0
	for _, e := range m.agent.state.Devices().Entries() {
		if e.Holder == "" {
			continue
		}
		held++
		if by := written[e.Device.Address]; by != string(e.Holder) {
			ck.violation(m, "journal: %s holds %s, and the journal gives it to %q", e.Holder, e.Device.Address, by)
		}
	}
	if held != len(written) {
		ck.violation(m, "journal: %d devices are held, and it has %d", held, len(written))
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

// checkAll checks the invariants of a quiescent cloud.
func (ck *checks) checkAll() {
	ck.marked = append(ck.marked[:0], ck.hosts...)
	ck.checkMarked()
	for _, id := range slices.Sorted(maps.Keys(ck.compute.servers)) {
		ck.checkServer(ck.compute.servers[id])
	}
	ck.checkImages()
	for _, c := range ck.placement.Consumers() {
		s := ck.compute.servers[ck.ownerOf[string(c)]]
		if !slices.ContainsFunc(s.Residences(), func(r lifecycle.Residence) bool { return r.Consumer == string(c) }) {
			ck.violation(nil, "orphan: %s has allocations in Placement and belongs to no server", c)
		}
	}
	for _, m := range ck.hosts {
		ck.checkQuietHost(m)
		ck.checkHeldForPorts(m)
		ck.checkBandwidth(m)
		ck.checkPlan(m)
	}
}

// checkServer: every server has reached a lasting state, and has exactly the allocations and guests of its residences.
func (ck *checks) checkServer(s lifecycle.Server) {
	rest := []lifecycle.State{lifecycle.Active, lifecycle.Error, lifecycle.Shelved}
	rests := slices.Contains(rest, s.State) || s.Phase() == lifecycle.Resized
	if !rests || len(s.Leftovers)+len(s.UnusedImages) > 0 || s.State == lifecycle.Active && s.Task != "" {
		why := ""
		if len(s.History) > 0 {
			why = s.History[len(s.History)-1].Text
		}
		ck.violation(ck.byName[s.Host], "rest: server %s does not come to rest: %s %s, %d left behind; %s", s.ID, s.State,
			s.Task,
			len(s.Leftovers), why)
	}
	ck.checkPorts(s)
	for _, residence := range s.Residences() {
		held := ck.placement.Held(resource.ConsumerID(residence.Consumer))
		if residence.Choice == nil ||
			!lifecycle.WithoutPorts(residence.Choice.Allocation).Equal(lifecycle.WithoutPorts(held)) {
			ck.violation(ck.byName[residence.Host], "share: %s of server %s holds %v and was to hold %v", residence.Consumer,
				s.ID, held, residence.Choice)
		}
		g := ck.byName[residence.Host].guests[residence.Consumer]
		switch {
		case g == nil:
			ck.violation(ck.byName[residence.Host], "guest: %s of server %s has no guest", residence.Consumer, s.ID)
		case residence.Consumer == s.ID && g.Stopped != s.Stopped:
			ck.violation(ck.byName[residence.Host], "guest: %s is stopped: %v, and compute says %v", s.ID, g.Stopped, s.Stopped)
		}
	}
}

// checkQuietHost: what a host has is what compute knows of it, and its counts are right.
func (ck *checks) checkQuietHost(m *simHost) {
	wanted := map[string]bool{}
	for _, want := range ck.compute.lines(m.host).servers {
		wanted[want.ID] = true
	}
	for _, r := range ck.compute.lines(m.host).remove {
		ck.violation(m, "removal: %s has yet to go", r.ID)
	}
	for _, id := range m.known() {
		if g := m.guests[id]; !wanted[id] || g == nil || g.Departed {
			ck.violation(m, "left: something of %s is on the host, and it is not wanted there", id)
		}
	}
	total, held, free := map[provider.ID]int{}, map[provider.ID]int{}, map[provider.ID]int{}
	for _, e := range m.agent.state.Devices().Entries() {
		total[e.Provider]++
		switch {
		case e.Holder != "":
			held[e.Provider]++
		case e.State == pci.Available && !e.Spent:
			free[e.Provider]++
		}
	}
	for _, id := range ck.placement.TreeIDs(m.root) {
		p, _ := ck.placement.Provider(id)
		if _, network := bandwidth.Recognise(p); network || p.Parent == "" {
			continue
		}
		used, inv := 0, resource.Inventory{}
		for class, i := range p.Inventories {
			used, inv = used+ck.placement.Used(id)[class], i
		}
		left := 0
		for _, d := range m.host.row.report.Devices {
			if d.Provider == id && string(d.State) == string(pci.Available) && !d.Spent {
				left++
			}
		}
		if inv.Total != total[id] {
			ck.violation(m, "inventory: %s has %d and the host %d", p.Name, inv.Total, total[id]) // 8.1/5
		}
		if used != held[id] {
			ck.violation(m, "sum: %d of %s are claimed and %d are held", used, p.Name, held[id]) // 8.1/1
		}
		if left != free[id] || max(inv.Capacity()-used, 0) != free[id] {
			// 8.1/4
			ck.violation(m, "pool: %s has %d free, the report %d, the host %d", p.Name, inv.Capacity()-used, left, free[id])
		}
	}
}

// checkPlan: an agent that started again would have nothing to write, and hold the same (8.1/6).
func (ck *checks) checkPlan(m *simHost) {
	state, err := ck.agents.dryRun(m)
	if err != nil {
		ck.violation(m, "restart: %v", err)
		return
	}
	plan, _ := state.Plan()
	objections := slices.DeleteFunc(slices.Clone(plan.Objections), ck.placement.isOfPorts)
	if !plan.Empty() || len(objections) > 0 {
		var b strings.Builder
		_ = plan.Print(&b)
		ck.violation(m, "plan: a quiescent host has something to write:\n%s", b.String())
	}
	if !slices.EqualFunc(state.Devices().Claims(), m.agent.state.Devices().Claims(), func(a, b device.Claim) bool {
		return a.Device.Address == b.Device.Address && a.Holder == b.Holder && a.State == b.State && a.Provider == b.Provider
	}) {
		ck.violation(m, "restart: it would hold something else")
	}
}

// dryRun is `berth agent plan` with the present configuration: it returns the state of an agent that only plans.
func (am *agentModel) dryRun(m *simHost) (*reconcile.State, error) {
	state, err := reconcile.NewPlan(am.config(m), m.disk.found)
	if err != nil {
		return state, err
	}
	for events := []reconcile.Event{reconcile.Start{}}; len(events) > 0; events = events[1:] {
		for _, e := range state.Next(events[0], am.agentTime()) {
			switch e := e.(type) {
			case reconcile.Stop:
				return state, e.Err
			case reconcile.WriteJournal:
				events = append(events, reconcile.Written{})
			default:
				if event := am.read(m, e, loop.Tree{Host: m.name, Placement: am.placement}); event != nil {
					events = append(events, event)
				}
			}
		}
	}
	return state, nil
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
