package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// This file is the hypervisor of a machine. It does not arbitrate devices: a guest gets those that it is built with.

// listGuests lists the guests of a machine, by id.
func (hv *hypervisorModel) listGuests(m *simHost) (list []hypervisor.Guest) {
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		g := *m.guests[id]
		if hv.broken == Demolish {
			g.Build = 0
		}
		list = append(list, g)
	}
	return list
}

// answerGuests is the answer of the hypervisor to a request for its guests. It may lack some or all of those that the
// journal has as built.
func (hv *hypervisorModel) answerGuests(m *simHost) []hypervisor.Guest {
	list := hv.listGuests(m)
	if len(list) == 0 || !hv.chance(Lists, 60) {
		return list
	}
	hv.report.Happened["incomplete list of guests"]++
	all := hv.halfTheTime()
	return slices.DeleteFunc(list, func(g hypervisor.Guest) bool {
		_, built := m.disk.found.Built(g.ID)
		return built && !g.Departed && (all || hv.halfTheTime())
	})
}

// callBuild is a call to build a guest. A request whose answer is lost may be executed later.
func (hv *hypervisorModel) callBuild(m *simHost, g hypervisor.Guest) error {
	if len(g.Devices) == 0 && len(g.Cells) == 0 && m.guests[g.ID] == nil && hv.chance(Builds, 4) {
		g.Stopped, g.DiskFrom = true, nil // it is defined, and not started
		hv.late = append(hv.late, lateBuild{m, g})
		return errDown
	}
	if m.late[g.ID] && (g.DiskFrom != nil || g.DiskImage != "") {
		hv.violation(m, "blank: the server of the guest %s returns with its disk, and the guest was built too late", g.ID)
	}
	delete(m.late, g.ID)
	return hv.call(func() error { return hv.buildGuest(m, g) })
}

// executeLate lets a hypervisor execute a request to build a guest whose answer was lost, after its server has left the
// host. It returns the machine; nil if there is no such request. The requests of servers that stay are forgotten at a
// rest.
func (hv *hypervisorModel) executeLate() *simHost {
	hv.late = slices.DeleteFunc(hv.late, func(l lateBuild) bool { return hv.byTag[l.at.tag] != l.at }) // replaced machines
	i := slices.IndexFunc(hv.late, func(l lateBuild) bool { return !hv.stays(l) })
	if i < 0 {
		if hv.noFailures {
			hv.late = nil
		}
		return nil
	}
	l := hv.late[i]
	hv.late = slices.Delete(hv.late, i, i+1)
	hv.note("late", l.guest.ID, l.at.tag, "is built")
	hv.report.Happened["guest built too late"]++
	hv.blank++
	l.at.guests[l.guest.ID], l.at.content[l.guest.ID] = &l.guest, hv.blank
	l.at.built[l.guest.ID], l.at.late[l.guest.ID] = true, true
	return l.at
}

// stays reports whether the server of a late request is still assigned to the host under this id, or has a guest with
// it there. It is not while the guest of the server has another id, from which or to which it is being renamed.
func (hv *hypervisorModel) stays(l lateBuild) bool {
	id := l.guest.ID
	return l.at.guests[id] != nil || slices.ContainsFunc(hv.compute.lines(l.at.host).servers, func(s host.Server) bool {
		other := s.PreviousID
		if other == id {
			other = s.ID
		}
		return (s.ID == id || s.PreviousID == id) && (other == "" || l.at.guests[other] == nil)
	})
}

