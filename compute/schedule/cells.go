package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// Room is the host's NUMA cells with what the guests placed there have, also those that the report does not show yet. free are the
// devices that are left.
func (h Host) Room(free []Device, pack bool) numa.Host {
	room := numa.Host{Cells: h.Cells, Limits: h.Limits, Pack: pack, Free: map[int]int{}}
	for _, d := range free {
		if !d.ForPorts { // as the agent counts when it places the guest
			room.Free[d.NUMANode]++
		}
	}
	for _, g := range h.Guests {
		if len(g.Cells) == 0 || slices.Contains(h.Counted, g.ID) {
			continue
		}
		placed := g.Placed
		if len(placed) == 0 { // its agent will place it much like this
			placed, _ = numa.Fit(room, numa.Guest{Parts: g.Cells, Devices: len(g.Requests) > 0}, numa.Judge{})
		}
		room.Cells = numa.Use(room.Cells, g.Cells, placed)
	}
	return room
}

// judgeCells is the NUMATopologyFilter: do the guest's cells lie on the host's so that the free devices near them serve all slots? It
// is judged on the devices that are left for this candidate, so that a near device which cannot be had hides no other.
func (b bid) judgeCells(room numa.Host, parts []numa.Part) Refusal {
	judge := numa.Judge{}
	if len(b.slots) > 0 {
		judge.Accept, judge.Kind = b.near, b.kinds()
	}
	_, refusal := numa.Fit(room, numa.Guest{Parts: parts, Devices: len(b.slots) > 0}, judge)
	if refusal.Reason == "" {
		return Refusal{}
	}
	return Refusal{Filter: FilterNUMA, Reason: refusal.Reason, Nearest: refusal.Nearest, Shortfall: refusal.Miss}
}

// near says whether the free devices serve all slots for a guest on these nodes, by the NUMA policy of each request.
func (b bid) near(nodes []int) numa.Refusal {
	picked, missing := b.fit(func(r *pci.Request, d Device) int { return numa.Rank(r.Policy, d.NUMANode, nodes, b.host.Cells) })
	if missing < 0 {
		return numa.Refusal{}
	}
	short := b.slots[missing].request
	out := numa.Refusal{Miss: unserved(picked),
		Reason: fmt.Sprintf("no free %s near enough to the guest's NUMA nodes (numa_policy %s)", words(short.Want), cmp.Or(short.Policy, pci.Legacy))}
	if n := slices.Index(b.serves[missing], true); n >= 0 {
		out.Nearest = fmt.Sprintf("the guest fits on %s, a device is on %s", nodeWords(nodes), nodeWords([]int{b.devices[n].NUMANode}))
	}
	return out
}

func nodeWords(nodes []int) string {
	if len(nodes) == 1 && nodes[0] == pci.NoNUMA {
		return "no known node"
	}
	noun := "node"
	if len(nodes) > 1 {
		noun = "nodes"
	}
	return noun + " " + strings.Trim(fmt.Sprint(nodes), "[]")
}

// kinds words each node by what near can see of it: its socket, and which slots its devices could serve.
func (b bid) kinds() func(int) string {
	serving := map[int][]string{}
	for n, d := range b.devices {
		var text strings.Builder
		for s := range b.slots {
			fmt.Fprintf(&text, "%t ", b.serves[s][n])
		}
		if d.Type == pci.Physical || d.Parent != nil && b.offersPF(*d.Parent) { // one that others exclude is like no other
			text.WriteString(d.Address.String())
		}
		serving[d.NUMANode] = append(serving[d.NUMANode], text.String())
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

// offersPF says whether a PF could serve some slot too.
func (b bid) offersPF(at pci.Address) bool {
	return slices.ContainsFunc(b.devices, func(d Device) bool { return d.Address == at })
}
