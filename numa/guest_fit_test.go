package numa_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/numa"
)

// cell returns a host cell with a number of threads for dedicated CPUs, 8 GiB of memory and two shared threads.
func cell(id, threads int) numa.Cell {
	c := numa.Cell{ID: id, Socket: id, CPUs: []int{id*100 + 90, id*100 + 91}, MemoryMB: 8192}
	for i := range threads {
		c.Dedicated = append(c.Dedicated, id*100+i)
	}
	return c
}

// smt groups the threads into cores of two: 0 and 1, 2 and 3, …
func smt(c numa.Cell) numa.Cell {
	for i := 0; i+1 < len(c.Dedicated); i += 2 {
		c.Siblings = append(c.Siblings, c.Dedicated[i:i+2])
	}
	return c
}

func pinned(c numa.Cell, threads ...int) numa.Cell {
	c.Pinned = threads
	return c
}

// guestCell returns a guest cell with n CPUs, all dedicated or all shared.
func guestCell(n int, dedicated bool) numa.GuestCell {
	p := numa.GuestCell{MemoryMB: 1024}
	for i := range n {
		p.VCPUs = append(p.VCPUs, i)
	}
	if dedicated {
		p.Dedicated = p.VCPUs
	}
	return p
}

func nodes(placed []numa.Placed) (list []int) {
	for _, p := range placed {
		list = append(list, p.Node)
	}
	return list
}

func TestFitReportsTheNearestCell(t *testing.T) {
	host := numa.Host{Cells: []numa.Cell{cell(0, 1), cell(1, 3), cell(2, 2)}}
	_, refusal := numa.Fit(host, numa.Guest{Cells: []numa.GuestCell{guestCell(1, true), guestCell(4, true)}}, numa.Judge{})
	if refusal.Reason != "no NUMA node has 4 threads for dedicated CPUs left for the guest's cell 1" ||
		refusal.Nearest != "node 1 has 3" {
		t.Errorf("%+v", refusal)
	}
	_, refusal = numa.Fit(host, numa.Guest{Cells: []numa.GuestCell{guestCell(3, true), guestCell(3, true)}}, numa.Judge{})
	if refusal.Reason != "no 2 NUMA nodes for the guest's cells together" ||
		refusal.Nearest != "1 of them fit at a time" {
		t.Errorf("%+v", refusal)
	}
	_, refusal = numa.Fit(host, numa.Guest{Cells: make([]numa.GuestCell, 4)}, numa.Judge{})
	if refusal.Reason != "fewer than 4 NUMA nodes" {
		t.Errorf("%+v", refusal)
	}
	if _, refusal = numa.Fit(numa.Host{}, numa.Guest{Cells: make([]numa.GuestCell, 1)},
		numa.Judge{}); refusal.Reason != "the host reports no NUMA nodes" {
		t.Errorf("%+v", refusal)
	}
	if placed, refusal := numa.Fit(numa.Host{}, numa.Guest{}, numa.Judge{}); placed != nil || refusal.Reason != "" {
		t.Errorf("a guest without cells does not fit: %v %+v", placed, refusal)
	}
}

