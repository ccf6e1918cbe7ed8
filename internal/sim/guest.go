package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/resource"
)

// asWanted says whether a guest is as its server shall be. One that has been rebuilt more often than compute records is
// not built again as it was.
func (g *guest) asWanted(w want) bool { return g.stopped == w.off && g.build >= w.build }

// raise makes a server be as it shall be here, or tells that it cannot.
func (w *World) raise(m *simHost, want want) error {
	a := m.agent
	if err := w.takeOver(m, want); err != nil {
		return err
	}
	if f, doomed := a.doomed[want.id]; doomed && f.key == want.key {
		return w.giveUp(m, want, f.why)
	}
	delete(a.doomed, want.id)
	delete(a.acked, want.id)
	switch g := m.guests[want.id]; {
	case g != nil && g.departed && want.outgoing != "":
		return w.end(m, want, "departed", lifecycle.GuestMigrated{Host: m.name, Consumer: want.id})
	case g != nil && !g.departed && g.asWanted(want) && w.broken != Demolish:
		return w.goOn(m, want)
	case g != nil && !g.departed && g.stopped == want.off && g.build == want.build:
		return w.goOn(m, want)
	case g != nil && !g.departed:
		return w.change(m, g, want)
	}
	if refusal := w.verify(m, want); refusal != "" {
		return w.giveUp(m, want, refusal)
	}
	refusal, err := w.claim(m, want)
	if err != nil {
		return err
	}
	if refusal != "" {
		return w.giveUp(m, want, string(refusal))
	}
	if err := w.crashes(m); err != nil {
		return err
	}
	claimed := lifecycle.GuestClaimed{Host: m.name, Consumer: want.id, Devices: m.picks(want.id),
		Cells: m.book.parts[want.id].placed, Build: want.build}
	if want.incoming {
		return w.end(m, want, "claimed", claimed)
	}
	if err := w.tell(m, want.id, claimed); err != nil {
		return err
	}
	m.confirmClaim(want)
	if !w.erect(m, want) {
		return w.giveUp(m, want, "the guest cannot be built")
	}
	if err := w.crashes(m); err != nil {
		return err
	}
	return w.goOn(m, want)
}

// confirmClaim notes that compute has confirmed the claim of a server. Its shares are written to Placement now, if they
// are missing.
func (m *simHost) confirmClaim(want want) {
	a := m.agent
	if a.wants[want.id].key != want.key {
		return
	}
	a.confirmed[want.id] = want.key
	counted := func(c device.Claim) bool { return c.Provider != "" }
	if slices.ContainsFunc(a.set.Held(resource.ConsumerID(want.id)), counted) && !want.chosen() {
		a.fresh[want.id], a.look = true, true
	}
}

// chosen reports whether Placement has chosen the devices, and so has their shares.
func (want want) chosen() bool {
	for _, r := range want.requests {
		if len(r.Providers) > 0 {
			return true
		}
	}
	return false
}

// change starts, stops or rebuilds a guest with the devices that it has. What the hypervisor refuses, compute is told
// of.
func (w *World) change(m *simHost, g *guest, want want) error {
	if w.chance(Builds, 40) {
		w.report.Happened["refused"]++
		err := w.end(m, want, "refused", lifecycle.GuestRefused{Host: m.name, Consumer: want.id, Devices: m.picks(want.id),
			Cells: m.book.parts[want.id].placed, Build: g.build, Stopped: g.stopped, Message: "no"})
		if err == nil {
			err = errRefused
		}
		return err
	}
	if g.stopped && !want.off { // it may run elsewhere by now
		if err := w.tell(m, want.id, lifecycle.GuestClaimed{Host: m.name, Consumer: want.id, Devices: m.picks(want.id),
			Cells: m.book.parts[want.id].placed, Build: max(want.build, g.build)}); err != nil {
			return err
		}
	}
	if want.build < g.build && w.broken == Demolish {
		w.miss(m, "rebuilt: the guest %s has been rebuilt %d times, and is built as it was after %d",
			g.id, g.build, want.build)
	}
	g.stopped, g.build = want.off, max(want.build, g.build)
	if err := w.crashes(m); err != nil {
		return err
	}
	return w.goOn(m, want)
}

