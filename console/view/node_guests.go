package view

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/resource"
)

// NodeGuest is what a guest with NUMA cells has of one node.
type NodeGuest struct {
	fleet.Holder
	Server  bool   // compute has a server with this id
	CPUs    string // pinned threads, or how many shared CPUs
	Memory  string // pages, or MiB of small pages
	threads []int  // that it has for itself
}

// guestsOf returns the guests with cells on a node, by name.
func (c *Cloud) guestsOf(r *host.Report, node int) (list []NodeGuest) {
	for _, guest := range r.Counted {
		g := NodeGuest{Holder: c.Fleet.Holder(resource.ConsumerID(guest.ID), 0)}
		g.Server = c.Fleet.Server[g.Consumer] != nil
		shared, emulator, small, pages := 0, []int{}, 0, map[int]int{}
		here := false
		for i, placed := range guest.Placed {
			if placed.Node != node || i >= len(guest.Cells) {
				continue
			}
			here = true
			cell := guest.Cells[i]
			g.threads = append(g.threads, slices.Collect(maps.Values(placed.CPUs))...)
			emulator = append(emulator, placed.Emulator...)
			shared += len(cell.VCPUs) - len(placed.CPUs)
			if placed.PageKB > 0 {
				pages[placed.PageKB] += cell.MemoryMB * 1024 / placed.PageKB
			} else {
				small += cell.MemoryMB
			}
		}
		if !here {
			continue
		}
		g.CPUs, g.Memory = cpusText(g.threads, emulator, shared), memoryText(small, pages)
		g.threads = append(g.threads, emulator...)
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b NodeGuest) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.Consumer, b.Consumer))
	})
	return list
}

// cpusText returns the CPUs that a guest has of a node: threads of its own, those of its emulator, and shared CPUs.
func cpusText(threads, emulator []int, shared int) string {
	text := ""
	add := func(part string) {
		if text != "" {
			text += ", "
		}
		text += part
	}
	if len(threads) > 0 {
		add("CPUs " + ranges(slices.Sorted(slices.Values(threads))))
	}
	if len(emulator) > 0 {
		add("emulator on " + ranges(slices.Sorted(slices.Values(emulator))))
	}
	if shared > 0 {
		add(Plural(shared, "shared CPU"))
	}
	return text
}

// memoryText returns the memory that a guest has of a node: MiB of small pages, and pages by size in KiB.
func memoryText(small int, pages map[int]int) string {
	text := ""
	if small > 0 {
		text = Number(small) + " MiB"
	}
	for _, kb := range slices.Sorted(maps.Keys(pages)) {
		if text != "" {
			text += ", "
		}
		text += Number(pages[kb]) + " × " + size(kb)
	}
	return text
}
