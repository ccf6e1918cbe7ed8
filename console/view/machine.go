package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// Socket is a socket of a machine with its NUMA nodes.
type Socket struct {
	Name  string
	Nodes []NodeBox
}

// NodeBox is a NUMA node of a machine.
type NodeBox struct {
	Name   string
	CPUs   *CPUBox // nil: the node gives no CPUs to guests
	Bars   []Bar
	Guests []NodeGuest // guests with NUMA cells, by name
	Tree   []*Branch   // the PCIe ports and cards
}

// Bar is a bar of an amount.
type Bar struct {
	Name, Text string
	Share      int // in percent
}

// CPUBox is the drawing of the CPUs of a node: a column for each core, a box for each of its threads.
type CPUBox struct {
	Width, Height int
	Paths         []CPUPath
	Text          string // the count of pinned threads
	Label         string // what the drawing shows
}

// CPUPath draws CPUs in one state: those of one guest, or those that no guest has for itself.
type CPUPath struct {
	Path
	Consumer resource.ConsumerID // empty: none
}

// Branch is a PCIe port with what is below it, or a card.
type Branch struct {
	Address string
	Card    *Card // nil: it is a port
	Below   []*Branch
}

// machine returns the sockets of a machine as its agent reports it. Devices of an unknown node are in a socket of their
// own.
func (c *Cloud) machine(h *Host) (list []Socket) {
	r := h.Report
	sockets := map[int]*Socket{}
	nodes := map[int]int{} // socket by node
	for _, n := range r.Nodes {
		nodes[n.ID] = n.Socket
	}
	cells := map[int]host.Cell{}
	for _, cell := range r.Cells {
		nodes[cell.ID], cells[cell.ID] = cell.Socket, cell
	}
	trees := c.trees(h)
	for node := range trees {
		if _, known := nodes[node]; !known {
			nodes[node] = -1
		}
	}
	order := slices.SortedFunc(maps.Keys(nodes), func(a, b int) int { // the node that is not known comes last
		return cmp.Compare(uint(a), uint(b))
	})
	for _, node := range order {
		s := sockets[nodes[node]]
		if s == nil {
			s = &Socket{Name: fmt.Sprintf("Socket %d", nodes[node])}
			if nodes[node] < 0 {
				s.Name = "Socket not known"
			}
			sockets[nodes[node]] = s
		}
		box := NodeBox{Name: fmt.Sprintf("NUMA node %d", node), Tree: trees[node]}
		if node < 0 {
			box.Name = "NUMA node not known"
		}
		if cell, known := cells[node]; known {
			box.Guests = c.guestsOf(r, node)
			box.CPUs, box.Bars = cpuBox(cell, box.Guests), bars(cell)
		}
		if box.CPUs != nil || len(box.Bars) > 0 || len(box.Tree) > 0 {
			s.Nodes = append(s.Nodes, box)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sockets)) {
		if len(sockets[id].Nodes) > 0 {
			list = append(list, *sockets[id])
		}
	}
	slices.SortStableFunc(list, func(a, b Socket) int { // what is not known comes last
		return cmp.Compare(len(a.Name), len(b.Name))
	})
	return list
}

// rooms returns the NUMA nodes of a host that give CPUs or memory to guests, without their devices.
func (c *Cloud) rooms(h *Host) (list []NodeBox) {
	for _, cell := range h.Report.Cells {
		box := NodeBox{Name: fmt.Sprintf("NUMA node %d", cell.ID), Bars: bars(cell)}
		if box.CPUs = cpuBox(cell, c.guestsOf(h.Report, cell.ID)); box.CPUs != nil || len(box.Bars) > 0 {
			list = append(list, box)
		}
	}
	return list
}

// bars returns the bars of the memory and the huge pages of a cell.
func bars(cell host.Cell) (list []Bar) {
	if cell.MemoryMB > 0 {
		a := Amount{cell.UsedMemory, cell.MemoryMB}
		list = append(list, Bar{"Memory of NUMA guests", a.Text() + " MiB", a.Share()})
	}
	for _, p := range cell.Pages {
		if p.Total == 0 && p.Used == 0 {
			continue // a size that the kernel knows and has no pages of
		}
		a := Amount{p.Used, p.Total}
		list = append(list, Bar{"Pages of " + size(p.SizeKB), a.Text(), a.Share()})
	}
	return list
}

// The drawing of CPUs, in pixels.
const (
	cpuWidth  = 324
	cpuPitch  = 19 // of columns, at most
	cpuHeight = 10
	cpuRow    = 12
)

// cpuBox draws the CPUs of a cell, which has these guests; nil if it gives none to guests.
func cpuBox(cell host.Cell, guests []NodeGuest) *CPUBox {
	cores := slices.Concat(coresOf(cell.CPUs, cell), coresOf(cell.Dedicated, cell))
	if len(cores) == 0 {
		return nil
	}
	pitch, rows := min(cpuPitch, float64(cpuWidth)/float64(len(cores))), 0
	owner := map[int]resource.ConsumerID{}
	for _, g := range guests {
		for _, thread := range g.threads {
			owner[thread] = g.Consumer
		}
	}
	paths := map[CPUPath]*strings.Builder{}
	for i, core := range cores {
		rows = max(rows, len(core))
		for j, thread := range core {
			path := CPUPath{Path: Path{Class: "f"}}
			switch {
			case slices.Contains(cell.CPUs, thread):
				path.Class = "sh"
			case slices.Contains(cell.Pinned, thread):
				path.Class, path.Consumer = "h", owner[thread]
			}
			if paths[path] == nil {
				paths[path] = &strings.Builder{}
			}
			width := max(pitch-3, 1)
			fmt.Fprintf(paths[path], "M%.1f %.1fh%.1fv%dh-%.1fz", .5+float64(i)*pitch, .5+float64(j*cpuRow), width,
				cpuHeight, width)
		}
	}
	box := &CPUBox{Width: cpuWidth, Height: rows * cpuRow}
	for path, d := range paths {
		path.D = d.String()
		box.Paths = append(box.Paths, path)
	}
	slices.SortFunc(box.Paths, func(a, b CPUPath) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Consumer, b.Consumer))
	})
	box.Text = fmt.Sprintf("%d/%d pinned", len(cell.Pinned), len(cell.Dedicated))
	box.Label = fmt.Sprintf("%d shared CPUs (%s) with %d CPUs of guests with NUMA cells; %d of %d dedicated CPUs (%s) "+
		"are pinned", len(cell.CPUs), ranges(cell.CPUs), cell.Floating, len(cell.Pinned), len(cell.Dedicated),
		ranges(cell.Dedicated))
	return box
}

// coresOf returns threads by core, as the cell has them.
func coresOf(threads []int, cell host.Cell) (cores [][]int) {
	done := map[int]bool{}
	for _, t := range threads {
		if done[t] {
			continue
		}
		core := []int{t}
		for _, group := range cell.Siblings {
			if slices.Contains(group, t) {
				core = slices.DeleteFunc(slices.Clone(group), func(other int) bool {
					return !slices.Contains(threads, other)
				})
			}
		}
		for _, one := range core {
			done[one] = true
		}
		cores = append(cores, core)
	}
	return cores
}
