package schedule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// TestNUMAFilter checks on which NUMA nodes a guest can be placed so that its devices are near enough.
func TestNUMAFilter(t *testing.T) {
	// full returns a node without free CPUs.
	full := func(id, socket int) numa.Cell { return node(id, socket, 0) }
	nic := func(bus uint8, on provider.ID, n int) pci.Offered {
		return testDevice(bus, pci.Plain, "1533", on, n)
	}
	r := requestFor(1, "", "1533")
	near := schedule.FilterNUMA
	for _, c := range []struct {
		name     string
		cells    []numa.Cell
		devs     []pci.Offered
		ask      question
		wantText string
		filter   schedule.Filter
	}{
		{"no device requested", []numa.Cell{node(0, 0, 2)}, nil, question{cells: guest(1)}, "", ""},
		{"the device is on the guest's node", []numa.Cell{node(0, 0, 2)}, []pci.Offered{nic(1, "p", 0)},
			question{requests: []pci.Request{r},
				cells: guest(1)}, "", ""},
		{"the device is on another node", []numa.Cell{node(0, 0, 2)}, []pci.Offered{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, cells: guest(1)}, "near enough", near},
		{"the host reports no nodes", nil, []pci.Offered{nic(1, "p", 0)}, question{requests: []pci.Request{r},
			cells: guest(1)}, "reports no NUMA nodes", near},
		{"no NUMA cells: required has no effect", []numa.Cell{full(0, 0)}, []pci.Offered{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Required, r)}}, "", ""},
		{"a guest on both nodes", []numa.Cell{node(0, 0, 2), node(1, 1, 2)}, []pci.Offered{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, cells: guest(2)}, "", ""},
		{"a guest on the other node", []numa.Cell{node(0, 0, 2), full(1, 1)}, []pci.Offered{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, cells: guest(1)}, "near enough", near},
		{"device without a node: legacy", []numa.Cell{node(0, 0, 2)}, []pci.Offered{nic(1, "p", pci.NoNUMA)},
			question{requests: []pci.Request{r}, cells: guest(1)}, "", ""},
		{"device without a node: required", []numa.Cell{node(0, 0, 2)}, []pci.Offered{nic(1, "p", pci.NoNUMA)},
			question{requests: []pci.Request{withPolicy(pci.Required, r)}, cells: guest(1)}, "numa_policy required", near},
		{"device without a node: preferred", []numa.Cell{node(0, 0, 2)}, []pci.Offered{nic(1, "p", pci.NoNUMA)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, cells: guest(1)}, "", ""},
		{"preferred, the guest fits only on node 1", []numa.Cell{full(0, 0), node(1, 1, 2)},
			[]pci.Offered{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, on: []provider.ID{"p"}, cells: guest(1)}, "", ""},
		{"legacy finds the node of the device", []numa.Cell{node(0, 0, 2), node(1, 1, 2)}, []pci.Offered{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, on: []provider.ID{"p"}, cells: guest(1)}, "", ""},
		{"the chosen device is on the full node", []numa.Cell{full(0, 0), node(1, 1, 2)},
			[]pci.Offered{nic(1, "green", 0),
				nic(2, "red", 1)},
			question{requests: []pci.Request{withPolicy(pci.Required, r)}, on: []provider.ID{"green"}, cells: guest(1)},
			"near enough",
			near},
		{"socket: one socket of two nodes", []numa.Cell{node(0, 0, 2), full(1, 0)}, []pci.Offered{nic(1, "p", 1)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "", ""},
		{"socket: two sockets", []numa.Cell{node(0, 0, 2), full(1, 1)}, []pci.Offered{nic(1, "p", 1)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "numa_policy socket", near},
		{"socket: three of four nodes", []numa.Cell{full(0, 0), node(1, 0, 2), node(2, 1, 2), node(3, 1, 2)},
			[]pci.Offered{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(3)}, "", ""},
		{"socket: a node with an unknown socket", []numa.Cell{node(0, 0, 2), full(1, 0), full(2, numa.NoSocket)},
			[]pci.Offered{nic(1, "p", 1)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "numa_policy socket", near},
		{"socket: a node with an unknown socket, the device is local", []numa.Cell{node(0, 0, 2), full(1, numa.NoSocket)},
			[]pci.Offered{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "", ""},
		{"socket: the second node of a socket", []numa.Cell{node(0, 0, 2), node(1, 1, 2), full(2, 1)},
			[]pci.Offered{nic(1, "p", 2)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "", ""},
		{"preferred: the near device is not on the chosen provider", []numa.Cell{node(0, 0, 2)},
			[]pci.Offered{nic(1, "near", 0),
				nic(2, "far", 1)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, on: []provider.ID{"far"}, cells: guest(1)}, "", ""},
		{"preferred: the near device is taken", []numa.Cell{node(0, 0, 2)}, []pci.Offered{taken(nic(1, "near", 0)),
			nic(2, "far", 1)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, cells: guest(1)}, "", ""},
		{"legacy: the near device is not on the chosen provider, the other has no node", []numa.Cell{node(0, 0, 2)},
			[]pci.Offered{nic(1, "near", 0), nic(2, "far", pci.NoNUMA)},
			question{requests: []pci.Request{r}, on: []provider.ID{"far"}, cells: guest(1)}, "", ""},
		{"two devices on two nodes and a guest of two cells", []numa.Cell{node(0, 0, 2), node(1, 0, 2), node(2, 1, 2),
			node(3, 1, 2)},
			[]pci.Offered{nic(1, "p", 1), nic(2, "q", 3)},
			question{requests: []pci.Request{withPolicy(pci.Required, requestFor(2, "", "1533"))}, on: []provider.ID{"p", "q"},
				cells: guest(2)}, "", ""},
		{"two devices on two nodes and a guest of one cell", []numa.Cell{node(0, 0, 2), node(1, 0, 2), node(2, 1, 2),
			node(3, 1, 2)},
			[]pci.Offered{nic(1, "p", 1), nic(2, "q", 3)},
			question{requests: []pci.Request{withPolicy(pci.Required, requestFor(2, "", "1533"))}, on: []provider.ID{"p", "q"},
				cells: guest(1)}, "near enough", near},
		{"too few free CPUs", []numa.Cell{node(0, 0, 1), full(1, 1)}, nil, question{cells: guest(1)},
			"no NUMA node has 2 threads for dedicated CPUs left", near},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, c.ask, withCells(host("h", c.devs...), c.cells...), c.wantText, c.filter)
		})
	}
}

