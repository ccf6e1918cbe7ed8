package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Tree is what Placement has of the provider tree of a host.
type Tree struct {
	Free    resource.Allocation // what each provider has left
	Traits  map[provider.ID][]resource.Trait
	Parents map[provider.ID]provider.ID // of each provider that has one
}

// hostPlan is a server planned on one host.
type hostPlan struct {
	plan.Plan
	slots    []slot
	picked   []pci.Offered // by slot: its device
	unused   int           // free devices that no request can use
	work     int           // of the search; see plan.MakeWithin
	untraced bool          // refused, and a device lacks nothing but traits, which Placement may have
}

// planner plans a server on one host.
type planner struct {
	host  Host
	tree  *Tree // what Placement has there; nil: it was not asked, so the report of the host decides alone
	slots []slot
	free  []pci.Offered // free devices; plan.Host.Devices has the same order
	*plan.Slots
	isolation *isolation // nil: devices may share a provider
}

// planOn plans a server on a host. mappings are the providers that a candidate has chosen for some of the devices.
func (p Input) planOn(h Host, requests []pci.Request, mappings map[string][]provider.ID, tree *Tree) (hostPlan,
	Refusal) {
	requests = slices.Clone(requests)
	for i := range requests { // those of the host that it is on
		requests[i].Providers = nil
	}
	by := planner{host: h, tree: tree, slots: slotsOf(requests, mappings), free: h.Free()}
	counted := false
	for i, s := range by.slots {
		by.slots[i].counted = p.Counted[s.request.ID]
		counted = counted || by.slots[i].counted
	}
	if tree != nil && counted {
		by.free = tree.counted(by.free)
	}
	by.Slots = by.planned()
	guest := plan.Guest{Cells: p.Cells, Nodes: nodesOf(p.Placed), Requests: by.Requests, Sets: by.Sets}
	out := hostPlan{slots: by.slots}
	host := plan.Host{Devices: by.devices(&out)}
	if p.Isolate && counted {
		by.isolation = isolate(by.free, host.Devices, by.slots, mappings)
	}
	if len(p.Cells) > 0 && len(guest.Nodes) == 0 {
		host.Room = p.room(h, by.free, tree)
	}
	made, work, refusal := plan.MakeWithin(cmp.Or(p.work, plan.MaxWork), host, guest)
	out.work = work
	if refusal != nil {
		return out, by.refused(refusal, host.Devices)
	}
	out.untraced, out.Plan, out.picked = false, made, make([]pci.Offered, len(by.slots))
	for r, list := range made.Devices {
		for i, d := range list {
			out.picked[by.First[r]+i] = by.free[by.isolation.device(d, r)]
		}
	}
	return out, Refusal{}
}

// room returns the NUMA nodes of a host for the cells of the guest.
func (p Input) room(h Host, free []pci.Offered, tree *Tree) numa.Host {
	room := h.Room(free, p.Pack)
	if tree != nil && h.NodesInPlacement {
		room.Cells = h.limited(room, tree.Free)
	}
	return room
}

// planned returns the slots for a plan.
func (b *planner) planned() *plan.Slots {
	place, list := map[*pci.Request]int{}, make([]plan.Slot, len(b.slots))
	for i, s := range b.slots {
		list[i] = plan.Slot{Request: s.request, Index: place[s.request], Provider: s.provider}
		place[s.request]++
	}
	free := map[pci.Address]bool{}
	if slices.ContainsFunc(list, func(s plan.Slot) bool { return s.Request.Match != nil }) {
		for _, d := range b.free {
			free[d.Address] = true
		}
	}
	return plan.SlotsOf(list, b.host.Devices, func(d pci.Offered) bool { return free[d.Address] })
}

// devices returns the free devices for the plan. It sets in out how many of them no request can use, and whether traits
// exclude one.
func (b *planner) devices(out *hostPlan) []plan.Device {
	list := b.Devices(b.free)
	for n, d := range b.free {
		to := &list[n]
		to.Near = b.host.near(d)
		to.Beside = b.host.Nodes.Beside(to.Near)
		usable := false
		for _, first := range b.First {
			fits, traced := b.serves(d, b.slots[first])
			to.Fits = append(to.Fits, fits)
			usable, out.untraced = usable || fits, out.untraced || !traced
		}
		if !usable {
			out.unused++
		}
	}
	return list
}

// serves reports whether a device can serve a slot, and whether traits do not prevent it. Placement counts the devices
// of an alias in the class of its first definition; traits are those of the provider, or while Placement was not asked
// those of the device's rule.
func (b *planner) serves(d pci.Offered, s slot) (fits, traced bool) {
	if s.provider != "" && s.provider != d.Provider {
		return false, true
	}
	w := s.request.Requirement
	if s.request.Port != nil || !s.counted {
		return b.host.mismatch(d, s) == "", true
	}
	if d.Provider == "" || d.ResourceClass != w.Class || d.RemoteManaged || d.ForPorts ||
		s.request.WhyNot(d.Device, d.LiveMigratable) != "" {
		return false, true
	}
	traits := d.Traits
	if b.tree != nil {
		traits = b.tree.Traits[d.Provider]
	}
	has := func(t resource.Trait) bool { return slices.Contains(traits, t) }
	lacks := func(t resource.Trait) bool { return !has(t) }
	suits := !slices.ContainsFunc(w.Forbidden, has) && !slices.ContainsFunc(w.Required, lacks)
	return suits, suits
}

