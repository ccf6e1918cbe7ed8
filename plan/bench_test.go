package plan_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
)

// large is a case of the benchmarks: a host and a guest of realistic sizes.
type large struct {
	name  string
	host  plan.Host
	guest plan.Guest
	fits  bool
	work  int // the most allocations: a measure of the work that does not depend on the machine; 0: mostWork
}

// room returns nodes, two on each socket, with eight free threads each.
func room(nodes int) (h numa.Host) {
	for id := range nodes {
		c := numa.Cell{ID: id, Socket: id / 2, MemoryMB: 1 << 16}
		for i := range 8 {
			c.Dedicated = append(c.Dedicated, id*8+i)
		}
		h.Cells = append(h.Cells, c)
	}
	return h
}

// cells returns guest cells with two dedicated CPUs each.
func cells(count int) (list []numa.GuestCell) {
	for i := range count {
		cpus := []int{2 * i, 2*i + 1}
		list = append(list, numa.GuestCell{VCPUs: cpus, Dedicated: cpus, MemoryMB: 1024})
	}
	return list
}

// devices returns devices of one model near a node, below a root.
func devices(count, model, node int, root string) (list []plan.Device) {
	d := plan.Device{Fits: make([]bool, 3), Near: []int{node}, Beside: []int{node &^ 1, node | 1}, Card: plan.NoCard,
		Values: map[string][]string{"pcie_root": {root}}}
	d.Fits[model] = true
	for range count {
		list = append(list, d)
	}
	return list
}

// requests returns requests for GPUs, VFs and PFs or disks.
func requests(policy pci.NUMAPolicy, counts ...int) (list []plan.Request) {
	for _, n := range counts {
		list = append(list, plan.Request{Count: n, Policy: policy})
	}
	for len(list) < 3 {
		list = append(list, plan.Request{Policy: policy})
	}
	return list
}

// gpuHost returns a host with a number of GPUs and VFs on each node: with two, a node has three providers of devices.
func gpuHost(nodes, gpus, vfs int) plan.Host {
	h := plan.Host{Room: room(nodes)}
	for n := range nodes {
		h.Devices = append(h.Devices, devices(gpus, 0, n, fmt.Sprint("g", n))...)
		h.Devices = append(h.Devices, devices(vfs, 1, n, fmt.Sprint("v", n))...)
	}
	return h
}

// cardHost returns a host with cards, each of which can be given as a PF or as VFs.
func cardHost(nodes, cards, vfs int) plan.Host {
	h := plan.Host{Room: room(nodes)}
	for c := range cards {
		pf := devices(1, 2, c%nodes, fmt.Sprint("r", c))[0]
		pf.Card, pf.Whole = c, true
		h.Devices = append(h.Devices, pf)
		for range vfs {
			vf := devices(1, 1, c%nodes, fmt.Sprint("r", c))[0]
			vf.Card = c
			h.Devices = append(h.Devices, vf)
		}
	}
	return h
}

// rootHost returns a host with a GPU and a NIC of 8 VFs below each PCIe root.
func rootHost(nodes, roots int) plan.Host {
	h := plan.Host{Room: room(nodes)}
	for r := range roots {
		h.Devices = append(h.Devices, devices(1, 0, r*nodes/roots, fmt.Sprint("r", r))...)
		h.Devices = append(h.Devices, devices(8, 1, r*nodes/roots, fmt.Sprint("r", r))...)
	}
	return h
}

// hgxHost returns a host with eight GPUs on two nodes, in partitions of two, four and eight.
func hgxHost() plan.Host {
	h := plan.Host{Room: room(2)}
	for i := range 8 {
		d := devices(1, 0, i/4, fmt.Sprint("r", i))[0]
		d.Values = map[string][]string{"fabric": {fmt.Sprint("p2-", i/2), fmt.Sprint("p4-", i/4), "p8-0"}}
		h.Devices = append(h.Devices, d)
	}
	return h
}

// hugeHost returns a host with 1,060 devices on eight nodes: 8 GPUs, 8 NICs of 128 VFs, 28 disks.
func hugeHost() plan.Host {
	h := gpuHost(8, 1, 128)
	for i := range 28 {
		h.Devices = append(h.Devices, devices(1, 2, i%8, "d")...)
	}
	return h
}