// erect builds the guest, unless the hypervisor cannot.
func (w *World) erect(m *simHost, want want) bool {
	g := &guest{id: want.id, server: want.server, stopped: want.off, build: want.build}
	for _, c := range m.agent.set.Held(resource.ConsumerID(want.id)) {
		if m.away[c.Device.Address] {
			return false
		}
		g.devices = append(g.devices, held{c.Device.Address, c.Request, c.Provider})
	}
	if w.chance(Builds, 50) {
		return false
	}
	if w.broken == WrongDevice && len(g.devices) > 0 {
		g.devices[0].from = m.root
	}
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		if w.broken == Twice {
			g.devices = append(g.devices, m.guests[id].devices...)
		}
	}
	m.guests[want.id] = g
	return true
}

// goOn is what comes when the guest is as it shall be: it goes on a journey, or that is all.
func (w *World) goOn(m *simHost, want want) error {
	w.allocate(m, want)
	if err := w.crashes(m); err != nil {
		return err
	}
	if want.outgoing != "" {
		if w.chance(Builds, 20) {
			return w.end(m, want, "failed", lifecycle.GuestFailed{Host: m.name, Consumer: want.id,
				Message: "the guest cannot go"})
		}
		m.guests[want.id].departed = true
		if err := w.crashes(m); err != nil {
			return err
		}
		return w.end(m, want, "departed", lifecycle.GuestMigrated{Host: m.name, Consumer: want.id})
	}
	devices, parts, build := m.picks(want.id), m.book.parts[want.id].placed, max(want.build, m.guests[want.id].build)
	if want.off {
		return w.end(m, want, "stopped",
			lifecycle.GuestStopped{Host: m.name, Consumer: want.id, Devices: devices, Cells: parts, Build: build})
	}
	return w.end(m, want, "running",
		lifecycle.GuestRunning{Host: m.name, Consumer: want.id, Devices: devices, Cells: parts, Build: build})
}

// allocate notes that the guest has what it holds, and if it runs, that it has used it.
func (w *World) allocate(m *simHost, want want) {
	set, changes := m.agent.set.Allocate(resource.ConsumerID(want.id))
	m.agent.set = set
	m.book.servers[want.id] = set.Held(resource.ConsumerID(want.id))
	m.behind = m.behind || len(changes) > 0
	if !want.off {
		m.burn(want.id)
	}
}

// burn writes down that the guest has started with its devices for one-time use.
func (m *simHost) burn(id string) {
	for _, c := range m.agent.set.Held(resource.ConsumerID(id)) {
		at := c.Device.Address
		if mark, known := m.book.spent[at]; !slices.Contains(c.Traits, survey.OneTimeUse) || known && !mark.returning {
			continue
		}
		m.book.spent[at] = spent{}
		m.agent.set = m.agent.set.Spend(at, true)
		m.behind, m.agent.look = true, true
	}
}

// end tells compute what became of a server; then there is nothing to do as long as it wants nothing else.
func (w *World) end(m *simHost, want want, phase string, e lifecycle.Event) error {
	a := m.agent
	if err := w.tell(m, want.id, e); err != nil {
		return err
	}
	a.acked[want.id], a.confirmed[want.id] = fate{key: want.key, phase: phase}, want.key
	delete(a.fresh, want.id)
	return nil
}

// removeGuest destroys a guest that compute has named for removal, frees its devices and tells that it is gone.
func (w *World) removeGuest(m *simHost, r host.Removal) error {
	a := m.agent
	for _, id := range []string{r.ID, r.PreviousID} {
		if err := w.finishRename(m, id); err != nil {
			return err
		}
	}
	ids := []string{r.ID}
	if _, wanted := a.wants[r.PreviousID]; r.PreviousID != "" && r.PreviousID != r.ID && !wanted {
		ids = append(ids, r.PreviousID)
	}
	for _, id := range ids {
		if err := w.release(m, id); err != nil {
			return err
		}
	}
	return w.tellGone(m, r.ID, ids, func() { a.removed[r.ID] = removalAt{a.position, r} })
}