// counted returns the free devices that Placement also counts as free: of each provider and class as many as it has
// left. A card that is offered as its PF or as its VFs counts both ways. Devices that it does not count are kept, and
// all those for ports: a candidate takes no more of them from a provider than Placement has left, and they may differ.
func (t Tree) counted(free []pci.Offered) (out []pci.Offered) {
	type key struct {
		id    provider.ID
		class resource.Class
		whole bool
	}
	taken := map[key]int{}
	for _, d := range free {
		if k := (key{d.Provider, d.ResourceClass, d.Slices > 0}); d.Provider != "" && !d.ForPorts && !d.RemoteManaged {
			if taken[k]+d.Amount() > t.Free[d.Provider][d.ResourceClass] {
				continue
			}
			taken[k] += d.Amount()
		}
		out = append(out, d)
	}
	return out
}

// near returns the nodes with CPUs that are nearest to a device; nil: unknown.
func (h Host) near(d pci.Offered) []int {
	if len(h.Nodes) == 0 && d.NUMANode != pci.NoNUMA {
		return []int{d.NUMANode}
	}
	return h.Nodes.Near(d.NUMANode)
}

// refused returns the refusal of a host that has no plan.
func (b *planner) refused(r *plan.Refusal, devices []plan.Device) Refusal {
	switch {
	case r.Undecided:
		return undecided()
	case r.Cells.Reason != "":
		return refusalOf(r.Cells)
	}
	if r.Set >= 0 {
		reason, nearest := b.Disagreement(r.Set, devices)
		return Refusal{Filter: FilterDevices, Reason: reason, Nearest: nearest, Shortfall: 1 / float64(max(r.Wanted, 1))}
	}
	if refusal := b.tooFew(r); refusal.Reason != "" {
		return refusal
	}
	wanted := b.host.newDemand(b.free, b.slots)
	if refusal := wanted.judgeDevices(); refusal.Reason != "" {
		return refusal
	}
	if len(r.Nodes) > 0 {
		if refusal := refusalOf(wanted.checkNear(r.Nodes)); refusal.Reason != "" {
			return refusal
		}
	}
	short := b.slots[b.First[r.Request]].request
	return Refusal{Filter: FilterDevices, Shortfall: float64(r.Wanted-r.Served) / float64(max(r.Wanted, 1)),
		Reason:  fmt.Sprintf("fewer than %d free %s", short.Count, describeDevices(short.Requirement)),
		Nearest: fmt.Sprintf("it has %d of %d devices of the server", r.Served, r.Wanted)}
}

// undecided returns the refusal of a host on which a search has reached its limit.
func undecided() Refusal {
	return Refusal{Filter: FilterNUMA, Undecided: true,
		Reason: "not decided: the search for its NUMA nodes and devices has reached its limit"}
}

// tooFew returns the refusal of a host that has too few free devices for a request that Placement counts, whatever the
// other requests need; the Reason is empty if it has enough of them.
func (b *planner) tooFew(r *plan.Refusal) Refusal {
	s := b.slots[b.First[r.Request]]
	if !s.counted || len(r.Nodes) > 0 {
		return Refusal{}
	}
	has, what := b.serving(b.free, s), describeDevice(s.request.Requirement)
	if s.request.Count > 1 {
		what = describeDevices(s.request.Requirement)
	}
	if b.isolation != nil && has > 0 {
		what += " on providers of their own (group_policy isolate)"
	}
	if has >= s.request.Count {
		return Refusal{}
	}
	out := Refusal{Filter: FilterDevices, Shortfall: 1 - float64(has)/float64(s.request.Count),
		Reason: fmt.Sprintf("no free %s on the host", what), Class: s.request.Requirement.Class,
		Shortage: Shortage{Asks: s.request.Count, Free: has, Of: b.serving(b.host.Devices, s)}}
	if s.request.Count > 1 {
		out.Reason = fmt.Sprintf("fewer than %d free %s on the host", s.request.Count, what)
		out.Nearest = fmt.Sprintf("it has %d", has)
	}
	nearest, at := b.uncounted(s)
	if nearest == "" {
		nearest, at = b.host.nearest(b.free, s)
	}
	out.Nearest, out.Device = strings.Trim(out.Nearest+"; "+nearest, "; "), at
	return out
}

// serving returns how many of the devices can serve a slot; with group_policy isolate, on how many providers they are.
func (b *planner) serving(devices []pci.Offered, s slot) (n int) {
	on := map[provider.ID]bool{}
	for _, d := range devices {
		if fits, _ := b.serves(d, s); fits {
			n, on[d.Provider] = n+1, true
		}
	}
	if b.isolation != nil {
		return len(on)
	}
	return n
}

// uncounted describes a free device that only Placement keeps from a slot, and returns its address.
func (b *planner) uncounted(s slot) (text, device string) {
	for _, d := range b.host.Free() {
		if b.host.mismatch(d, s) != "" {
			continue
		}
		w, why := s.request.Requirement, ""
		traits := d.Traits
		if b.tree != nil {
			traits = b.tree.Traits[d.Provider]
		}
		for _, t := range w.Required {
			if !slices.Contains(traits, t) {
				why = "it has no trait " + string(t)
			}
		}
		for _, t := range w.Forbidden {
			if slices.Contains(traits, t) {
				why = "it has the trait " + string(t)
			}
		}
		switch fits, _ := b.serves(d, s); {
		case d.Provider == "":
			why = "Placement does not have it"
		case d.ResourceClass != w.Class:
			why = fmt.Sprintf("its class is %s, not %s", d.ResourceClass, w.Class)
		case fits && !slices.ContainsFunc(b.free, func(f pci.Offered) bool { return f.Address == d.Address }):
			why = "Placement has none of its provider left"
		}
		if why != "" {
			return "one is free, but " + why, d.Address.String()
		}
	}
	return "", ""
}