// sets returns one family for the first two requests.
func sets(family string, times int, requests ...int) []plan.Set {
	return []plan.Set{{Family: family, Requests: requests, Times: times}}
}

func largeCases() []large {
	full := gpuHost(8, 2, 8)
	for i := range full.Room.Cells {
		full.Room.Cells[i].Pinned = full.Room.Cells[i].Dedicated[:7]
	}
	return []large{
		{"2 cells, 2 GPUs, 2 VFs, legacy", gpuHost(8, 2, 8),
			plan.Guest{Cells: cells(2), Requests: requests("", 2, 2)}, true, 0},
		{"2 cells, 2 GPUs, 2 VFs, preferred", gpuHost(8, 2, 8),
			plan.Guest{Cells: cells(2), Requests: requests(pci.Preferred, 2, 2)}, true, 0},
		{"4 cells, 8 GPUs, 8 VFs", gpuHost(8, 2, 8), plan.Guest{Cells: cells(4), Requests: requests("", 8, 8)}, true, 0},
		{"4 cells, 9 GPUs, preferred, one far", gpuHost(8, 2, 8),
			plan.Guest{Cells: cells(4), Requests: requests(pci.Preferred, 9, 8)}, true, 0},
		{"4 cells, too many GPUs near", gpuHost(8, 2, 8),
			plan.Guest{Cells: cells(4), Requests: requests("", 9, 8)}, false, 0},
		{"too few GPUs", gpuHost(8, 2, 8), plan.Guest{Cells: cells(4), Requests: requests("", 17, 8)}, false, 0},
		{"cells do not fit", full, plan.Guest{Cells: cells(4), Requests: requests("", 2, 2)}, false, 0},
		{"no cells", gpuHost(8, 2, 8), plan.Guest{Requests: requests("", 2, 2)}, true, 0},
		{"16 nodes, 8 cells, 16 GPUs", gpuHost(16, 2, 8),
			plan.Guest{Cells: cells(8), Requests: requests("", 16, 8)}, true, 0},
		{"16 nodes, too many GPUs near", gpuHost(16, 2, 8),
			plan.Guest{Cells: cells(8), Requests: requests("", 17, 8)}, false, 0},
		{"4 sets on 16 roots", rootHost(8, 16),
			plan.Guest{Cells: cells(2), Requests: requests("", 4, 4), Sets: sets("pcie_root", 4, 0, 1)}, true, 0},
		{"5 sets on 16 roots, 4 are near", rootHost(8, 16),
			plan.Guest{Cells: cells(2), Requests: requests("", 5, 5), Sets: sets("pcie_root", 5, 0, 1)}, false, 0},
		{"17 sets on 16 roots", rootHost(8, 16),
			plan.Guest{Cells: cells(2), Requests: requests(pci.Preferred, 17, 17), Sets: sets("pcie_root", 17, 0, 1)}, false, 0},
		{"partition of 4", hgxHost(),
			plan.Guest{Cells: cells(1), Requests: requests(pci.Preferred, 4), Sets: sets("fabric", 1, 0)}, true, 0},
		{"2 partitions of 2", hgxHost(),
			plan.Guest{Cells: cells(1), Requests: requests("", 4), Sets: sets("fabric", 2, 0)}, true, 0},
		{"1,060 devices", hugeHost(), plan.Guest{Cells: cells(2), Requests: requests("", 2, 8, 2)}, true, 0},
		{"16 cards, 4 PFs, 8 VFs", cardHost(8, 16, 16),
			plan.Guest{Cells: cells(4), Requests: requests("", 0, 8, 4)}, true, 0},
		{"16 cards, one PF too many", cardHost(8, 16, 16),
			plan.Guest{Cells: cells(8), Requests: requests("", 0, 8, 16)}, false, 0},
	}
}

// mostWork is the most work of a case without a number of its own.
const mostWork = 3_000