// discard frees what the journal has of a server that the line does not mention and that has no guest.
func (w *World) discard(m *simHost, id string) error {
	if err := w.finishRename(m, id); err != nil {
		return err
	}
	if g := m.guests[id]; g != nil {
		if w.broken != Sweeping {
			return nil
		}
		if err := w.release(m, id); err != nil {
			return err
		}
	}
	if err := w.freeClaims(m, id); err != nil {
		return err
	}
	return w.tellGone(m, id, []string{id}, func() {})
}

// tellGone reports the host and then that a guest is gone. Compute reads of the free devices first, or it would offer
// them to nobody for a moment.
func (w *World) tellGone(m *simHost, id string, ids []string, told func()) error {
	if err := w.send(m); err != nil && err != errOccupied {
		return err
	}
	if w.broken == Silent {
		return nil
	}
	if err := w.tell(m, id, lifecycle.GuestGone{Host: m.name, Consumer: id}); err != nil {
		return err
	}
	told()
	for _, id := range ids {
		m.book.forget(id)
	}
	return nil
}

// giveUp leaves nothing of a server that cannot be here, and tells compute why.
func (w *World) giveUp(m *simHost, want want, why string) error {
	a := m.agent
	w.report.Happened["given up"]++
	a.doomed[want.id] = fate{key: want.key, why: why}
	if err := w.release(m, want.id); err != nil {
		return err
	}
	if err := w.send(m); err != nil && err != errOccupied {
		return err
	}
	if err := w.tell(m, want.id, lifecycle.GuestFailed{Host: m.name, Consumer: want.id, Message: why}); err != nil {
		return err
	}
	m.book.forget(want.id)
	delete(a.doomed, want.id)
	a.acked[want.id] = fate{key: want.key, phase: "failed"}
	return nil
}

// release destroys the guest, frees its devices and writes that down, in this order.
func (w *World) release(m *simHost, id string) error {
	g := m.guests[id]
	_, taken := m.book.servers[id]
	if g != nil && !g.stopped {
		m.burn(id)
	}
	if g == nil && !taken {
		return nil
	}
	if w.broken != Undead {
		w.destroyed(m, g)
		delete(m.guests, id)
	}
	if err := w.crashes(m); err != nil {
		return err
	}
	return w.freeClaims(m, id)
}

// freeClaims frees the devices of a server of which nothing exists here, and writes that down.
func (w *World) freeClaims(m *simHost, id string) error {
	set, changes := m.agent.set.Free(resource.ConsumerID(id))
	m.book.leave(id)
	m.agent.set = set
	delete(m.agent.acked, id)
	m.behind, m.agent.look = m.behind || len(changes) > 0, true
	return w.crashes(m)
}

// verify asks Placement whether the consumer holds what its assignment says.
func (w *World) verify(m *simHost, want want) (refusal string) {
	holds := w.placement.Held(resource.ConsumerID(want.id))
	here := false
	for id := range holds {
		_, ours := m.agent.tree.ByID(id)
		here = here || ours
	}
	if !here {
		return "Placement has no allocation of it here"
	}
	needs := resource.Allocation{}
	for _, r := range want.requests {
		for _, p := range r.Providers {
			if needs[p] == nil {
				needs[p] = resource.Amounts{}
			}
			if needs[p][r.Requirement.Class]++; holds[p][r.Requirement.Class] < needs[p][r.Requirement.Class] {
				return "its allocation in Placement has too little"
			}
			if m.reclassed(p, r.Requirement.Class) {
				return "device_spec says another class by now"
			}
		}
	}
	return ""
}

// reclassed says whether the devices of a provider have another class by now.
func (m *simHost) reclassed(id resource.ProviderID, class resource.Class) bool {
	other := false
	for _, d := range m.made {
		e, _ := m.agent.set.At(d.Address)
		if e.Provider == id && e.Class == class {
			return false
		}
		other = other || e.Provider == id
	}
	return other
}

// claim picks the devices and writes them down. What is held for an assignment that is no longer so is given back
// first.
func (w *World) claim(m *simHost, want want) (device.Refusal, error) {
	refusal, err := w.tryClaim(m, want)
	if err == nil && refusal != "" && len(m.agent.set.Held(resource.ConsumerID(want.id))) > 0 {
		if err := w.release(m, want.id); err != nil {
			return "", err
		}
		refusal, err = w.tryClaim(m, want)
	}
	return refusal, err
}

