package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// facts are what the host looks like.
func (w *World) facts(m *simHost) survey.Facts {
	f := survey.Facts{Host: m.name, Root: m.root, VCPU: survey.RootInventory{Total: 16},
		MemoryMB: survey.RootInventory{Total: 32768},
		DiskGB:   survey.RootInventory{Total: 1000},
		Traits:   []resource.Trait{zoneTrait(m.zone)}, Devices: m.devices(), Rules: m.rules[m.rule], Report: true,
		Spent:  map[pci.Address]bool{},
		Actual: w.tree(m)}
	for at, mark := range m.book.spent {
		f.Spent[at] = !mark.returning && (w.broken != Unburn || w.n%2 == 0)
	}
	return f
}

// sync makes Placement's tree what it ought to be: observe, plan, check, execute.
func (w *World) sync(m *simHost) error {
	a, f := m.agent, w.facts(m)
	defer m.noticeSpent(fmt.Sprint(m.spentDevices()))
	a.look, a.tree = false, f.Actual
	m.stir()
	if err := w.take(m, survey.Offers(f)); err != nil {
		return err
	}
	w.byHand(m, &f)
	d, err := w.plan(m, f, a.set.Claims(), w.waits(m))
	if err != nil {
		return err
	}
	w.remember(m, heal.Lacking(d.aim, d.uses))
	if no := heal.Check(d.plan, d.aim, f.Actual, d.uses, m.book.marks); len(no) > 0 {
		w.report.Happened["plan refused"]++
		return nil
	}
	if w.chance(Foreign, 40) {
		w.nudge(m)
	}
	if err := w.execute(m, d); err != nil {
		a.look = true
		return err
	}
	a.look = a.look || d.plan.More
	m.noteReserved(heal.Apply(d.plan, f.Actual))
	return nil
}

// spentDevices lists the devices that have been used and must be cleaned.
func (m *simHost) spentDevices() (list []pci.Address) {
	if m.agent == nil || !m.once {
		return nil
	}
	for _, e := range m.agent.set.Entries() {
		if m.spent(e) {
			list = append(list, e.Device.Address)
		}
	}
	return list
}

// noticeSpent has compute hear of the devices when they are not those of before.
func (m *simHost) noticeSpent(before string) {
	m.behind = m.behind || before != fmt.Sprint(m.spentDevices())
}

// draft is a plan with all that it was made of.
type draft struct {
	plan heal.Plan
	aim  heal.Aim
	uses heal.Uses
	held map[resource.ConsumerID]placement.ConsumerAllocation
}

// plan finds the way from what was seen to what ought to be, as the agent and its dry run do.
func (w *World) plan(m *simHost, f survey.Facts, held []device.Claim,
	wait func(resource.ConsumerID) bool) (d draft, err error) {
	f.Held = held
	if d.aim.Tree, _, err = survey.Desired(f); err != nil {
		return d, err
	}
	d.aim.Ratios, d.aim.ReservedClasses, d.aim.Returned = survey.Ratios(f), survey.ReservedClasses(
		f), map[provider.ID]bool{}
	for _, o := range survey.Offers(f) {
		if o.Provider != "" && (m.book.spent[o.Device.Address].returning || w.broken == Unburn) {
			d.aim.Returned[o.Provider] = true
		}
	}
	d.aim.Expected = heal.ExpectedAllocations(d.aim.Tree, held, func(c resource.ConsumerID) heal.HolderState {
		if wait(c) {
			return heal.Moving
		}
		return heal.Assigned
	})
	d.uses = heal.Uses{}
	for _, p := range f.Actual.Providers {
		d.uses[p.ID] = w.placement.Holders(p.ID)
	}
	d.held = map[resource.ConsumerID]placement.ConsumerAllocation{}
	for _, c := range heal.Lacking(d.aim, d.uses) {
		now, err := w.placement.Allocation(background, c)
		if err != nil {
			return d, err
		}
		d.held[c] = now
		hold := d.aim.Expected[c]
		hold.Allocation = now.Allocation
		d.aim.Expected[c] = hold
	}
	d.plan, err = heal.Make(d.aim, f.Actual, d.uses, m.book.marks)
	return d, err
}

// lack is a server that lacked a share in Placement at a look.
type lack struct {
	key   string // of the want then
	beats int
	twice bool // it lacked one at a look before, under the same want
}

