package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// This file is the hypervisor of a machine. It does not arbitrate devices: a guest gets those that it is built with.

// listGuests lists the guests of a machine, by id.
func (w *World) listGuests(m *simHost) (list []hypervisor.Guest) {
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		g := *m.guests[id]
		if w.broken == Demolish {
			g.Build = 0
		}
		list = append(list, g)
	}
	return list
}

// buildGuest builds or changes a guest.
func (w *World) buildGuest(m *simHost, g hypervisor.Guest) error {
	was, exists := m.guests[g.ID]
	switch {
	case w.chance(Builds, 45):
		return fault.New(fault.Internal, "sim.Build", "the hypervisor refuses")
	case exists && was.Departed:
		return fault.New(fault.Conflict, "sim.Build", "the guest %s runs on another host", g.ID)
	case exists && !was.SameDevices(g):
		return fault.New(fault.Conflict, "sim.Build", "the guest %s has other devices", g.ID)
	case exists && g.Build < was.Build:
		w.violation(m, "rebuilt: the guest %s has been rebuilt %d times, and is built as it was after %d", g.ID, was.Build,
			g.Build)
	}
	for _, at := range addresses(g) {
		if m.away[at] && (!exists || !slices.Contains(addresses(*was), at)) {
			return fault.New(fault.Internal, "sim.Build", "there is no device %s", at)
		}
	}
	g.Devices = slices.Clone(g.Devices)
	w.checkConfigured(m, g)
	if w.broken == WrongDevice && len(g.Devices) > 0 {
		g.Devices[0].Provider = m.root
	}
	if w.broken == Twice && !exists {
		for _, id := range slices.Sorted(maps.Keys(m.guests)) {
			g.Devices = append(g.Devices, m.guests[id].Devices...)
		}
	}
	for _, d := range g.Devices {
		if !g.Stopped {
			delete(w.cleaned, d.Provider)
		}
	}
	if m.guests[g.ID] = &g; !exists {
		m.built[g.ID] = true
	}
	return nil
}

// renameGuest changes the id of a guest.
func (w *World) renameGuest(m *simHost, was, id, server string) error {
	g := m.guests[was]
	switch {
	case g == nil:
		return nil
	case m.guests[id] != nil:
		return fault.New(fault.Conflict, "sim.Rename", "there is a guest %s and a guest %s", was, id)
	}
	g.ID, g.Server = id, server
	delete(m.guests, was)
	m.guests[id] = g
	if m.built[was] {
		m.built[id] = true
	}
	return nil
}

// migrateGuest live-migrates a guest. The hypervisor of the destination builds it there.
func (w *World) migrateGuest(m *simHost, id string, to hypervisor.Destination) error {
	g := m.guests[id]
	switch {
	case g == nil:
		return fault.New(fault.NotFound, "sim.Migrate", "there is no guest %s", id)
	case g.Departed:
		return nil
	case g.Stopped:
		return fault.New(fault.Conflict, "sim.Migrate", "the guest %s does not run", id)
	case w.chance(Builds, 20):
		return fault.New(fault.Internal, "sim.Migrate", "the hypervisor refuses")
	}
	for _, d := range g.Devices {
		if _, goes := to.Devices[d.ID]; !goes {
			w.violation(m, "migrate: no destination device for %s of guest %s", d.ID, id)
		}
	}
	g.Departed = true
	return nil
}

// destroyGuest ends a guest. named: it was named for removal when the agent decided that.
func (w *World) destroyGuest(m *simHost, id string, named bool) {
	if w.broken == Undead {
		return
	}
	w.destroyed(m, m.guests[id], named)
	delete(m.guests, id)
	delete(m.built, id)
}

func addresses(g hypervisor.Guest) (list []pci.Address) {
	for _, d := range g.Devices {
		list = append(list, d.ID.Address())
	}
	return list
}