// TestDevicesOnNodesWithoutCPUs places a guest of one cell, which fits only on node 1, beside a GPU whose memory is
// node 2 (as on GB200): the nearest node with CPUs is 0, or 1, or both, or unknown.
func TestDevicesOnNodesWithoutCPUs(t *testing.T) {
	for _, c := range []struct {
		distances map[int]int // of node 2
		fits      map[pci.NUMAPolicy]bool
		nearest   string
	}{
		{map[int]int{0: 120, 1: 80, 2: 10}, map[pci.NUMAPolicy]bool{pci.Required: true, pci.Legacy: true,
			pci.Socket: true, pci.Preferred: true}, ""},
		{map[int]int{0: 80, 1: 80, 2: 10}, map[pci.NUMAPolicy]bool{pci.Required: true, pci.Legacy: true,
			pci.Socket: true, pci.Preferred: true}, ""},
		{map[int]int{0: 80, 1: 120, 2: 10}, map[pci.NUMAPolicy]bool{pci.Preferred: true},
			"a device is on node 2 without CPUs (nearest node with CPUs: 0, distance 80)"},
		{nil, map[pci.NUMAPolicy]bool{pci.Legacy: true, pci.Preferred: true},
			"a device is on node 2 without CPUs (its distance from nodes with CPUs is unknown)"},
	} {
		h := withCells(host("h", testDevice(1, pci.Plain, "2941", "p", 2)), node(0, 0, 0), node(1, 1, 2))
		h.Nodes[2] = numa.Node{ID: 2, Socket: numa.NoSocket, Distances: c.distances}
		for _, p := range []pci.NUMAPolicy{pci.Required, pci.Legacy, pci.Socket, pci.Preferred} {
			r := withPolicy(p, requestFor(1, "", "2941"))
			r.ID = "R"
			input := schedule.Input{Hosts: hosts(h), Cells: guest(1), Now: noon, Silence: schedule.Silence,
				Candidates: []schedule.Candidate{candidate("h", "p")}}
			choices, refusals := schedule.Choose(input, []pci.Request{r}, 1)
			if (len(choices) == 1) != c.fits[p] {
				t.Errorf("distances %v, %s: %d choices, refused %+v", c.distances, p, len(choices), refusals)
			}
			if !c.fits[p] && (!strings.Contains(refusals[0].Reason, "numa_policy "+string(p)) ||
				!strings.Contains(refusals[0].Nearest, c.nearest)) {
				t.Errorf("distances %v, %s: %+v", c.distances, p, refusals[0])
			}
		}
	}
}

func taken(d pci.Offered) pci.Offered { d.State = pci.Allocated; return d }

