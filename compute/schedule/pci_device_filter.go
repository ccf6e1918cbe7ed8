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
)

// slot is one requested device. provider is the provider that it must come from; empty: any.
type slot struct {
	request  *pci.Request
	provider provider.ID
	counted  bool // Placement counts the devices of the request; only planOn sets it
}

// Free lists the free devices of the host: those that the agent reports as available, without those that guests have or
// will get and that the report does not contain yet. Callers must not change the list.
func (h Host) Free() []pci.Offered {
	if h.free != nil {
		return h.free
	}
	free := make([]pci.Offered, 0, len(h.Devices))
	for _, d := range h.Devices {
		if d.State == pci.Available && !d.Spent && !d.Disabled {
			free = append(free, d)
		}
	}
	for _, g := range h.Guests {
		switch {
		case len(g.Devices) > 0:
			free = removeTaken(free, func(d pci.Offered) bool {
				return slices.ContainsFunc(g.Devices, func(p Picked) bool { return p.Address == d.Address.String() })
			})
		case !slices.ContainsFunc(h.Devices, func(d pci.Offered) bool { return string(d.Holder) == g.ID }):
			taken := h.promised(g, free)
			free = removeTaken(free, func(d pci.Offered) bool { return taken[d.Address] })
		}
	}
	return free
}

// WithFree returns the host with its free devices, so that Free takes no time. Afterwards callers must not change its
// devices, cells and guests.
func (h Host) WithFree() Host {
	h.free = h.Free()
	return h
}

// WithDisabled returns the host with a disablement that its agent has not reported yet.
func (h Host) WithDisabled(d pci.Disablement) Host {
	h.Devices, h.free = slices.Clone(h.Devices), nil
	affected := pci.Affecting([]pci.Disablement{d}, toPCI(h.Devices))
	for i := range h.Devices {
		if len(affected[h.Devices[i].Address]) > 0 {
			h.Devices[i].Disabled = true
		}
	}
	return h
}

// WithGuest returns the host with one more guest, which its agent has not reported yet.
func (h Host) WithGuest(g Guest) Host {
	return h.WithGuests(append(slices.Clone(h.Guests), g))
}

// WithGuests returns the host with other guests.
func (h Host) WithGuests(guests []Guest) Host {
	h.Guests, h.free, h.memory = guests, nil, nil
	return h
}

// removeTaken returns the devices without the taken ones, the PFs of taken VFs and the VFs of taken PFs.
func removeTaken(free []pci.Offered, taken func(pci.Offered) bool) []pci.Offered {
	var gone []pci.Offered
	for _, d := range free {
		if taken(d) {
			gone = append(gone, d)
		}
	}
	return slices.DeleteFunc(slices.Clone(free), func(d pci.Offered) bool {
		return slices.ContainsFunc(gone, func(g pci.Offered) bool {
			return g.Address == d.Address || g.Parent != nil && *g.Parent == d.Address ||
				d.Parent != nil && *d.Parent == g.Address
		})
	})
}

// toPCI returns the devices as pci.Fit needs them.
func toPCI(devices []pci.Offered) []pci.Device {
	out := make([]pci.Device, 0, len(devices))
	for _, d := range devices {
		out = append(out, d.Device)
	}
	return out
}

// slotsOf lists the slots of requests. The provider of a slot comes from the mappings, otherwise from the request; if
// both lack it, any provider is permitted.
func slotsOf(requests []pci.Request, mappings map[string][]provider.ID) []slot {
	var slots []slot
	for n := range requests {
		r := &requests[n]
		for i := range r.Count {
			s := slot{request: r}
			if chosen := mappings[r.GroupSuffix(i)]; len(chosen) > 0 {
				s.provider = chosen[0]
			} else if i < len(r.Providers) {
				s.provider = r.Providers[i]
			}
			slots = append(slots, s)
		}
	}
	return slots
}