// buildGuest builds or changes a guest.
func (hv *hypervisorModel) buildGuest(m *simHost, g hypervisor.Guest) error {
	was, exists := m.guests[g.ID]
	build, known := m.disk.found.Built(g.ID)
	if exists && known && g.Build <= build && !g.Kept && !was.Departed && !m.built[g.ID] {
		hv.violation(m, "blank: the guest %s is built as a new one, and its disk exists", g.ID)
	}
	switch {
	case g.Kept && !exists:
		return fault.New(fault.NotFound, "there is no guest %s", g.ID)
	case hv.chance(Builds, 45):
		return fault.New(fault.Internal, "the hypervisor refuses")
	case exists && was.Departed:
		return fault.New(fault.Conflict, "the guest %s runs on another host", g.ID)
	case exists && !was.SameDevices(g):
		return fault.New(fault.Conflict, "the guest %s has other devices", g.ID)
	case (g.Paused || g.Suspended) && (!exists || was.Stopped && !was.Suspended):
		return fault.New(fault.Unavailable, "the guest %s does not run", g.ID)
	case exists && g.Build < was.Build:
		hv.violation(m, "rebuilt: the guest %s has been rebuilt %d times, and is built as it was after %d", g.ID, was.Build,
			g.Build)
	}
	for _, at := range addresses(g) {
		if m.away[at] && (!exists || !slices.Contains(addresses(*was), at)) {
			return fault.New(fault.Internal, "there is no device %s", at)
		}
	}
	content, err := hv.contentFor(m, g, was)
	if err != nil {
		return err
	}
	g.Devices, g.DiskFrom, g.Kept, g.DiskImage, m.content[g.ID] = slices.Clone(g.Devices), nil, false, "", content
	hv.checkConfigured(m, g)
	hv.checkCards(m, g)
	if hv.broken == WrongDevice && len(g.Devices) > 0 {
		g.Devices[0].Provider = m.root
	}
	if hv.broken == Twice && !exists {
		for _, id := range slices.Sorted(maps.Keys(m.guests)) {
			g.Devices = append(g.Devices, m.guests[id].Devices...)
		}
	}
	for _, d := range g.Devices {
		if !g.Stopped {
			delete(hv.placement.cleaned, d.Provider)
		}
	}
	if m.guests[g.ID] = &g; !exists {
		m.built[g.ID] = true
	}
	return nil
}

// renameGuest changes the id of a guest.
func (hv *hypervisorModel) renameGuest(m *simHost, was, id, server string) error {
	g := m.guests[was]
	switch {
	case g == nil:
		return nil
	case m.guests[id] != nil:
		return fault.New(fault.Conflict, "there is a guest %s and a guest %s", was, id)
	}
	g.ID, g.Server = id, server
	delete(m.guests, was)
	m.guests[id] = g
	m.content[id] = m.content[was]
	delete(m.content, was)
	if m.built[was] {
		m.built[id] = true
	}
	return nil
}

// migrateGuest live-migrates a guest. The hypervisor of the destination builds it there.
func (hv *hypervisorModel) migrateGuest(m *simHost, id string, to hypervisor.Destination) error {
	g := m.guests[id]
	switch {
	case g == nil:
		return fault.New(fault.NotFound, "there is no guest %s", id)
	case g.Departed:
		return nil
	case g.Stopped:
		return fault.New(fault.Conflict, "the guest %s does not run", id)
	case hv.chance(Builds, 20):
		return fault.New(fault.Internal, "the hypervisor refuses")
	}
	for _, d := range g.Devices {
		if _, goes := to.Devices[d.ID]; !goes {
			hv.violation(m, "migrate: no destination device for %s of guest %s", d.ID, id)
		}
	}
	g.Departed = true
	return nil
}

// destroyGuest ends a guest. named: it was named for removal when the agent decided that.
func (hv *hypervisorModel) destroyGuest(m *simHost, id string, named bool) {
	if hv.broken == Undead {
		return
	}
	hv.checkDestroyed(m, m.guests[id], named)
	hv.checkShelvedDisk(m, id)
	delete(m.guests, id)
	delete(m.built, id)
	delete(m.content, id)
	delete(m.late, id)
}

// contentFor returns the content of the disk of a guest that is built: its own, that of the guest from which it moves,
// or that of a new blank disk. was is the guest as it exists; nil: it does not.
func (hv *hypervisorModel) contentFor(m *simHost, g hypervisor.Guest, was *hypervisor.Guest) (int, error) {
	switch {
	case was != nil && was.Build == g.Build:
		return m.content[g.ID], nil
	case was == nil && g.DiskFrom != nil:
		for _, there := range hv.machines(g.DiskFrom.Host) {
			if source := there.guests[g.DiskFrom.Guest]; source != nil && (source.Stopped || source.Departed) {
				hv.report.Happened["disk copied"]++
				return there.content[g.DiskFrom.Guest], nil
			}
		}
		return 0, fault.New(fault.Unavailable, "host %s has no disk of %s", g.DiskFrom.Host, g.DiskFrom.Guest)
	case was == nil && g.DiskImage != "":
		return hv.images.downloadDisk(g.DiskImage)
	case was == nil:
		hv.checkMayBeBlank(m, g)
	}
	hv.blank++
	return hv.blank, nil
}

// checkMayBeBlank: the destination of a resize or a cold migration gets the disk of the server, not a blank one, and so
// does a server that is unshelved: all servers have disks, so each shelved one has an image, unless a restore has
// changed its record.
func (hv *hypervisorModel) checkMayBeBlank(m *simHost, g hypervisor.Guest) {
	s := hv.compute.servers[g.ID]
	if s.Shelved && s.State == lifecycle.Spawning && s.Host == m.name &&
		(s.ShelvedImage != nil || !hv.images.lost[g.ID]) {
		hv.violation(m, "blank: the server %s is unshelved and gets a blank disk", g.ID)
	}
	if move := s.Move; move != nil && s.Host == m.name && !move.From.Gone &&
		(move.Kind == lifecycle.Resizing || move.Kind == lifecycle.Migrating) {
		hv.violation(m, "blank: the server %s moves from %s and gets a blank disk", g.ID, move.From.Host)
	}
}

