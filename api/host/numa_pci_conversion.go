package host

import (
	"maps"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Resources returns the host's NUMA cells, its nodes and allocation ratios in the types of package numa. WriteCells and
// WriteNodes are the inverse.
func (r Report) Resources() numa.Host {
	h := numa.Host{Limits: numa.Limits{CPU: r.CPURatio, Memory: r.MemRatio}}
	for _, c := range r.Cells {
		w := numa.Cell{ID: c.ID, Socket: c.Socket, CPUs: c.CPUs, Dedicated: c.Dedicated, Siblings: c.Siblings,
			MemoryMB: c.MemoryMB, Pinned: c.Pinned, Floating: c.Floating, UsedMemory: c.UsedMemory}
		for _, p := range c.Pages {
			w.Pages = append(w.Pages, numa.Pages(p))
		}
		h.Cells = append(h.Cells, w)
	}
	for _, n := range r.Nodes {
		h.Nodes = append(h.Nodes, numa.Node(n))
	}
	return h
}

// WriteNodes returns the NUMA nodes of a kernel in the type of a report.
func WriteNodes(nodes numa.Topology) (out []Node) {
	for _, n := range nodes {
		out = append(out, Node(n))
	}
	return out
}

// WriteCells returns NUMA cells in the type of a report.
func WriteCells(cells []numa.Cell) []Cell {
	var out []Cell
	for _, w := range cells {
		c := Cell{ID: w.ID, Socket: w.Socket, CPUs: w.CPUs, Dedicated: w.Dedicated, Siblings: w.Siblings,
			MemoryMB: w.MemoryMB, Pinned: w.Pinned, Floating: w.Floating, UsedMemory: w.UsedMemory}
		for _, p := range w.Pages {
			c.Pages = append(c.Pages, Pages(p))
		}
		out = append(out, c)
	}
	return out
}

// ReadGuestCells converts a guest's NUMA cells from an assignment. WriteGuestCells is the inverse.
func ReadGuestCells(parts []GuestCell) []numa.GuestCell {
	var out []numa.GuestCell
	for _, p := range parts {
		out = append(out, numa.GuestCell{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: numa.Threads(p.Threads),
			MemoryMB: p.MemoryMB, PageKB: p.PageKB, Emulator: p.Emulator})
		if p.On != nil {
			out[len(out)-1].On = new(numa.CellChoice(*p.On))
		}
	}
	return out
}

// WriteGuestCells converts a guest's NUMA cells for an assignment.
func WriteGuestCells(parts []numa.GuestCell) []GuestCell {
	var out []GuestCell
	for _, p := range parts {
		out = append(out, GuestCell{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: string(p.Threads), MemoryMB: p.MemoryMB,
			PageKB: p.PageKB, Emulator: p.Emulator})
		if p.On != nil {
			out[len(out)-1].On = new(CellChoice(*p.On))
		}
	}
	return out
}

// ReadPlaced converts the placement of a guest's NUMA cells from a report. WritePlaced is the inverse.
func ReadPlaced(placed []PlacedCell) []numa.Placed {
	var out []numa.Placed
	for _, p := range placed {
		out = append(out, numa.Placed{Node: p.Node, CPUs: maps.Clone(p.CPUs),
			Emulator: slices.Clone(p.Emulator), PageKB: p.PageKB})
	}
	return out
}

// WritePlaced converts the placement of a guest's NUMA cells for a report.
func WritePlaced(placed []numa.Placed) []PlacedCell {
	var out []PlacedCell
	for _, p := range placed {
		out = append(out, PlacedCell{Node: p.Node, CPUs: maps.Clone(p.CPUs),
			Emulator: slices.Clone(p.Emulator), PageKB: p.PageKB})
	}
	return out
}

// WriteRequest converts a PCI request for an assignment. PCIRequest is the inverse.
func WriteRequest(r pci.Request) Request {
	out := Request{ID: r.ID, Alias: r.Alias, Count: r.Count, VendorID: r.Requirement.Vendor,
		ProductID: r.Requirement.Product,
		Type:      string(r.Requirement.Type), Class: string(r.Requirement.Class), Required: texts(r.Requirement.Required),
		Forbidden: texts(r.Requirement.Forbidden), Policy: string(r.Policy), Migratable: string(r.Requirement.LiveMigratable),
		Providers: texts(r.Providers)}
	if r.Port != nil {
		port := RequestPort(*r.Port)
		out.Port = &port
	}
	if r.Match != nil {
		match := RequestMatch(*r.Match)
		out.Match = &match
	}
	for _, w := range r.Alternatives {
		out.Or = append(out.Or, Or{VendorID: w.Vendor, ProductID: w.Product, Class: string(w.Class),
			Migratable: string(w.LiveMigratable)})
	}
	return out
}

// PCIRequest converts a PCI request from an assignment.
func (r Request) PCIRequest() pci.Request {
	want := pci.Requirement{Vendor: r.VendorID, Product: r.ProductID, Type: pci.Type(r.Type),
		Class:    resource.Class(r.Class),
		Required: convert[resource.Trait](r.Required), Forbidden: convert[resource.Trait](r.Forbidden),
		LiveMigratable: pci.Flag(r.Migratable)}
	out := pci.Request{ID: r.ID, Alias: r.Alias, Count: r.Count, Requirement: want, Policy: pci.NUMAPolicy(r.Policy),
		Providers: convert[resource.ProviderID](r.Providers)}
	if r.Port != nil {
		port := pci.PortNeeds(*r.Port)
		out.Port = &port
	}
	if r.Match != nil {
		match := pci.Match(*r.Match)
		out.Match = &match
	}
	for _, o := range r.Or {
		w := want
		w.Vendor, w.Product, w.Class = o.VendorID, o.ProductID, resource.Class(o.Class)
		w.LiveMigratable = pci.Flag(o.Migratable)
		out.Alternatives = append(out.Alternatives, w)
	}
	return out
}

// Strings converts a list of a string type to strings. The result is never nil, so its JSON is never null.
func Strings[T ~string](list []T) []string { return append([]string{}, texts(list)...) }

// texts converts a list of a string type to strings; an empty list becomes nil.
func texts[T ~string](list []T) []string { return convert[string](list) }

// convert converts a list between string types; an empty list becomes nil.
func convert[T, F ~string](list []F) []T {
	var out []T
	for _, w := range list {
		out = append(out, T(w))
	}
	return out
}
