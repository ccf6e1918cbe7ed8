package host

import (
	"maps"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Words are the host's NUMA cells as package numa judges them; WriteCells is the other way.
func (r Report) Resources() numa.Host {
	h := numa.Host{Limits: numa.Limits{CPU: r.CPURatio, Memory: r.MemRatio}}
	for _, c := range r.Cells {
		w := numa.Cell{ID: c.ID, Socket: c.Socket, CPUs: c.CPUs, Dedicated: c.Dedicated, Siblings: c.Siblings, MemoryMB: c.MemoryMB,
			Pinned: c.Pinned, Floating: c.Floating, UsedMemory: c.UsedMemory}
		for _, p := range c.Pages {
			w.Pages = append(w.Pages, numa.Pages(p))
		}
		h.Cells = append(h.Cells, w)
	}
	return h
}

// WriteCells are NUMA cells as a report has them.
func WriteCells(cells []numa.Cell) []Cell {
	var out []Cell
	for _, w := range cells {
		c := Cell{ID: w.ID, Socket: w.Socket, CPUs: w.CPUs, Dedicated: w.Dedicated, Siblings: w.Siblings, MemoryMB: w.MemoryMB,
			Pinned: w.Pinned, Floating: w.Floating, UsedMemory: w.UsedMemory}
		for _, p := range w.Pages {
			c.Pages = append(c.Pages, Pages(p))
		}
		out = append(out, c)
	}
	return out
}

// ReadParts are a guest's NUMA cells as words; WriteParts is the other way.
func ReadGuestCells(parts []GuestCell) []numa.Part {
	var out []numa.Part
	for _, p := range parts {
		out = append(out, numa.Part{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: numa.Threads(p.Threads), MemoryMB: p.MemoryMB,
			PageKB: p.PageKB, Emulator: p.Emulator})
	}
	return out
}

// WriteParts are a guest's NUMA cells as an assignment has them.
func WriteGuestCells(parts []numa.Part) []GuestCell {
	var out []GuestCell
	for _, p := range parts {
		out = append(out, GuestCell{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: string(p.Threads), MemoryMB: p.MemoryMB,
			PageKB: p.PageKB, Emulator: p.Emulator})
	}
	return out
}

// ReadPlaced are the places of a guest's NUMA cells as words; WritePlaced is the other way.
func ReadPlaced(placed []PlacedCell) []numa.Placed {
	var out []numa.Placed
	for _, p := range placed {
		out = append(out, numa.Placed{Node: p.Node, CPUs: maps.Clone(p.CPUs), Emulator: slices.Clone(p.Emulator), PageKB: p.PageKB})
	}
	return out
}

// WritePlaced are the places of a guest's NUMA cells as an agent tells them.
func WritePlaced(placed []numa.Placed) []PlacedCell {
	var out []PlacedCell
	for _, p := range placed {
		out = append(out, PlacedCell{Node: p.Node, CPUs: maps.Clone(p.CPUs), Emulator: slices.Clone(p.Emulator), PageKB: p.PageKB})
	}
	return out
}

// WriteRequest is a PCI request as an assignment has it; Words is the other way.
func WriteRequest(r pci.Request) Request {
	out := Request{ID: r.ID, Alias: r.Alias, Count: r.Count, VendorID: r.Want.Vendor, ProductID: r.Want.Product, Type: string(r.Want.Type),
		Class: string(r.Want.Class), Required: texts(r.Want.Required), Forbidden: texts(r.Want.Forbidden), Policy: string(r.Policy),
		Migratable: string(r.Want.LiveMigratable), Providers: texts(r.Providers)}
	for _, w := range r.Or {
		out.Or = append(out.Or, Or{VendorID: w.Vendor, ProductID: w.Product, Class: string(w.Class), Migratable: string(w.LiveMigratable)})
	}
	return out
}

// Words is a PCI request of an assignment as the agent judges it.
func (r Request) PCIRequest() pci.Request {
	want := pci.Want{Vendor: r.VendorID, Product: r.ProductID, Type: pci.Type(r.Type), Class: resource.Class(r.Class),
		Required: words[resource.Trait](r.Required), Forbidden: words[resource.Trait](r.Forbidden), LiveMigratable: pci.Flag(r.Migratable)}
	out := pci.Request{ID: r.ID, Alias: r.Alias, Count: r.Count, Want: want, Policy: pci.Policy(r.Policy),
		Providers: words[resource.ProviderID](r.Providers)}
	for _, o := range r.Or {
		w := want
		w.Vendor, w.Product, w.Class, w.LiveMigratable = o.VendorID, o.ProductID, resource.Class(o.Class), pci.Flag(o.Migratable)
		out.Or = append(out.Or, w)
	}
	return out
}

// texts and words turn lists of words into lists of texts and back; an empty one is nil.
func texts[T ~string](list []T) []string { return words[string](list) }

func words[T, F ~string](list []F) []T {
	var out []T
	for _, w := range list {
		out = append(out, T(w))
	}
	return out
}