// waits says of whom nothing may be written to Placement yet: a share that is missing may be on the move. It is written
// for a server whose assignment compute has confirmed, and that has just claimed its devices, or that lacked it at two
// looks under the same want with a line between them.
func (w *World) waits(m *simHost) func(resource.ConsumerID) bool {
	a := m.agent
	if a.connected && a.read == m.host.row.revision {
		a.beats++ // compute repeats what is still so
	}
	deaf := !a.heard || a.behind != "" || !a.connected
	return func(c resource.ConsumerID) bool {
		want, wanted := a.wants[string(c)]
		confirmed, is := a.confirmed[string(c)]
		if w.broken == Hasty {
			return false
		}
		if deaf || !wanted || !is || confirmed != want.key {
			return true
		}
		before, lacked := a.lacked[c]
		return !a.fresh[string(c)] && (!lacked || before.beats == a.beats || before.key != want.key)
	}
}

// remember notes who lacks a share, and looks again soon if it is for the first time.
func (w *World) remember(m *simHost, lacking []resource.ConsumerID) {
	a := m.agent
	was := a.lacked
	a.lacked = map[resource.ConsumerID]lack{}
	for _, c := range lacking {
		want, wanted := a.wants[string(c)]
		before, known := was[c]
		now := lack{key: want.key, beats: a.beats, twice: known && before.key == want.key && before.beats != a.beats}
		a.lacked[c] = now
		a.look = a.look || wanted && !now.twice && a.heard
	}
}

// take believes what was seen of the host; at first, also what the hypervisor and the journal say.
func (w *World) take(m *simHost, offers []device.Offer) error {
	a := m.agent
	if !a.restored {
		set, err := m.restore(offers)
		if err != nil {
			w.miss(m, "restore: %v", err)
			return err
		}
		a.set, a.restored, m.behind = set, true, true
		m.writeStart()
		for _, id := range slices.Sorted(maps.Keys(m.guests)) {
			m.book.servers[m.standsAs(id)] = set.Held(resource.ConsumerID(m.standsAs(id)))
		}
	} else {
		set, changes := a.set.Sync(offers)
		a.set, m.behind = set, m.behind || len(changes) > 0
	}
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		if !m.guests[id].stopped {
			m.burn(m.standsAs(id))
		}
	}
	return nil
}

// restore puts together who holds what after a restart.
func (m *simHost) restore(offers []device.Offer) (device.Set, error) {
	var claims []device.Claim
	seen := map[pci.Address]bool{}
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		as := m.standsAs(id)
		for _, d := range m.guests[id].devices {
			c := device.Claim{Offer: device.Offer{Device: pci.Device{Address: d.at}, Provider: d.from},
				Holder: resource.ConsumerID(as), Request: d.request}
			for _, j := range m.book.servers[as] {
				if j.Device.Address == d.at {
					c = j
				}
			}
			c.State = device.Allocated
			claims, seen[d.at] = append(claims, c), true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.book.servers)) {
		for _, c := range m.book.servers[id] {
			if !seen[c.Device.Address] {
				claims, seen[c.Device.Address] = append(claims, c), true
			}
		}
	}
	return device.Restore(offers, claims)
}

// byHand believes an operator who has lowered what the agent had reserved.
func (w *World) byHand(m *simHost, f *survey.Facts) {
	for _, at := range slices.SortedFunc(maps.Keys(m.book.spent), pci.Address.Compare) {
		mark := m.book.spent[at]
		e, there := m.agent.set.At(at)
		p, reported := f.Actual.ByID(mark.in)
		inv, has := p.Inventories[e.Class]
		if !there || mark.returning || mark.in == "" || !reported || !has || inv.Reserved > 0 || e.Holder != "" {
			continue
		}
		delete(m.book.spent, at)
		m.agent.set = m.agent.set.Spend(at, false)
		f.Spent[at] = false
	}
}

// noteReserved notes how the tree stands to the devices that have been used.
func (m *simHost) noteReserved(tree provider.Tree) {
	for _, at := range slices.SortedFunc(maps.Keys(m.book.spent), pci.Address.Compare) {
		mark := m.book.spent[at]
		e, there := m.agent.set.At(at)
		p, reported := tree.ByID(e.Provider)
		inv := p.Inventories[e.Class]
		switch {
		case mark.returning && (!there || !reported || inv.Reserved == 0):
			delete(m.book.spent, at)
		case mark.returning:
		case reported && inv.Total > 0 && inv.Reserved >= inv.Total && mark.in != p.ID:
			m.book.spent[at] = spent{in: p.ID}
		case mark.in != "" && there && !reported:
			m.book.spent[at] = spent{}
		}
	}
}