// TestOrderOfCells tests the order in which cells are tried (docs/behaviour/nova-pci.md 5.6 and Z17): by free PCI
// devices, then CPUs, then memory; spread or pack; only if there are more host cells than guest cells.
func TestOrderOfCells(t *testing.T) {
	// Node 0 has the most memory left, node 1 the most CPUs of both kinds, node 2 the least of all.
	a, b, c := cell(0, 4), cell(1, 4), cell(2, 4)
	a.Floating, a.Pinned = 1, []int{0}
	b.UsedMemory = 1024
	c.Floating, c.Pinned, c.UsedMemory = 2, []int{200, 201}, 2048
	even := []numa.Cell{cell(0, 4), cell(1, 4), cell(2, 4)}
	even[1].UsedMemory, even[2].UsedMemory = 512, 1024
	devices := map[int]int{0: 2, 1: 2, 2: 1}
	for _, o := range []struct {
		name      string
		cells     []numa.Cell
		free      map[int]int
		pack      bool
		dedicated bool
		devices   bool
		want      int
	}{
		{"Z17 no pci stats, shared, spread: CPUs before memory", []numa.Cell{a, b, c}, nil, false, false, false, 1},
		{"Z17 no pci stats, dedicated, spread", []numa.Cell{a, b, c}, nil, false, true, false, 1},
		{"Z17 no pci stats, shared, pack", []numa.Cell{a, b, c}, nil, true, false, false, 2},
		{"Z17 no pci stats, dedicated, pack", []numa.Cell{a, b, c}, nil, true, true, false, 2},
		{"Z17 equal CPUs: memory, spread", even, nil, false, true, false, 0},
		{"Z17 equal CPUs: memory, pack", even, nil, true, true, false, 2},
		{"Z17 pci not requested, spread: the fewest devices", []numa.Cell{a, b, c}, devices, false, true, false, 2},
		{"Z17 pci not requested, shared", []numa.Cell{a, b, c}, devices, false, false, false, 2},
		{"Z17 pci requested: the most devices, then CPUs", []numa.Cell{a, b, c}, devices, false, true, true, 1},
		{"Z17 pci requested, shared", []numa.Cell{a, b, c}, devices, false, false, true, 1},
		{"Z17 pci requested, pack: the most devices, then the fullest", []numa.Cell{a, b, c}, devices, true, true, true, 0},
	} {
		t.Run(o.name, func(t *testing.T) {
			host := numa.Host{Cells: o.cells, Free: o.free, Pack: o.pack, Limits: numa.Limits{CPU: 4}}
			placed, refusal := numa.Fit(host, numa.Guest{Cells: []numa.GuestCell{guestCell(1, o.dedicated)}, Devices: o.devices},
				numa.Judge{})
			if refusal.Reason != "" || placed[0].Node != o.want {
				t.Errorf("%+v %v, want node %d", placed, refusal, o.want)
			}
		})
	}
	full := numa.Host{Cells: []numa.Cell{cell(1, 2), cell(0, 2)}, Free: map[int]int{0: 5}}
	guest := numa.Guest{Cells: []numa.GuestCell{guestCell(1, true), guestCell(1, true)}}
	if placed, _ := numa.Fit(full, guest, numa.Judge{}); !slices.Equal(nodes(placed), []int{0, 1}) {
		t.Errorf("as many guest cells as host cells are not placed in order: %v", nodes(placed))
	}
}

// TestGuestsWithoutDevicesAvoidNodesWithDevices tests that guests without devices fill the nodes without devices and
// leave node 0, which has one, free (N10, N11).
func TestGuestsWithoutDevicesAvoidNodesWithDevices(t *testing.T) {
	host := numa.Host{
		Cells: []numa.Cell{cell(0, 2), cell(1, 2), cell(2, 2), cell(3, 2)},
		Free:  map[int]int{0: 1},
		Pack:  true,
	}
	for i := range host.Cells {
		host.Cells[i].Pages = []numa.Pages{{SizeKB: 2048, Total: 1024}}
	}
	guest := guestCell(2, true)
	guest.PageKB = 2048
	for _, want := range []int{1, 2, 3} {
		placed, refusal := numa.Fit(host, numa.Guest{Cells: []numa.GuestCell{guest}}, numa.Judge{})
		if refusal.Reason != "" || placed[0].Node != want {
			t.Fatalf("%+v %+v, want node %d", placed, refusal, want)
		}
		host.Cells = numa.Use(host.Cells, []numa.GuestCell{guest}, placed)
	}
	// A guest with a device uses the node of the device (N12).
	if placed, _ := numa.Fit(host, numa.Guest{Cells: []numa.GuestCell{guest}, Devices: true},
		numa.Judge{}); placed[0].Node != 0 {
		t.Errorf("with a device: %+v", placed)
	}
}

// TestFitUsesTheNearestSolution tests that of several solutions the nearest is returned, not the first.
func TestFitUsesTheNearestSolution(t *testing.T) {
	host := numa.Host{Cells: []numa.Cell{cell(0, 2), cell(1, 2), cell(2, 2)}, Free: map[int]int{0: 3, 1: 1}}
	for _, c := range []struct {
		far  map[int]int
		want int
	}{
		{nil, 0}, // node 0 has the most devices of any kind
		{map[int]int{0: 2, 1: 0, 2: 2}, 1},
		{map[int]int{0: 2, 1: 2, 2: 1}, 2},
		{map[int]int{0: 2, 1: 2, 2: 2}, 0},
	} {
		judge := numa.Judge{Accept: func([]int) numa.Refusal { return numa.Refusal{} }}
		if c.far != nil {
			judge.Far = func(nodes []int) int { return c.far[nodes[0]] }
		}
		placed, refusal := numa.Fit(host, numa.Guest{Cells: []numa.GuestCell{guestCell(2, true)}, Devices: true}, judge)
		if refusal.Reason != "" || len(placed) != 1 || placed[0].Node != c.want {
			t.Errorf("%v: %+v %+v", c.far, placed, refusal)
		}
	}
}

