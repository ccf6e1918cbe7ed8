package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// Room returns the host's NUMA cells with the usage of its guests: those that the agent has on them, and those placed
// there that the last report does not contain. free are the free devices.
func (h Host) Room(free []pci.Offered, pack bool) numa.Host {
	room := numa.Host{Cells: h.UsedCells(), Nodes: h.Nodes, Limits: h.Limits, Pack: pack, Free: map[int]int{}}
	for _, d := range free {
		if !d.ForPorts { // the agent counts the same way when it places the guest
			for _, n := range h.Nodes.Near(d.NUMANode) {
				room.Free[n]++
			}
		}
	}
	var unplaced []Guest
	for _, g := range h.Guests {
		switch {
		case len(g.Cells) == 0 || slices.ContainsFunc(h.Counted, func(c CountedGuest) bool { return c.ID == g.ID }):
		case len(g.Placed) == 0:
			unplaced = append(unplaced, g)
		default:
			room.Cells = numa.Use(room.Cells, g.Cells, g.Placed)
		}
	}
	for _, g := range unplaced { // the agent will place it in a similar way
		placed, _ := numa.Fit(room, numa.Guest{Cells: g.Cells, Devices: len(g.Requests) > 0}, numa.Judge{})
		room.Cells = numa.Use(room.Cells, g.Cells, placed)
	}
	return room
}

// UsedCells returns the host's NUMA cells with the usage of the guests that the agent has on them.
func (h Host) UsedCells() []numa.Cell {
	cells := h.Cells
	for _, g := range h.Counted {
		cells = numa.Use(cells, g.Cells, g.Placed)
	}
	return cells
}

// judgeCells is the NUMATopologyFilter: it refuses if the guest's cells cannot be placed on the host's so that free
// devices near them fill all slots. Only devices that are free for this candidate count.
func (b demand) judgeCells(room numa.Host, parts []numa.GuestCell) Refusal {
	judge := numa.Judge{}
	if len(b.slots) > 0 {
		judge.Accept, judge.Kind = b.checkNear, b.nodeKinds()
	}
	_, refusal := numa.Fit(room, numa.Guest{Cells: parts, Devices: len(b.slots) > 0}, judge)
	return refusalOf(refusal)
}

// refusalOf returns a refusal of the NUMATopologyFilter; both are empty if it accepts.
func refusalOf(r numa.Refusal) Refusal {
	if r.Reason == "" {
		return Refusal{}
	}
	return Refusal{Filter: FilterNUMA, Reason: r.Reason, Nearest: r.Nearest, Shortfall: r.Miss}
}

// checkNear returns why the free devices cannot fill all slots for a guest on these nodes, by the NUMA policy of each
// request. The Reason is empty if they can.
func (b demand) checkNear(nodes []int) numa.Refusal {
	picked, missing := b.near(nodes)
	if missing < 0 {
		return numa.Refusal{}
	}
	short := b.slots[missing].request
	out := numa.Refusal{
		Miss: unservedShare(picked),
		Reason: fmt.Sprintf("no free %s near enough to the guest's NUMA nodes (numa_policy %s)",
			describeDevice(short.Requirement), cmp.Or(short.Policy, pci.Legacy)),
	}
	if n := slices.Index(b.serves[missing], true); n >= 0 {
		out.Nearest = fmt.Sprintf("the guest fits on %s, a device is on %s",
			describeNodes(nodes), b.host.Nodes.Describe(b.devices[n].NUMANode))
	}
	return out
}

// describeNodes returns NUMA node numbers as text.
func describeNodes(nodes []int) string {
	noun := "node"
	if len(nodes) > 1 {
		noun = "nodes"
	}
	return noun + " " + strings.Trim(fmt.Sprint(nodes), "[]")
}

// nodeKinds returns a function that returns the same text for nodes that checkNear cannot distinguish. The text
// contains the socket of a node and the slots that its devices can fill.
func (b demand) nodeKinds() func(int) string {
	serving := map[int][]string{}
	for n, d := range b.devices {
		var text strings.Builder
		for s := range b.slots {
			fmt.Fprintf(&text, "%t ", b.serves[s][n])
		}
		near := b.host.Nodes.Near(d.NUMANode)
		// It is unique if it excludes other devices, or if several nodes share it.
		if d.Type == pci.Physical || d.Parent != nil && b.offersPF(*d.Parent) || len(near) > 1 {
			text.WriteString(d.Address.String())
		}
		for _, n := range near {
			serving[n] = append(serving[n], text.String())
		}
	}
	sockets := slices.ContainsFunc(b.slots, func(s slot) bool { return s.request.Policy == pci.Socket })
	kind := map[int]string{}
	for _, c := range b.host.Cells {
		list := serving[c.ID]
		slices.Sort(list)
		kind[c.ID] = strings.Join(list, ",")
		if sockets {
			kind[c.ID] += fmt.Sprintf(" socket %d", c.Socket)
		}
	}
	return func(node int) string { return kind[node] }
}

// offersPF reports whether the device at this address can fill a slot.
func (b demand) offersPF(at pci.Address) bool {
	return slices.ContainsFunc(b.devices, func(d pci.Offered) bool { return d.Address == at })
}