// execute carries a plan out, or stops at the first fault.
func (w *World) execute(m *simHost, d draft) error {
	for id, mark := range d.plan.Owned { // what is about to be put there is remembered first
		old := m.book.marks[id]
		m.book.marks[id] = heal.Owned{Classes: union(mark.Classes, old.Classes), Traits: union(mark.Traits, old.Traits)}
	}
	generations := map[provider.ID]int{}
	for _, s := range d.plan.Steps {
		if err := w.crashes(m); err != nil {
			return err
		}
		if err := w.step(m, d, s, generations); err != nil {
			return err
		}
		if w.chance(Messages, 200) {
			return errLost
		}
	}
	m.agent.tree = w.tree(m)
	m.book.marks = maps.Clone(d.plan.Owned)
	return nil
}

func (w *World) step(m *simHost, d draft, s heal.Step, generations map[provider.ID]int) (err error) {
	seen := func(id provider.ID, generation int) int {
		if written, ok := generations[id]; ok {
			return written
		}
		return generation
	}
	p := w.placement
	switch s.Op {
	case heal.CreateClass:
		err = p.EnsureClass(background, resource.Class(s.Name))
	case heal.CreateTrait:
		err = p.EnsureTrait(background, resource.Trait(s.Name))
	case heal.CreateProvider:
		var made provider.Provider
		made, err = p.CreateProvider(background, s.Provider, s.Name, s.Parent)
		generations[s.Provider] = made.Generation
	case heal.PutTraits:
		generations[s.Provider], err = p.PutTraits(background, s.Provider, seen(s.Provider, s.Generation), s.Traits)
	case heal.PutInventories:
		before, _ := p.Provider(s.Provider)
		generations[s.Provider], err = p.PutInventories(background, s.Provider, seen(s.Provider, s.Generation),
			s.Inventories)
		if err == nil {
			w.checkReserved(before, s.Inventories)
		}
	case heal.DeleteProvider:
		if err = p.DeleteProvider(background, s.Provider); fault.Is(err, fault.NotFound) {
			err = nil
		}
	case heal.Reshape:
		r := placement.Reshape{Inventories: map[provider.ID]placement.InventorySet{},
			Allocations: map[resource.ConsumerID]placement.ConsumerAllocation{}}
		for id, set := range s.InventorySets {
			r.Inventories[id] = placement.InventorySet{Generation: seen(id, set.Generation), Inventories: set.Inventories}
		}
		for c, allocation := range s.Allocations {
			next := d.held[c]
			next.Allocation = allocation
			next.Project, next.User = cmp.Or(next.Project, "project"), cmp.Or(next.User, "user")
			next.ConsumerType = cmp.Or(next.ConsumerType, "INSTANCE")
			r.Allocations[c] = next
			w.shared(m, c)
		}
		w.report.Happened["share mended"]++
		err = p.Reshape(background, r)
	}
	return err
}

// checkReserved: the reserved amount of a device for one-time use becomes smaller only after an operator has cleaned it.
func (w *World) checkReserved(p provider.Provider, next map[resource.Class]resource.Inventory) {
	for class, inv := range next {
		was := p.Inventories[class]
		switch {
		case inv.Reserved < min(was.Reserved, inv.Total) && p.Parent != "" && !w.cleaned[p.ID]:
			w.miss(nil, "reserved: %s of %s sinks from %d to %d, and nobody has cleaned the device", class, p.Name,
				was.Reserved, inv.Reserved)
		case was.Reserved > 0 && inv.Reserved == 0:
			delete(w.cleaned, p.ID)
		}
	}
}

// tree is the provider tree of a host as it is now; empty if there is none.
func (w *World) tree(m *simHost) provider.Tree {
	tree, _ := w.placement.Tree(background, m.root)
	return tree
}

func union[T ~string](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// nudge is somebody else who writes to the tree at the wrong moment.
func (w *World) nudge(m *simHost) {
	ids := w.placement.TreeIDs(m.root)
	if len(ids) == 0 {
		return
	}
	p, _ := w.placement.Provider(ids[w.rng.IntN(len(ids))])
	p.Generation++
	w.placement.SetProvider(p)
}
