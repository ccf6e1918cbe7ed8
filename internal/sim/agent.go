package sim

import (
	"errors"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// What may come between.
var (
	errCrash  = errors.New("the agent is no more")
	errLost   = errors.New("there is no answer")
	errNotYet = errors.New("others have yet to leave")
	errNo     = errors.New("compute does not want it here any more")
)

// crashes says whether the agent dies at this point. Points are between writes to the disk, calls and acts of the hypervisor.
func (w *World) crashes(m *machine) error {
	if !w.chance(Crashes, 400) {
		return nil
	}
	w.report.Happened["crash"]++
	w.halt(m)
	return errCrash
}

// halt ends the agent: what it has in memory is lost.
func (w *World) halt(m *machine) {
	if m.agent != nil && !m.cut {
		m.seen = w.now
	}
	m.agent = nil
	m.stir()
}

// hear takes in what compute wants here.
func (w *World) hear(m *machine) {
	a := m.agent
	lines := w.office.lines(m)
	if a.heard && a.rev == m.rev {
		return
	}
	a.look = a.look || !a.heard
	a.heard, a.rev, a.wants = true, m.rev, make(map[string]want, len(lines))
	for _, want := range lines {
		a.wants[want.id] = want
	}
	for _, fates := range []map[string]fate{a.acked, a.doomed} {
		maps.DeleteFunc(fates, func(id string, _ fate) bool { _, still := a.wants[id]; return !still })
	}
	for id, r := range m.book.renames {
		if want, wanted := a.wants[id]; r.done && (!wanted || want.was != r.was) {
			delete(m.book.renames, id)
		}
	}
	m.stir()
}

// due lists what is not as it shall be: those first that free something.
func (m *machine) due() (list []string) {
	a := m.agent
	if !a.heard {
		return nil
	}
	owing := map[string]string{}
	for id, r := range m.book.renames {
		if back := a.wants[r.was]; !r.done && !(back.was == id && m.book.owed(back)) { // begun, and not to go back at once
			owing[r.was] = id
		}
	}
	for id, want := range a.wants {
		if m.book.owed(want) {
			owing[want.was] = id
		}
	}
	for _, id := range m.standing() {
		if _, wanted := a.wants[id]; !wanted && owing[id] == "" {
			list = append(list, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.wants)) {
		if by := owing[id]; !m.settled(a.wants[id]) && (by == "" || by == id) {
			list = append(list, id)
		}
	}
	return list
}

// settled says whether compute knows the end of what it wants.
func (m *machine) settled(want want) bool {
	f, known := m.agent.acked[want.id]
	if !known || f.key != want.key {
		return false
	}
	if f.phase != "running" && f.phase != "stopped" {
		return true
	}
	g := m.guests[want.id]
	return g != nil && !g.departed && g.asWanted(want)
}

func (g *guest) asWanted(w want) bool { return g.stopped == w.off && g.build == w.build }

// work does what is due for one id.
func (w *World) work(m *machine, id string) error {
	want, wanted := m.agent.wants[id]
	m.stir()
	if wanted {
		return w.raise(m, want)
	}
	return w.fell(m, id)
}

// raise makes a server be as it shall be here, or tells that it cannot.
func (w *World) raise(m *machine, want want) error {
	if err := w.takeOver(m, want); err != nil {
		return err
	}
	if f, doomed := m.agent.doomed[want.id]; doomed && f.key == want.key {
		return w.giveUp(m, want, f.why)
	}
	delete(m.agent.doomed, want.id)
	delete(m.agent.acked, want.id)
	switch g := m.guests[want.id]; {
	case g != nil && g.departed && want.outgoing != "":
		return w.end(m, want, "departed", lifecycle.GuestDeparted{Host: m.name, As: want.id})
	case g != nil && !g.departed && g.asWanted(want):
		return w.goOn(m, want)
	case g != nil && !g.departed && w.chance(Builds, 40):
		w.report.Happened["refused"]++
		return w.end(m, want, "refused", lifecycle.GuestRefused{Host: m.name, As: want.id, Devices: m.picks(want.id), Parts: m.book.parts[want.id].placed,
			Build: g.build, Stopped: g.stopped, Message: "no"})
	case g != nil && !g.departed:
		g.stopped, g.build = want.off, want.build
		if err := w.crashes(m); err != nil {
			return err
		}
		return w.goOn(m, want)
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
	claimed := lifecycle.GuestClaimed{Host: m.name, As: want.id, Devices: m.picks(want.id), Parts: m.book.parts[want.id].placed, Build: want.build}
	if want.incoming {
		return w.end(m, want, "claimed", claimed)
	}
	if err := w.tell(m, want.id, claimed); err != nil {
		return err
	}
	if !w.erect(m, want) {
		return w.giveUp(m, want, "the guest cannot be built")
	}
	if err := w.crashes(m); err != nil {
		return err
	}
	return w.goOn(m, want)
}

// erect builds the guest, unless the hypervisor cannot.
func (w *World) erect(m *machine, want want) bool {
	g := &guest{id: want.id, stopped: want.off, build: want.build}
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
func (w *World) goOn(m *machine, want want) error {
	w.allocate(m, want)
	if err := w.crashes(m); err != nil {
		return err
	}
	if want.outgoing != "" {
		if w.chance(Builds, 20) {
			return w.end(m, want, "failed", lifecycle.GuestFailed{Host: m.name, As: want.id, Message: "the guest cannot go"})
		}
		m.guests[want.id].departed = true
		if err := w.crashes(m); err != nil {
			return err
		}
		return w.end(m, want, "departed", lifecycle.GuestDeparted{Host: m.name, As: want.id})
	}
	devices, parts := m.picks(want.id), m.book.parts[want.id].placed
	if want.off {
		return w.end(m, want, "stopped", lifecycle.GuestStopped{Host: m.name, As: want.id, Devices: devices, Parts: parts, Build: want.build})
	}
	return w.end(m, want, "running", lifecycle.GuestRunning{Host: m.name, As: want.id, Devices: devices, Parts: parts, Build: want.build})
}

// allocate notes that the guest has what it holds, and if it runs, that it has used it.
func (w *World) allocate(m *machine, want want) {
	set, changes := m.agent.set.Allocate(resource.ConsumerID(want.id))
	m.agent.set = set
	m.book.servers[want.id] = set.Held(resource.ConsumerID(want.id))
	m.behind = m.behind || len(changes) > 0
	if !want.off {
		m.burn(want.id)
	}
}

// burn writes down that the guest has started with its devices for one-time use.
func (m *machine) burn(id string) {
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

// picks are what a guest holds, as compute is told.
func (m *machine) picks(id string) []schedule.Picked {
	var out []schedule.Picked
	for _, c := range m.agent.set.Held(resource.ConsumerID(id)) {
		out = append(out, schedule.Picked{RequestID: c.Request, Address: c.Device.Address.String(), Provider: c.Provider})
	}
	return out
}

// end tells compute what became of a server; then there is nothing to do as long as it wants nothing else.
func (w *World) end(m *machine, want want, phase string, e lifecycle.Event) error {
	if err := w.tell(m, want.id, e); err != nil {
		return err
	}
	m.agent.acked[want.id] = fate{key: want.key, phase: phase}
	return nil
}

// fell makes a server go that shall not be here.
func (w *World) fell(m *machine, id string) error {
	if r := m.book.renames[id]; r.was != "" && !r.done {
		w.renameGuest(m, r.was, id)
	}
	if err := w.release(m, id); err != nil {
		return err
	}
	if err := w.send(m); err != nil {
		return err
	}
	if w.broken == Silent {
		return nil
	}
	if err := w.tell(m, id, lifecycle.GuestGone{Host: m.name, As: id}); err != nil {
		return err
	}
	m.book.vacate(id)
	delete(m.book.left, id)
	return nil
}

// giveUp leaves nothing of a server that cannot be here, and tells compute why.
func (w *World) giveUp(m *machine, want want, why string) error {
	w.report.Happened["given up"]++
	m.agent.doomed[want.id] = fate{key: want.key, why: why}
	if err := w.release(m, want.id); err != nil {
		return err
	}
	if err := w.send(m); err != nil {
		return err
	}
	if err := w.tell(m, want.id, lifecycle.GuestFailed{Host: m.name, As: want.id, Message: why}); err != nil {
		return err
	}
	m.book.vacate(want.id)
	delete(m.book.left, want.id)
	delete(m.agent.doomed, want.id)
	m.agent.acked[want.id] = fate{key: want.key, phase: "failed"}
	return nil
}

// release destroys the guest, frees its devices and writes that down, in this order.
func (w *World) release(m *machine, id string) error {
	g := m.guests[id]
	_, taken := m.book.servers[id]
	if g != nil && !g.stopped {
		m.burn(id)
	}
	if g == nil && !taken {
		return nil
	}
	if w.broken != Undead {
		delete(m.guests, id)
	}
	if err := w.crashes(m); err != nil {
		return err
	}
	set, changes := m.agent.set.Free(resource.ConsumerID(id))
	m.book.vacate(id)
	m.book.left[id] = true
	m.agent.set = set
	delete(m.agent.acked, id)
	m.behind, m.agent.look = m.behind || len(changes) > 0, true
	return w.crashes(m)
}

// verify asks Placement whether the consumer holds what its assignment says.
func (w *World) verify(m *machine, want want) (refusal string) {
	holds := w.ledger.consumers[resource.ConsumerID(want.id)].holds
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
			if needs[p][r.Want.Class]++; holds[p][r.Want.Class] < needs[p][r.Want.Class] {
				return "its allocation in Placement has too little"
			}
			if m.reclassed(p, r.Want.Class) {
				return "device_spec says another class by now"
			}
		}
	}
	return ""
}

// reclassed says whether the devices of a provider have another class by now.
func (m *machine) reclassed(id resource.ProviderID, class resource.Class) bool {
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

// claim picks the devices and writes them down. What is held for an assignment that is no longer so is given back first.
func (w *World) claim(m *machine, want want) (device.Refusal, error) {
	refusal, err := w.tryClaim(m, want)
	if err == nil && refusal != "" && len(m.agent.set.Held(resource.ConsumerID(want.id))) > 0 {
		if err := w.release(m, want.id); err != nil {
			return "", err
		}
		refusal, err = w.tryClaim(m, want)
	}
	return refusal, err
}

func (w *World) tryClaim(m *machine, want want) (device.Refusal, error) {
	set, picked, where, refusal := w.fit(m, want)
	if refusal == "" && len(set.Held(resource.ConsumerID(want.id))) > len(picked) {
		refusal = "it holds devices that are no longer asked for"
	}
	if refusal != "" {
		for _, h := range m.agent.set.Holders() {
			_, wanted := m.agent.wants[string(h)]
			if _, doomed := m.agent.doomed[string(h)]; doomed || !wanted {
				w.report.Happened["waited"]++
				return "", errNotYet
			}
		}
		return refusal, nil
	}
	m.book.servers[want.id] = picked
	if w.broken == Forgetful {
		m.book.servers[want.id] = nil
	}
	delete(m.book.left, want.id)
	if delete(m.book.parts, want.id); len(where.parts) > 0 {
		m.book.parts[want.id] = where
	}
	m.agent.set, m.behind = set, true
	return "", nil
}

// fit finds devices for a server, and a place for its NUMA cells from where they are near enough.
func (w *World) fit(m *machine, want want) (device.Set, []device.Claim, place, device.Refusal) {
	holder, set := resource.ConsumerID(want.id), m.agent.set
	if len(want.parts) == 0 {
		next, picked, refusal := set.ClaimAll(holder, want.requests, device.Near{})
		return next, picked, place{}, refusal
	}
	cells, _ := m.used(want.id)
	where := m.book.parts[want.id]
	if !sameParts(where.parts, want.parts) {
		near := func(nodes []int) device.Near { return device.Near{Nodes: nodes, Cells: cells} }
		placed, unfit := numa.Fit(numa.Host{Cells: cells, Free: free(set)}, numa.Guest{Parts: want.parts, Devices: len(want.requests) > 0},
			numa.Judge{Accept: func(nodes []int) numa.Refusal {
				_, _, refusal := set.ClaimAll(holder, want.requests, near(nodes))
				return numa.Refusal{Reason: string(refusal)}
			}, Far: func(nodes []int) int {
				_, picked, _ := set.ClaimAll(holder, want.requests, near(nodes))
				return near(nodes).Far(picked, want.requests)
			}})
		if unfit.Reason != "" {
			return set, nil, place{}, device.Refusal(unfit.Reason)
		}
		where = place{want.parts, placed}
	}
	var nodes []int
	for _, p := range where.placed {
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	next, picked, refusal := set.ClaimAll(holder, want.requests, device.Near{Nodes: slices.Compact(nodes), Cells: cells})
	return next, picked, where, refusal
}

func sameParts(a, b []numa.Part) bool {
	return slices.EqualFunc(a, b, func(a, b numa.Part) bool {
		return slices.Equal(a.VCPUs, b.VCPUs) && a.MemoryMB == b.MemoryMB && a.PageKB == b.PageKB
	})
}

// free counts the free devices of each NUMA node.
func free(s device.Set) map[int]int {
	out := map[int]int{}
	for _, e := range s.Entries() {
		if e.State == device.Available && !e.Spent {
			out[e.Device.NUMANode]++
		}
	}
	return out
}

// takeOver makes what stood under one id stand under another: on disk first, then the guest.
func (w *World) takeOver(m *machine, want want) error {
	if !m.book.owed(want) {
		return nil
	}
	if m.book.renames[want.id].was != want.was {
		_, had := m.book.servers[want.id]
		if _, comes := m.book.servers[want.was]; had && comes {
			if err := w.release(m, want.id); err != nil {
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
	w.renameGuest(m, want.was, want.id)
	return w.crashes(m)
}

// renameGuest is the second half: the guest itself.
func (w *World) renameGuest(m *machine, was, id string) {
	if g := m.guests[was]; g != nil {
		g.id = id
		delete(m.guests, was)
		m.guests[id] = g
	}
	m.book.renames[id] = rename{was, true}
}

// rename is one write.
func (b *book) rename(was, id string) {
	b.renames[id] = rename{was: was}
	if b.renames[was].was == id { // there and back again
		delete(b.renames, was)
	}
	if claims, there := b.servers[was]; there {
		claims = slices.Clone(claims)
		for i := range claims {
			claims[i].Holder = resource.ConsumerID(id)
		}
		b.servers[id] = claims
		delete(b.left, id)
		if delete(b.parts, id); len(b.parts[was].parts) > 0 {
			b.parts[id] = b.parts[was]
		}
		b.vacate(was)
	}
}

// tell says what became of a server; nil means that compute has taken it in. What is said may be lost, come late or twice, or the answer is lost.
func (w *World) tell(m *machine, id string, e lifecycle.Event) error {
	if m.cut || w.chance(Messages, 60) {
		return errLost
	}
	m.words++
	told := lifecycle.Told{Host: m.name, Instance: m.name, Number: m.words, Of: e}
	seldom := 120
	if w.broken == Uncounted {
		seldom = 8
	}
	if w.chance(Messages, seldom) {
		w.late = append(w.late, letter{m, id, told})
		return errLost
	}
	taken := w.office.guest(id, told)
	if w.chance(Messages, 60) {
		taken = w.office.guest(id, told)
	}
	if w.chance(Messages, 60) {
		return errLost
	}
	if !taken {
		return errNo
	}
	return w.crashes(m)
}

// send tells compute what the host has.
func (w *World) send(m *machine) error {
	if m.cut || w.chance(Messages, 60) {
		return errLost
	}
	h := schedule.Host{Name: m.name, Provider: m.root, InPlacement: true, Instance: m.name}
	h.Cells, h.Counted = m.used("")
	for _, e := range m.agent.set.Entries() {
		if e.Device.Type == "" {
			continue
		}
		h.Devices = append(h.Devices, schedule.Device{Device: e.Device, ResourceClass: e.Class, Traits: e.Traits, Provider: e.Provider,
			State: schedule.State(e.State), Holder: string(e.Holder), RequestID: e.Request, ForPorts: e.ForPorts, RemoteManaged: e.RemoteManaged,
			LiveMigratable: e.LiveMigratable, OneTimeUse: slices.Contains(e.Traits, survey.OneTimeUse), Spent: e.Spent})
	}
	m.report, m.known, m.behind = h, true, false
	return nil
}

// clean gives a device for one-time use back, as an operator wishes, when there is one to be cleaned.
func (w *World) clean(m *machine, at pci.Address) bool {
	e, there := m.agent.set.At(at)
	if !there || e.Holder != "" || !e.Spent {
		return false
	}
	w.ledger.cleaned[e.Provider] = true
	m.book.spent[at] = spent{m.book.spent[at].in, true}
	m.agent.set = m.agent.set.Spend(at, false)
	m.behind, m.agent.look = true, true
	return true
}
