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
		room.Free[d.NUMANode]++
	}
	for _, g := range h.Guests {
		if len(g.Parts) == 0 || slices.Contains(h.Counted, g.ID) {
			continue
		}
		placed := g.Placed
		if len(placed) == 0 { // its agent will place it much like this
			placed, _ = numa.Fit(room, numa.Guest{Parts: g.Parts, Devices: len(g.Requests) > 0}, numa.Judge{})
		}
		room.Cells = numa.Use(room.Cells, g.Parts, placed)
	}
	return room
}

// judgeCells is the NUMATopologyFilter: do the guest's cells lie on the host's so that the free devices near them serve all slots? It
// is judged on the devices that are left for this candidate, so that a near device which cannot be had hides no other.
func (h Host) judgeCells(room numa.Host, parts []numa.Part, free []Device, slots []slot) Refusal {
	judge := numa.Judge{}
	if len(slots) > 0 {
		judge.Accept = func(nodes []int) numa.Refusal { return h.near(nodes, free, slots) }
		judge.Kind = h.kinds(free, slots)
	}
	_, refusal := numa.Fit(room, numa.Guest{Parts: parts, Devices: len(slots) > 0}, judge)
	if refusal.Reason == "" {
		return Refusal{}
	}
	return Refusal{Step: StepCells, Reason: refusal.Reason, Nearest: refusal.Nearest, Miss: refusal.Miss}
}

// near says whether the free devices serve all slots for a guest on these nodes, by the NUMA policy of each request.
func (h Host) near(nodes []int, free []Device, slots []slot) numa.Refusal {
	picked, missing := pci.Fit(bare(free), len(slots), func(s, d int) int {
		if h.rank(free[d], slots[s]) < 0 {
			return -1
		}
		return numa.Rank(slots[s].request.Policy, free[d].NUMANode, nodes, h.Cells)
	})
	if missing < 0 {
		return numa.Refusal{}
	}
	short := slots[missing]
	out := numa.Refusal{Miss: unserved(picked),
		Reason: fmt.Sprintf("no free %s near enough to the guest's NUMA nodes (numa_policy %s)", words(short.request.Want), cmp.Or(short.request.Policy, pci.Legacy))}
	for _, d := range free {
		if h.rank(d, short) >= 0 {
			out.Nearest = fmt.Sprintf("the guest fits on %s, %s is on %s", nodeWords(nodes), d.Address, nodeWords([]int{d.NUMANode}))
			break
		}
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
func (h Host) kinds(free []Device, slots []slot) func(int) string {
	serving := map[int][]string{}
	for _, d := range free {
		var b strings.Builder
		for _, s := range slots {
			fmt.Fprint(&b, h.rank(d, s)+1)
		}
		if strings.Trim(b.String(), "0") == "" {
			continue
		}
		if d.Parent != nil || d.Type == pci.Physical { // one that others exclude is like no other
			b.WriteString(d.Address.String())
		}
		serving[d.NUMANode] = append(serving[d.NUMANode], b.String())
	}
	sockets := slices.ContainsFunc(slots, func(s slot) bool { return s.request.Policy == pci.Socket })
	kind := map[int]string{}
	for _, c := range h.Cells {
		list := serving[c.ID]
		slices.Sort(list)
		kind[c.ID] = strings.Join(list, ",")
		if sockets {
			kind[c.ID] += fmt.Sprintf(" socket %d", c.Socket)
		}
	}
	return func(node int) string { return kind[node] }
}