// TestNUMAPolicyByNodeOfDevice combines NUMA policies with the nodes of a device, for a guest that fits only on node 1.
func TestNUMAPolicyByNodeOfDevice(t *testing.T) {
	for p, fits := range map[pci.NUMAPolicy]string{pci.Preferred: "AAA", pci.Legacy: "AEA", pci.Required: "EEA"} {
		for i, on := range []int{pci.NoNUMA, 0, 1} {
			t.Run(fmt.Sprintf("%s device on %d", p, on), func(t *testing.T) {
				h := withCells(host("h", testDevice(1, pci.Plain, "1533", "p", on)), node(0, 0, 0), node(1, 1, 2))
				wantText, filter := "", schedule.Filter("")
				if fits[i] == 'E' {
					wantText, filter = "near enough", schedule.FilterNUMA
				}
				check(t, question{requests: []pci.Request{withPolicy(p, requestFor(1, "", "1533"))}, cells: guest(1)}, h, wantText,
					filter)
			})
		}
	}
}

// TestNUMAPolicyWithSeveralDevices requests devices of which one is on node 0, one on node 1, and one has no node.
func TestNUMAPolicyWithSeveralDevices(t *testing.T) {
	h := host("h", testDevice(1, pci.Plain, "1533", "pr0", 0), testDevice(2, pci.Plain, "1533", "pr1", 1),
		testDevice(3, pci.Plain, "1533",
			"prn", pci.NoNUMA))
	on0, on9 := []numa.Cell{node(0, 0, 2)}, []numa.Cell{node(9, 0, 2)}
	for _, c := range []struct {
		name  string
		p     pci.NUMAPolicy
		count int
		cells []numa.Cell
		fits  bool
	}{
		{"required node0", pci.Required, 1, on0, true}, {"required node999", pci.Required, 1, on9, false},
		{"required 2", pci.Required, 2, on0, false},
		{"legacy node0", pci.Legacy, 1, on0, true}, {"legacy 999", pci.Legacy, 1, on9, true},
		{"legacy 2", pci.Legacy, 2, on0, true}, {"legacy 3", pci.Legacy, 3, on0, false},
		{"preferred 2", pci.Preferred, 2, on0, true}, {"preferred 3", pci.Preferred, 3, on0, true},
		{"preferred 999", pci.Preferred, 1, on9, true},
		{"preferred 4", pci.Preferred, 4, on0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			reason, _ := question{requests: []pci.Request{withPolicy(c.p, requestFor(c.count, "", "1533"))},
				cells: guest(1)}.judgeOn(withCells(h,
				c.cells...))
			if (reason == "") != c.fits {
				t.Errorf("refused %q", reason)
			}
		})
	}
}

// TestGuestsMissingFromReportCount checks that guests that the report does not contain yet count, and others count
// once.
func TestGuestsMissingFromReportCount(t *testing.T) {
	base := withCells(host("h"), node(0, 0, 4), node(1, 0, 2))
	for _, c := range []struct {
		name    string
		guests  []schedule.Guest
		counted []schedule.CountedGuest
		fits    bool
	}{
		{"no other guest", nil, nil, true},
		{"a guest with a known place",
			[]schedule.Guest{{ID: "s", Cells: guest(1), Placed: []numa.Placed{{Node: 1, CPUs: map[int]int{0: 10, 1: 11}}}}}, nil,
			false},
		{"a guest with a known place that the report contains",
			[]schedule.Guest{{ID: "s", Cells: guest(1), Placed: []numa.Placed{{Node: 1, CPUs: map[int]int{0: 10, 1: 11}}}}},
			[]schedule.CountedGuest{{ID: "s", Cells: guest(1), Placed: []numa.Placed{{Node: 0, CPUs: map[int]int{0: 2, 1: 3}}}}},
			true},
		{"a guest that only the report contains", nil,
			[]schedule.CountedGuest{{ID: "s", Cells: guest(1),
				Placed: []numa.Placed{{Node: 1, CPUs: map[int]int{0: 10, 1: 11}}}}},
			false},
		{"a guest without a place counts on the emptier node", []schedule.Guest{{ID: "s", Cells: guest(1)}}, nil, true},
		{"two guests without a place", []schedule.Guest{{ID: "s", Cells: guest(1)}, {ID: "t", Cells: guest(1)}}, nil,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := base
			h.Guests, h.Counted = c.guests, c.counted
			reason, _ := question{cells: guest(2)}.judgeOn(h)
			if (reason == "") != c.fits {
				t.Errorf("refused %q", reason)
			}
		})
	}
}