// TestLargeCases tests the answers to the cases of the benchmarks, and that Make does not try too much for them.
func TestLargeCases(t *testing.T) {
	for _, c := range append(largeCases(), attacks()...) {
		t.Run(c.name, func(t *testing.T) {
			var p plan.Plan
			var refusal *plan.Refusal
			work := testing.AllocsPerRun(1, func() { p, refusal = plan.Make(c.host, c.guest) })
			if most := cmp.Or(c.work, mostWork); work > float64(most) {
				t.Errorf("%.0f allocations, more than %d", work, most)
			}
			if (refusal == nil) != c.fits {
				t.Fatalf("%+v", refusal)
			}
			if refusal != nil {
				return
			}
			at, wrong := nodesOf(c.host, c.guest, p)
			if wrong == "" {
				_, _, wrong = valid(c.host, c.guest, p, at)
			}
			if wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

func BenchmarkMake(b *testing.B) {
	for _, c := range append(largeCases(), attacks()...) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan.Make(c.host, c.guest)
			}
		})
	}
}

// unequalHost returns a host of 16 nodes with up to three devices of each model, in different numbers.
func unequalHost() plan.Host {
	h := plan.Host{Room: room(16)}
	for n := range 16 {
		gpus, vfs := n%4, n*7/4%4
		h.Devices = append(h.Devices, devices(gpus, 0, n, "")...)
		h.Devices = append(h.Devices, devices(vfs, 1, n, "")...)
		h.Devices = append(h.Devices, devices(3-(gpus+vfs)/2, 2, n, "")...)
	}
	return h
}

// keptHost returns a host with one node, 16 GPUs in partitions of two, four and eight, and as many VFs. Each device is
// to be kept for others more or less than any other one of its model.
func keptHost() plan.Host {
	h := plan.Host{Room: room(1)}
	for i := range 16 {
		gpu, vf := devices(1, 0, 0, fmt.Sprint("r", i))[0], devices(1, 1, 0, fmt.Sprint("r", i))[0]
		gpu.Values["fabric"] = []string{fmt.Sprint("p2-", i/2), fmt.Sprint("p4-", i/4), fmt.Sprint("p8-", i/8)}
		gpu.Later, vf.Later = i*7%16, i*11%16
		h.Devices = append(h.Devices, gpu, vf)
	}
	return h
}

// attacks returns cases with many ways to try: most have no plan, but look as if there were one.
func attacks() []large {
	h := plan.Host{Room: room(16)}
	for n := range 16 { // each node has two GPUs and two VFs, and one GPU and both VFs agree
		h.Devices = append(h.Devices, devices(1, 0, n, fmt.Sprint(n, "a"))...)
		h.Devices = append(h.Devices, devices(2, 1, n, fmt.Sprint(n, "a"))...)
		h.Devices = append(h.Devices, devices(1, 0, n, fmt.Sprint(n, "b"))...)
	}
	halves := rootHost(1, 16)
	for i := range halves.Devices { // 8 VFs of one root, or a GPU and a VF
		d := &halves.Devices[i]
		d.Fits[2] = d.Fits[1]
	}
	taken := sets("pcie_root", 8, 0, 1)
	taken = append(taken, plan.Set{Family: "pcie_root", Requests: []int{2}, Times: 9})
	return []large{
		{"9 sets, one near each node", h,
			plan.Guest{Cells: cells(8), Requests: requests("", 9, 9), Sets: sets("pcie_root", 9, 0, 1)}, false, 10_000},
		{"sets of 8 VFs beside sets with one", halves,
			plan.Guest{Requests: requests("", 8, 8, 72), Sets: taken}, false, 16_000},
		{"16 unequal nodes, 18 devices of each model", unequalHost(),
			plan.Guest{Cells: cells(8), Requests: requests(pci.Preferred, 18, 18, 18)}, true, 15_000},
		{"6 pairs in nested partitions", keptHost(),
			plan.Guest{Requests: requests("", 12), Sets: sets("fabric", 6, 0)}, true, 4_000},
		{"6 sets on 16 roots, all different", keptHost(),
			plan.Guest{Requests: requests("", 6, 6), Sets: sets("pcie_root", 6, 0, 1)}, true, 10_000},
	}
}