// TestEquivalentCellsAreTriedOnce tests that Fit is fast on a large host with a judge that accepts only the last
// cells.
func TestEquivalentCellsAreTriedOnce(t *testing.T) {
	var host numa.Host
	for id := range 32 {
		host.Cells = append(host.Cells, cell(id, 2))
	}
	guest := numa.Guest{Devices: true}
	for range 16 {
		guest.Cells = append(guest.Cells, guestCell(2, true))
	}
	calls := 0
	judge := numa.Judge{
		Accept: func(nodes []int) numa.Refusal {
			if calls++; slices.Contains(nodes, 30) && slices.Contains(nodes, 31) {
				return numa.Refusal{}
			}
			return numa.Refusal{Reason: "too far"}
		},
		Kind: func(node int) string { return fmt.Sprint(node >= 30, node == 31) },
	}
	placed, refusal := numa.Fit(host, guest, judge)
	if refusal.Reason != "" || !slices.Contains(nodes(placed), 30) || !slices.Contains(nodes(placed), 31) ||
		calls > 10 {
		t.Errorf("%v %+v after %d calls", nodes(placed), refusal, calls)
	}
	// Without Kind no cells are equivalent; the search is still bounded.
	calls, judge.Kind = 0, nil
	judge.Accept = func(nodes []int) numa.Refusal {
		if calls++; len(nodes) == 32 {
			return numa.Refusal{}
		}
		return numa.Refusal{Reason: "too far"}
	}
	if _, refusal = numa.Fit(host, guest, judge); refusal.Reason != "too far" ||
		!strings.Contains(refusal.Nearest, "no solution among the first") ||
		calls > 5000 {
		t.Errorf("%+v after %d calls", refusal, calls)
	}
}

// What the scheduler has chosen for a cell is kept, also if larger pages have become free since: the allocation of the
// server has the chosen ones.
func TestChosenPagesAreKept(t *testing.T) {
	host := cell(0, 2)
	host.Pages = []numa.Pages{{SizeKB: 2048, Total: 1024}, {SizeKB: 1 << 20, Total: 2}}
	full := host
	full.Pages = []numa.Pages{{SizeKB: 2048, Total: 1024, Used: 1000}, {SizeKB: 1 << 20, Total: 2}}
	other := numa.CellChoice{Node: 1}
	for _, c := range []struct {
		required int
		chosen   *numa.CellChoice
		on       numa.Cell
		want     int // the size of its pages; -1: it is refused
	}{
		{numa.AnyPages, nil, host, 1 << 20},
		{numa.AnyPages, &numa.CellChoice{}, host, 0},
		{numa.AnyPages, &numa.CellChoice{PageKB: 2048}, host, 2048},
		{numa.LargePages, nil, host, 1 << 20},
		{numa.LargePages, &numa.CellChoice{PageKB: 2048}, host, 2048},
		{numa.LargePages, &numa.CellChoice{PageKB: 2048}, full, -1},
		{numa.SmallPages, &numa.CellChoice{}, host, 0},
		{2048, &numa.CellChoice{PageKB: 2048}, host, 2048},
		{numa.AnyPages, &other, host, -1},
	} {
		guest := guestCell(1, false)
		guest.PageKB, guest.On = c.required, c.chosen
		placed, refusal := numa.Fit(numa.Host{Cells: []numa.Cell{c.on}}, numa.Guest{Cells: []numa.GuestCell{guest}},
			numa.Judge{})
		got := -1
		if refusal == (numa.Refusal{}) {
			got = placed[0].PageKB
		}
		if got != c.want {
			t.Errorf("%d, chosen %+v: pages of %d KiB (%+v), want %d", c.required, c.chosen, got, refusal, c.want)
		}
	}
}

// Small pages that are chosen for a guest which takes any are not overcommitted, as without a choice.
func TestChosenSmallPagesAreNotOvercommitted(t *testing.T) {
	host := numa.Host{Cells: []numa.Cell{cell(0, 0)}, Limits: numa.Limits{Memory: 2}}
	host.Cells[0].UsedMemory = 8000
	for required, fits := range map[int]bool{numa.SmallPages: true, numa.AnyPages: false, numa.OwnPages: false} {
		guest := guestCell(1, false)
		guest.PageKB, guest.On = required, &numa.CellChoice{}
		if _, refusal := numa.Fit(host, numa.Guest{Cells: []numa.GuestCell{guest}},
			numa.Judge{}); refusal == (numa.Refusal{}) != fits {
			t.Errorf("%d: %+v", required, refusal)
		}
	}
}
