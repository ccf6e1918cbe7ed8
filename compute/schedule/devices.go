package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// slot is one device that a request wants: what it must be, and on which provider ("" for any).
type slot struct {
	want     pci.Want
	provider provider.ID
}

// Free lists the devices of the host that can still be given away: those that the agent calls available, less what the
// guests hold or will pick and the report does not show yet.
func (h Host) Free() []Device {
	var free []Device
	for _, d := range h.Devices {
		if d.State == Available {
			free = append(free, d)
		}
	}
	for _, g := range h.Guests {
		switch {
		case len(g.Devices) > 0:
			free = slices.DeleteFunc(free, func(d Device) bool {
				return slices.ContainsFunc(g.Devices, func(p Picked) bool { return p.Address == d.Address.String() })
			})
		case !slices.ContainsFunc(h.Devices, func(d Device) bool { return d.Holder == g.ID }):
			free = less(free, pending(g.Requests))
		}
	}
	return free
}

// pending are the slots of a server that is placed already.
func pending(requests []pci.Request) []slot {
	var slots []slot
	for _, r := range requests {
		for i := range r.Count {
			s := slot{want: r.Want}
			if i < len(r.Providers) {
				s.provider = r.Providers[i]
			}
			slots = append(slots, s)
		}
	}
	return slots
}

// less takes away the devices that these slots will use, as far as there are any.
func less(free []Device, slots []slot) []Device {
	taken, _ := fit(free, slots)
	var out []Device
	for i, d := range free {
		if taken[i] < 0 {
			out = append(out, d)
		}
	}
	return out
}

// refuseDevices gives the sentence why a candidate's providers cannot serve the requests together, or nothing when they can.
//
// Placement has counted already; what it does not know is vendor, product and type when an alias names a class
// (spec 002, "PCI alias configuration": "the vendor_id and product_id filtering will happen in the PciPassthroughFilter").
func refuseDevices(free []Device, requests []pci.Request, mappings map[string][]provider.ID) string {
	var slots []slot
	grouped := make([]bool, 0, len(requests))
	for _, r := range requests {
		for i := range r.Count {
			chosen, ok := mappings[r.GroupSuffix(i)]
			if ok && len(chosen) != 1 {
				return fmt.Sprintf("the candidate gives a device of alias %s %d providers instead of one", r.Alias, len(chosen))
			}
			s := slot{want: r.Want}
			if ok {
				s.provider = chosen[0]
			}
			slots, grouped = append(slots, s), append(grouped, ok)
		}
	}
	_, missing := fit(free, slots)
	if missing < 0 {
		return ""
	}
	where := "on the host"
	if grouped[missing] {
		where = "on the chosen provider"
	}
	if n := alike(slots, slots[missing]); n > 1 {
		return fmt.Sprintf("fewer than %d free %s %s", n, words(slots[missing].want), where)
	}
	return fmt.Sprintf("no free %s %s", words(slots[missing].want), where)
}

// alike counts the slots that want the same on the same provider.
func alike(slots []slot, s slot) int {
	n := 0
	for _, other := range slots {
		if other.provider == s.provider && words(other.want) == words(s.want) {
			n++
		}
	}
	return n
}

// fit gives each slot a device of its own, moving earlier ones over where that helps: the largest matching, by augmenting
// paths. taken has the slot of each device or -1. missing is the first slot that found none, or -1.
func fit(free []Device, slots []slot) (taken []int, missing int) {
	taken = make([]int, len(free))
	for i := range taken {
		taken[i] = -1
	}
	missing = -1
	for n := range slots {
		if !place(n, free, slots, taken, make([]bool, len(free))) && missing < 0 {
			missing = n
		}
	}
	return taken, missing
}

// place finds a device for slot n; seen are the devices looked at already on this path.
func place(n int, free []Device, slots []slot, taken []int, seen []bool) bool {
	for i, d := range free {
		if seen[i] || !serves(d, slots[n]) {
			continue
		}
		seen[i] = true
		if taken[i] < 0 || place(taken[i], free, slots, taken, seen) {
			taken[i] = n
			return true
		}
	}
	return false
}

func serves(d Device, s slot) bool {
	return (s.provider == "" || s.provider == d.Provider) && s.want.Refuse(d.Device) == ""
}

// words names what is wanted as people do: "type-VF 8086:1515".
func words(w pci.Want) string {
	kind := cmp.Or(string(w.Type), "device")
	switch {
	case w.Vendor != "" && w.Product != "":
		return kind + " " + w.Vendor + ":" + w.Product
	case w.Vendor != "" || w.Product != "":
		return kind + " " + cmp.Or(w.Vendor, "*") + ":" + cmp.Or(w.Product, "*")
	case w.Class != "":
		return kind + " of " + string(w.Class)
	}
	return kind
}
