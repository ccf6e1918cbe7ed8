package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
		ck.checkRestored(m)
		ck.checkHeldForPorts(m)
		ck.checkBandwidth(m)
		ck.checkPlan(m)
		ck.checkPlaces(m)
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
		if residence.Choice == nil || !ck.shareOf(s, residence).Equal(lifecycle.WithoutPorts(held)) {
			ck.violation(ck.byName[residence.Host], "share: %s of server %s holds %v and was to hold %v", residence.Consumer,
				s.ID, held, residence.Choice)
		}
		g := ck.byName[residence.Host].guests[residence.Consumer]
		switch {
		case g == nil:
			ck.violation(ck.byName[residence.Host], "guest: %s of server %s has no guest", residence.Consumer, s.ID)
		case residence.Consumer == s.ID && (g.Rescue != s.Rescued || g.Rescue != s.RescueImage):
			ck.violation(ck.byName[residence.Host], "guest: %s boots %q, and compute says %q and wants %q", s.ID, g.Rescue,
				s.Rescued, s.RescueImage)
		case residence.Consumer == s.ID && powerOf(*g) != s.Actual:
			ck.violation(ck.byName[residence.Host], "guest: %s is %q, and compute says %q", s.ID, powerOf(*g), s.Actual)
		}
	}
}

// shareOf returns what a residence must hold, without what its ports have.
func (c *cloud) shareOf(s lifecycle.Server, residence lifecycle.Residence) resource.Allocation {
	for _, e := range s.Expected(residence.Host) {
		if e.Consumer == residence.Consumer {
			return e.On(c.byName[residence.Host].host.row.report)
		}
	}
	return lifecycle.WithoutPorts(residence.Choice.Allocation)
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
	cards := m.wholeCards()
	for _, e := range m.agent.state.Devices().Entries() {
		switch slices := cards[e.Provider]; {
		case slices == 0:
			total[e.Provider]++
		case e.Type == pci.Physical:
			total[e.Provider] = slices
		}
		switch {
		case e.Holder != "":
			held[e.Provider] += e.Amount()
		case cards[e.Provider] > 0 && e.Type == pci.Physical: // its VFs are counted
		case e.State == pci.Available && !e.Spent && !e.Disabled:
			free[e.Provider]++
		}
	}
	for _, id := range ck.placement.TreeIDs(m.root) {
		p, _ := ck.placement.Provider(id)
		_, node := numa.NodeOf(m.name, p.Name)
		if _, network := bandwidth.Recognise(p); network || node || p.Parent == "" {
			continue
		}
		used, inv := 0, resource.Inventory{}
		for class, i := range p.Inventories {
			used, inv = used+ck.placement.Used(id)[class], i
		}
		left := 0
		for _, d := range m.host.row.report.Devices {
			whole := cards[id] > 0 && d.Type == pci.Physical
			if d.Provider == id && d.State == pci.Available && !d.Spent && !d.Disabled && !whole {
				left++
			}
		}
		if cards[id] > 0 { // a server may have more slices than the card has now: VFs were unplugged
			if inv.Total < total[id] || used < held[id] || left != free[id] || inv.Total-used < free[id] {
				ck.violation(m, "card: %s has %d slices, %d of them used; the host has %d, held %d, free VFs %d, reported %d",
					p.Name, inv.Total, used, total[id], held[id], free[id], left)
			}
			continue
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

// checkImages: a shelved server has its image, and no image is left that no server needs, except copies of disks.
// Nothing of an upload is left on a host.
func (ck *checks) checkImages() {
	for _, m := range ck.hosts {
		for id, g := range m.guests {
			if g.Uploads != "" && ck.compute.servers[id].ShelvedImage == nil && m.agent != nil && !m.cut {
				ck.violation(m, "upload: the host has what is left of the image %s of guest %s", g.Uploads, id)
			}
		}
	}
	needed := map[string]bool{}
	for id, s := range ck.compute.servers {
		if s.ShelvedImage == nil {
			continue
		}
		needed[s.ShelvedImage.ID] = true
		if s.State == lifecycle.Shelved && !ck.images.all[s.ShelvedImage.ID].data && !ck.images.lost[id] {
			ck.violation(nil, "image: the shelved server %s has no image with its disk", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ck.images.all)) {
		if i := ck.images.all[id]; i.copied && i.data {
			continue // a user's
		}
		if !needed[id] && !ck.images.lost[ck.images.all[id].server] {
			ck.violation(nil, "image: %s of server %s is left", id, ck.images.all[id].server)
		}
	}
}

// checkLate: a guest that was built too late is gone, or belongs to a server that its host has again.
func (ck *checks) checkLate() {
	for _, m := range ck.hosts {
		wanted := map[string]bool{} // again, as after compute's database was restored
		for _, want := range ck.compute.lines(m.host).servers {
			wanted[want.ID] = true
		}
		for id := range m.late {
			if m.guests[id] != nil && !wanted[id] {
				ck.violation(m, "late: the guest %s was built after its server had left, and stays", id)
			}
		}
	}
}

// powerOf returns the power state of a guest, in compute's words.
func powerOf(g hypervisor.Guest) lifecycle.Power {
	switch {
	case g.Suspended:
		return lifecycle.Suspended
	case g.Stopped:
		return lifecycle.Off
	case g.Paused:
		return lifecycle.Paused
	}
	return lifecycle.On
}