// mismatch returns why a device is not suitable for a slot, or an empty string if it is. Its provider is not
// considered.
func (h Host) mismatch(d pci.Offered, s slot) string {
	switch {
	case s.request.Port != nil:
		return s.request.WhyNotPort(d.Device, pci.PortTags{PhysicalNetwork: d.PhysicalNetwork,
			RemoteManaged: d.RemoteManaged, Trusted: d.Trusted})
	case d.RemoteManaged:
		return "it is remote-managed, for network ports only"
	case d.ForPorts && (h.InPlacement || s.provider != ""):
		return "its rule has physical_network, so it is for network ports only"
	case s.provider != "":
		return s.request.WhyNot(d.Device, d.LiveMigratable)
	}
	// Placement has not chosen the device, so a definition with only a class is checked here.
	wants := slices.DeleteFunc(append([]pci.Requirement{s.request.Requirement}, s.request.Alternatives...),
		func(w pci.Requirement) bool {
			return w.Vendor == "" && w.Product == "" && w.Class != d.ResourceClass
		})
	if len(wants) == 0 {
		return fmt.Sprintf("its class is %s, not %s", d.ResourceClass, s.request.Requirement.Class)
	}
	return pci.Request{Requirement: wants[0], Alternatives: wants[1:]}.WhyNot(d.Device, d.LiveMigratable)
}

// rank returns for pci.Fit whether a device can fill a slot: 0 if it can, -1 if not.
func (h Host) rank(d pci.Offered, s slot) int {
	if s.provider != "" && s.provider != d.Provider || h.mismatch(d, s) != "" {
		return -1
	}
	return 0
}

// promised returns which of the free devices a guest will get: the agent plans those of sets, and assigns others.
func (h Host) promised(g Guest, free []pci.Offered) map[pci.Address]bool {
	nodes, taken, slots := numa.ChosenNodes(g.Cells), map[pci.Address]bool{}, slotsOf(g.Requests, nil)
	if slices.ContainsFunc(slots, func(s slot) bool { return s.request.Match != nil && s.provider == "" }) {
		by := planner{host: h, slots: slots, free: free}
		by.Slots = by.planned()
		made, _, refusal := plan.MakeWithin(plan.QuickWork, plan.Host{Devices: by.devices(&hostPlan{})},
			plan.Guest{Nodes: nodes, Requests: by.Requests, Sets: by.Sets})
		if refusal == nil {
			for _, d := range slices.Concat(made.Devices...) {
				taken[free[d].Address] = true
			}
			return taken
		}
	}
	picked, _ := pci.Fit(toPCI(free), len(slots), func(s, d int) int { return h.promise(free[d], slots[s], nodes) })
	for _, d := range picked {
		if d >= 0 {
			taken[free[d].Address] = true
		}
	}
	return taken
}

// promise returns for pci.Fit whether a device can fill a slot of a guest on these nodes, and how near it is: the agent
// gives the guest the nearest. If none is near enough, another one counts as promised.
func (h Host) promise(d pci.Offered, s slot, nodes []int) int {
	if h.rank(d, s) < 0 {
		return -1
	}
	if rank := numa.Rank(s.request.Policy, d.NUMANode, nodes, h.Nodes); rank >= 0 {
		return rank
	}
	return numa.Distant + 1
}

// demand is what one candidate needs of a host, and the free devices that can fill its slots.
type demand struct {
	host       Host
	free       []pci.Offered // all free devices, for messages
	slots      []slot
	devices    []pci.Offered // the free devices that can fill a slot
	pciDevices []pci.Device  // the same, for pci.Fit
	serves     [][]bool      // by slot and index in devices
}

// newDemand selects the free devices that can fill the slots.
func (h Host) newDemand(free []pci.Offered, slots []slot) demand {
	b := demand{host: h, free: free, slots: slots, serves: make([][]bool, len(slots))}
	for _, d := range free {
		if !slices.ContainsFunc(slots, func(s slot) bool { return h.rank(d, s) >= 0 }) {
			continue
		}
		b.devices = append(b.devices, d)
		for n, s := range slots {
			b.serves[n] = append(b.serves[n], h.rank(d, s) >= 0)
		}
	}
	b.pciDevices = toPCI(b.devices)
	return b
}

// fit assigns a device to each slot. near ranks a suitable device for a request; a negative rank excludes it. missing
// is the index of a slot without a device, or negative.
func (b demand) fit(near func(r *pci.Request, d pci.Offered) int) (picked []int, missing int) {
	return pci.Fit(b.pciDevices, len(b.slots), func(s, d int) int {
		if !b.serves[s][d] {
			return -1
		}
		return near(b.slots[s].request, b.devices[d])
	})
}