func (w *World) tryClaim(m *simHost, want want) (device.Refusal, error) {
	holder := resource.ConsumerID(want.id)
	cells, _ := m.used(want.id)
	var at []numa.Placed
	if was := m.book.parts[want.id]; sameParts(was.parts, want.parts) {
		at = was.placed
	}
	set, picked, placed, refusal := m.agent.set.Place(holder, want.requests, want.parts, at, numa.Host{Cells: cells})
	if refusal == "" && len(set.Held(holder)) > len(picked) {
		refusal = "it holds devices that are no longer asked for"
	}
	if refusal != "" {
		if w.waitFor(m, want.id) {
			return "", errNotYet
		}
		return refusal, nil
	}
	m.book.servers[want.id] = picked
	if w.broken == Forgetful {
		m.book.servers[want.id] = nil
	}
	delete(m.book.left, want.id)
	if delete(m.book.parts, want.id); len(want.parts) > 0 {
		m.book.parts[want.id] = place{want.parts, placed}
	}
	m.agent.set, m.behind = set, true
	return "", nil
}

func sameParts(a, b []numa.GuestCell) bool {
	return slices.EqualFunc(a, b, func(a, b numa.GuestCell) bool {
		return slices.Equal(a.VCPUs, b.VCPUs) && a.MemoryMB == b.MemoryMB && a.PageKB == b.PageKB
	})
}

// takeOver makes what stood under one id stand under another: on disk first, then the guest.
func (w *World) takeOver(m *simHost, want want) error {
	if !m.book.owed(want) {
		return w.finishRename(m, want.id)
	}
	if m.book.renames[want.id].was != want.was {
		if err := w.finishOthers(m, want); err != nil {
			return err
		}
		if m.nameTaken(want) {
			w.report.Happened["name taken"]++
			return errNotYet
		}
		_, had := m.book.servers[want.id]
		_, comes := m.book.servers[want.was]
		if had && comes {
			if err := w.freeClaims(m, want.id); err != nil {
				return err
			}
		}
		m.book.rename(want.was, want.id)
		m.agent.set = m.agent.set.Rename(resource.ConsumerID(want.was), resource.ConsumerID(want.id))
		for _, id := range []string{want.was, want.id} {
			delete(m.agent.acked, id)
			delete(m.agent.doomed, id)
		}
		m.behind = true
		if err := w.crashes(m); err != nil {
			return err
		}
	}
	if err := w.renameGuest(m, want.was, want.id, want.server); err != nil {
		return err
	}
	return w.crashes(m)
}

// nameTaken reports whether a guest must take an id that another guest has.
func (m *simHost) nameTaken(want want) bool {
	_, had := m.book.servers[want.id]
	_, comes := m.book.servers[want.was]
	return m.book.owed(want) && m.book.renames[want.id].was != want.was && had && comes && m.guests[want.id] != nil
}

// finishOthers does the second half of renames that the entry would get in the way of.
func (w *World) finishOthers(m *simHost, want want) error {
	for _, id := range slices.Sorted(maps.Keys(m.book.renames)) {
		if was := m.book.renames[id].was; was != want.id && (id == want.id || id == want.was || was == want.was) {
			if err := w.finishRename(m, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishRename does the second half of a rename to id that the line no longer tells of.
func (w *World) finishRename(m *simHost, id string) error {
	r := m.book.renames[id]
	if r.was == "" || r.done {
		return nil
	}
	server := ""
	if g := m.guests[r.was]; g != nil {
		server = g.server
	}
	return w.renameGuest(m, r.was, id, server)
}

// renameGuest is the second half: the guest itself.
func (w *World) renameGuest(m *simHost, was, id, server string) error {
	if g := m.guests[was]; g != nil {
		if m.guests[id] != nil {
			return errNotYet
		}
		g.id, g.server = id, server
		delete(m.guests, was)
		m.guests[id] = g
	}
	m.book.renames[id] = rename{was, true}
	return nil
}