// lateBuild is a request to build a guest whose answer was lost and that the hypervisor has not executed yet.
type lateBuild struct {
	at    *simHost
	guest hypervisor.Guest
}

// hypervisorModel is the hypervisors of all machines. They do not arbitrate devices: a guest gets those that it is
// built with.
type hypervisorModel struct {
	*kernel
	*hostModel
	*exemptions
	placement *placementModel
	images    *imageModel
	compute   *computeModel
	late      []lateBuild
	blank     int // number of blank disks that guests were given
}

// checkDestroyed checks each guest that an agent destroys: compute must have named it for removal. One that has
// departed runs elsewhere, and one that was never reported as built may be removed when a later call to build it has
// failed.
func (hv *hypervisorModel) checkDestroyed(m *simHost, g *hypervisor.Guest, named bool) {
	if g == nil {
		return
	}
	hv.report.Happened["guest destroyed"]++
	if !g.Departed && !named && !m.built[g.ID] {
		hv.violation(m, "destroyed: the guest %s of server %s, and compute has not named it for removal", g.ID,
			hv.ownerOf[g.ID])
	}
}

// checkShelvedDisk: the guest of a server that is shelved is destroyed only when an image has its disk.
func (hv *hypervisorModel) checkShelvedDisk(m *simHost, id string) {
	s := hv.compute.servers[id]
	if s.State != lifecycle.Shelving || s.Host != m.name || hv.rolledBack[id] || m.guests[id] == nil || m.zombie {
		return
	}
	if s.ShelvedImage == nil {
		hv.violation(m, "shelve: the guest %s is destroyed, and no image has its disk", id)
	} else if i := hv.images.all[s.ShelvedImage.ID]; !i.data || i.content != m.content[id] {
		hv.violation(m, "shelve: the guest %s is destroyed, and the image %s has not its disk", id, s.ShelvedImage.ID)
	}
}

// checkConfigured: a guest is built to run only with VFs that are configured for its ports. An unplugged VF loses its
// configuration, and the agent compares it later.
func (hv *hypervisorModel) checkConfigured(m *simHost, g hypervisor.Guest) {
	for _, i := range g.Interfaces {
		at := i.Device.Address()
		if i.VIF == "hw_veb" && !g.Stopped && !m.unplugged[at] && m.configured[at] != i.Port {
			hv.violation(m, "vf: the guest %s starts with %s for port %s, and it is configured for port %q", g.ID, at, i.Port,
				m.configured[at])
		}
	}
}

// configureVFs configures the VFs of a guest for its ports. Each of them must be in the journal for the guest.
func (hv *hypervisorModel) configureVFs(m *simHost, e state.ConfigureVFs) error {
	for _, a := range e.VFs {
		at := a.Device.Address()
		if a.Port.ID == "" {
			continue
		}
		if m.away[at] {
			return fault.New(fault.NotFound, "there is no device %s", at)
		}
		if by := m.journalHolder(at); by != e.Work && by != m.journalID(e.Work) && !m.fresh {
			hv.violation(m, "vf: %s is configured for port %s of %s, and the journal gives it to %q", at, a.Port.ID, e.Work, by)
		}
		m.configured[at] = a.Port.ID
		delete(m.unplugged, at)
	}
	return nil
}

// resetVFs removes the configuration of VFs, which no running guest may have.
func (hv *hypervisorModel) resetVFs(m *simHost, devices []device.ID) error {
	for _, id := range devices {
		for _, g := range m.guests {
			for _, d := range g.Devices {
				if d.ID == id && !g.Stopped && !g.Departed {
					hv.violation(m, "vf: %s is reset, and the guest %s runs with it", id, g.ID)
				}
			}
		}
		delete(m.configured, id.Address())
	}
	return nil
}

// compareVFs configures the VFs of running guests that are not configured as their ports, as the loop of the agent does
// from time to time.
func (hv *hypervisorModel) compareVFs(m *simHost) {
	if m.agent == nil || !m.portVFs {
		return
	}
	for _, a := range m.agent.state.AssignedVFs() {
		if at := a.Device.Address(); a.Port.ID != "" && !m.away[at] {
			m.configured[at] = a.Port.ID
		}
	}
}
