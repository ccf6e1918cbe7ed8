package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// slot is one device that a request wants, and on which provider ("" for any).
type slot struct {
	request  *pci.Request
	provider provider.ID
}

// Free lists the devices of the host that can still be given away: those that the agent calls available, less what the
// guests hold or will pick and the report does not show yet.
func (h Host) Free() []Device {
	var free []Device
	for _, d := range h.Devices {
		if d.State == Available && !d.Spent {
			free = append(free, d)
		}
	}
	for _, g := range h.Guests {
		switch {
		case len(g.Devices) > 0:
			free = without(free, func(d Device) bool {
				return slices.ContainsFunc(g.Devices, func(p Picked) bool { return p.Address == d.Address.String() })
			})
		case !slices.ContainsFunc(h.Devices, func(d Device) bool { return d.Holder == g.ID }):
			slots := slotsOf(g.Requests, nil)
			picked, _ := pci.Fit(bare(free), len(slots), func(s, d int) int { return h.rank(free[d], slots[s]) })
			taken := map[string]bool{}
			for _, d := range picked {
				if d >= 0 {
					taken[free[d].Address.String()] = true
				}
			}
			free = without(free, func(d Device) bool { return taken[d.Address.String()] })
		}
	}
	return free
}

// without takes devices away, and with them the PF of each VF and the VFs of each PF.
func without(free []Device, taken func(Device) bool) []Device {
	var gone []Device
	for _, d := range free {
		if taken(d) {
			gone = append(gone, d)
		}
	}
	return slices.DeleteFunc(slices.Clone(free), func(d Device) bool {
		return slices.ContainsFunc(gone, func(g Device) bool {
			return g.Address == d.Address || g.Parent != nil && *g.Parent == d.Address || d.Parent != nil && *d.Parent == g.Address
		})
	})
}

func bare(devices []Device) []pci.Device {
	out := make([]pci.Device, 0, len(devices))
	for _, d := range devices {
		out = append(out, d.Device)
	}
	return out
}

// slotsOf lists the devices that requests want: where the mappings of a candidate say, else where the request itself does, else anywhere.
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

// misfit says why a free device is not for a slot, wherever it lies.
func (h Host) misfit(d Device, s slot) string {
	switch {
	case d.RemoteManaged:
		return "it is remote-managed, for network ports only"
	case d.ForPorts && (h.InPlacement || s.provider != ""):
		return "its rule has physical_network, so that it is for network ports only"
	case s.provider != "":
		return s.request.Refuse(d.Device, d.LiveMigratable)
	}
	// Placement was not asked: of a definition that says nothing but a class, the class is judged here.
	wants := slices.DeleteFunc(append([]pci.Want{s.request.Want}, s.request.Or...), func(w pci.Want) bool {
		return w.Vendor == "" && w.Product == "" && w.Class != d.ResourceClass
	})
	if len(wants) == 0 {
		return fmt.Sprintf("its class is %s, not %s", d.ResourceClass, s.request.Want.Class)
	}
	return pci.Request{Want: wants[0], Or: wants[1:]}.Refuse(d.Device, d.LiveMigratable)
}

// rank says for pci.Fit whether a device serves a slot.
func (h Host) rank(d Device, s slot) int {
	if s.provider != "" && s.provider != d.Provider || h.misfit(d, s) != "" {
		return -1
	}
	return 0
}

// bid is what one candidate wants of a host, and the free devices that could serve some of it.
type bid struct {
	host    Host
	free    []Device // all that is left, for sentences
	slots   []slot
	devices []Device     // those of free that could serve a slot
	bare    []pci.Device // the same, for pci.Fit
	serves  [][]bool     // by slot and device of devices
}

func (h Host) bid(free []Device, slots []slot) bid {
	b := bid{host: h, free: free, slots: slots, serves: make([][]bool, len(slots))}
	for _, d := range free {
		if !slices.ContainsFunc(slots, func(s slot) bool { return h.rank(d, s) >= 0 }) {
			continue
		}
		b.devices = append(b.devices, d)
		for n, s := range slots {
			b.serves[n] = append(b.serves[n], h.rank(d, s) >= 0)
		}
	}
	b.bare = bare(b.devices)
	return b
}

// fit gives each slot a device; near says how good one is for a request, where it may be had at all.
func (b bid) fit(near func(r *pci.Request, d Device) int) (picked []int, missing int) {
	return pci.Fit(b.bare, len(b.slots), func(s, d int) int {
		if !b.serves[s][d] {
			return -1
		}
		return near(b.slots[s].request, b.devices[d])
	})
}

// judgeDevices is the PciPassthroughFilter: can the free devices serve all slots together, each on its provider?
//
// Placement has counted already; what it does not know is vendor, product and type when an alias names a class
// (spec 002, "PCI alias configuration": "the vendor_id and product_id filtering will happen in the PciPassthroughFilter").
func (b bid) judgeDevices() Refusal {
	picked, missing := b.fit(func(*pci.Request, Device) int { return 0 })
	if missing < 0 {
		return Refusal{}
	}
	short, where := b.slots[missing], "on the host"
	if short.provider != "" {
		where = "on the chosen provider"
	}
	out := Refusal{Filter: FilterDevices, Shortfall: unserved(picked), Reason: fmt.Sprintf("no free %s %s", words(short.request.Want), where)}
	if n, found := alike(b.slots, picked, short); n > 1 {
		out.Reason = fmt.Sprintf("fewer than %d free %s %s", n, words(short.request.Want), where)
		out.Nearest = fmt.Sprintf("it has %d", found)
	}
	told, at := b.host.nearest(b.free, short)
	out.Nearest, out.Device = strings.Trim(out.Nearest+"; "+told, "; "), at
	return out
}

// unserved is the share of the slots that found no device.
func unserved(picked []int) float64 {
	n := 0
	for _, d := range picked {
		if d < 0 {
			n++
		}
	}
	return float64(n) / float64(max(len(picked), 1))
}

// nearest tells of the device that came closest to a slot: one that fits and is taken, else one that is free and does not fit.
func (h Host) nearest(free []Device, s slot) (text, device string) {
	for _, d := range h.Devices {
		if s.provider != "" && d.Provider != s.provider {
			continue
		}
		isFree := slices.ContainsFunc(free, func(f Device) bool { return f.Address == d.Address })
		switch why := h.misfit(d, s); {
		case why == "" && d.Spent:
			return "one has been used once and not been cleaned", d.Address.String()
		case why == "" && d.State != Available:
			return fmt.Sprintf("one is %s", d.State), d.Address.String()
		case why == "" && !isFree:
			return "one is promised to another server", d.Address.String()
		case isFree && why != "" && text == "":
			text, device = "one is free, but "+why, d.Address.String()
		}
	}
	return text, device
}

// alike counts the slots that want the same on the same provider, and those of them that found a device.
func alike(slots []slot, picked []int, short slot) (n, found int) {
	for i, s := range slots {
		if s.provider == short.provider && words(s.request.Want) == words(short.request.Want) {
			n++
			found += min(picked[i]+1, 1)
		}
	}
	return n, found
}

// words names what is wanted as people do: "type-VF 8086:1515".
func words(w pci.Want) string {
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