// judgeDevices is the PciPassthroughFilter: it refuses if the free devices cannot fill all slots together, each on its
// provider.
//
// Placement has counted the devices already. If an alias names a class, it has not checked vendor, product and type, so
// these are checked here, as in Nova.
func (b demand) judgeDevices() Refusal {
	picked, missing := b.fit(func(*pci.Request, pci.Offered) int { return 0 })
	if missing < 0 {
		return Refusal{}
	}
	short, where := b.slots[missing], "on the host"
	if short.provider != "" {
		where = "on the chosen provider"
	}
	out := Refusal{
		Filter: FilterDevices, Shortfall: unservedShare(picked),
		Reason: fmt.Sprintf("no free %s %s", describeDevice(short.request.Requirement), where),
	}
	if short.counted {
		out.Class = short.request.Requirement.Class
	}
	n, found := countSame(b.slots, picked, short)
	out.Shortage = Shortage{Asks: n, Free: found, Of: b.host.offered(short)}
	if n > 1 {
		out.Reason = fmt.Sprintf("fewer than %d free %s %s", n, describeDevices(short.request.Requirement), where)
		out.Nearest = fmt.Sprintf("it has %d", found)
	}
	nearest, at := b.host.nearest(b.free, short)
	out.Nearest, out.Device = strings.Trim(out.Nearest+"; "+nearest, "; "), at
	return out
}

// unservedShare returns the share of slots without a device, from 0 to 1.
func unservedShare(picked []int) float64 {
	n := 0
	for _, d := range picked {
		if d < 0 {
			n++
		}
	}
	return float64(n) / float64(max(len(picked), 1))
}

// nearest describes the device that comes closest to a slot, and returns its address: a suitable one that is taken,
// otherwise a free one that is not suitable.
func (h Host) nearest(free []pci.Offered, s slot) (text, device string) {
	for _, d := range h.Devices {
		if s.provider != "" && d.Provider != s.provider {
			continue
		}
		isFree := slices.ContainsFunc(free, func(f pci.Offered) bool { return f.Address == d.Address })
		switch why := h.mismatch(d, s); {
		case why == "" && d.Spent:
			return "one has been used once and not been cleaned", d.Address.String()
		case why == "" && d.State != pci.Available:
			return fmt.Sprintf("one is %s", d.State), d.Address.String()
		case why == "" && d.Disabled:
			return "one is disabled", d.Address.String()
		case why == "" && s.provider != "" && d.Amount() > 1:
			return fmt.Sprintf("one is free, but Placement has chosen one slice of its %d; a server gets it if the flavor has "+
				"VCPUs, memory or disk", d.Amount()), d.Address.String()
		case why == "" && !isFree:
			return "one is promised to another server", d.Address.String()
		case isFree && why != "" && text == "":
			text, device = "one is free, but "+why, d.Address.String()
		}
	}
	return text, device
}

// offered counts the devices that could fill a slot if they were free.
func (h Host) offered(s slot) (n int) {
	for _, d := range h.Devices {
		if (s.provider == "" || d.Provider == s.provider) && h.mismatch(d, s) == "" {
			n++
		}
	}
	return n
}

// countSame counts the slots with the same requirement and provider as short, and those of them that have a device.
func countSame(slots []slot, picked []int, short slot) (n, found int) {
	for i, s := range slots {
		if s.provider == short.provider &&
			describeDevice(s.request.Requirement) == describeDevice(short.request.Requirement) {
			n++
			found += min(picked[i]+1, 1)
		}
	}
	return n, found
}

// describeDevice describes the required device, such as "type-VF 8086:1515".
func describeDevice(w pci.Requirement) string {
	kind := cmp.Or(string(w.Type), "device")
	switch {
	case w.Vendor != "" && w.Product != "":
		kind += " " + w.Vendor + ":" + w.Product
	case w.Vendor != "" || w.Product != "":
		kind += " " + cmp.Or(w.Vendor, "*") + ":" + cmp.Or(w.Product, "*")
	case w.Class != "":
		kind += " of " + string(w.Class)
	}
	if w.LiveMigratable != pci.Unset {
		kind += " with live_migratable " + string(w.LiveMigratable)
	}
	return kind
}

// describeDevices is describeDevice for several devices.
func describeDevices(w pci.Requirement) string {
	text := describeDevice(w)
	if rest, any := strings.CutPrefix(text, "device"); any {
		return "devices" + rest
	}
	return text
}
