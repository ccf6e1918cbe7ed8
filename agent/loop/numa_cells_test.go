package loop

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/numa"
)

// pinnedCells returns one NUMA cell with a number of dedicated CPUs.
func pinnedCells(cpus, memory int) []host.GuestCell {
	p := host.GuestCell{MemoryMB: memory}
	for i := range cpus {
		p.VCPUs, p.Dedicated = append(p.VCPUs, i), append(p.Dedicated, i)
	}
	return []host.GuestCell{p}
}

// cells returns the reported NUMA nodes with the use of the reported guests.
func (w *testHost) cells() []host.Cell {
	report := w.compute.lastReport()
	cells := report.Resources().Cells
	for _, g := range report.Counted {
		cells = numa.Use(cells, host.ReadGuestCells(g.Cells), host.ReadPlaced(g.Placed))
	}
	return host.WriteCells(cells)
}

func TestNUMACells(t *testing.T) {
	sets := func(w *testHost) {
		w.numaNodes()
		w.options.CPUs = state.CPUs{Shared: []int{0, 4, 2, 6}, Dedicated: []int{1, 5, 3, 7}}
	}
	scenario(t, "a guest with dedicated CPUs is placed on the node of its device, reported, journalled and released",
		func(t *testing.T, w *testHost) {
			sets(w)
			_, stop := w.startReported()
			if p := w.provider("cmp1"); p.Inventories["VCPU"].Total != 4 || p.Inventories["PCPU"].Total != 4 ||
				!p.HasTrait("COMPUTE_SOCKET_PCI_NUMA_AFFINITY") || !p.HasTrait("HW_CPU_HYPERTHREADING") {
				t.Errorf("%+v", p)
			}
			s := w.server("s1", name2)
			s.Topology = pinnedCells(2, 512)
			w.compute.assign(s)
			w.untilPhase(host.Running, "s1")
			want := []host.PlacedCell{{Node: 1, CPUs: map[int]int{0: 3, 1: 7}}}
			if got := w.compute.guest("s1").Cells; !reflect.DeepEqual(got, want) {
				t.Errorf("%+v", got)
			}
			if g := w.guest("s1"); len(g.Cells) != 1 || g.Cells[0].Node != 1 || !maps.Equal(g.Cells[0].CPUs, want[0].CPUs) {
				t.Errorf("%+v", g)
			}
			w.until("its use is reported", func() bool {
				c := w.cells()
				return len(c) == 2 && slices.Equal(c[1].Pinned, []int{3, 7}) && c[1].UsedMemory == 512 && len(c[0].Pinned) == 0
			})
			must(t, stop())
			w.compute.forget()
			_, stop = w.startReported()
			w.untilPhase(host.Running, "s1")
			if got := w.compute.guest("s1").Cells; !reflect.DeepEqual(got, want) ||
				!slices.Equal(w.cells()[1].Pinned, []int{3, 7}) {
				t.Errorf("after a restart: %+v %+v", got, w.cells())
			}
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			w.until("it is released", func() bool { return len(w.cells()[1].Pinned) == 0 && w.cells()[1].UsedMemory == 0 })
			must(t, stop())
		})
	scenario(t, "the CPUs of a guest without devices are reported free before it is reported gone",
		func(t *testing.T, w *testHost) {
			sets(w)
			w.options.Rescan = time.Hour // no rescan helps
			_, stop := w.startReported()
			s := w.server("s1")
			s.Topology = pinnedCells(2, 512)
			w.compute.assign(s)
			w.untilPhase(host.Running, "s1")
			if n := len(w.compute.lastReport().Counted); n != 1 {
				t.Fatalf("%d guests are counted, want 1", n)
			}
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			if got := w.compute.lastReport().Counted; len(got) > 0 {
				t.Errorf("the guest is gone, and the last report counts %+v", got)
			}
			must(t, stop())
		})
	scenario(t, "the claim applies the policy to the free capacity", func(t *testing.T, w *testHost) {
		sets(w)
		_, stop := w.startReported()
		first := w.server("s1", name1)
		first.Topology = pinnedCells(2, 512)
		w.compute.assign(first)
		w.untilPhase(host.Running, "s1") // node 0 has no thread left
		far := func(id, policy string) host.Server {
			s := w.server(id, name1)
			s.Requests[0].Policy, s.Topology = policy, pinnedCells(2, 512)
			return s
		}
		w.compute.assign(first, far("s2", "required"))
		w.untilPhase(host.Failed, "s2")
		contains(t, w.compute.guest("s2").Message, "on node 0, ", "required")
		w.compute.assign(first, far("s3", "legacy"))
		w.untilPhase(host.Failed, "s3")
		w.compute.assign(first, far("s4", "socket"))
		w.untilPhase(host.Failed, "s4")
		w.compute.assign(first, far("s5", "preferred"))
		w.untilPhase(host.Running, "s5")
		if got := w.compute.guest("s5"); got.Cells[0].Node != 1 || !strings.HasPrefix(got.Devices[0].Address, "0000:3b:") {
			t.Errorf("%+v", got)
		}
		must(t, stop())
	})
	scenario(t, "without capacity the claim fails with a message, and no device is held", func(t *testing.T, w *testHost) {
		sets(w)
		_, stop := w.startReported()
		s := w.server("s1", name1)
		s.Topology = pinnedCells(3, 512)
		w.compute.assign(s)
		w.untilPhase(host.Failed, "s1")
		contains(t, w.compute.guest("s1").Message, "3 threads for dedicated CPUs", "has 2")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "legacy devices are selected near the guest", func(t *testing.T, w *testHost) {
		sets(w)
		w.options.ReportInPlacement = false
		_, stop := w.startReported()
		big := w.legacyServer("s1", 2)
		big.Topology = []host.GuestCell{{VCPUs: []int{0}, MemoryMB: 1024, PageKB: 2048}} // huge pages are on node 1 alone
		w.compute.assign(big)
		w.untilPhase(host.Running, "s1")
		got := w.compute.guest("s1")
		if got.Cells[0].Node != 1 || got.Cells[0].PageKB != 2048 || got.Devices[0].Address != "0000:5e:00.1" ||
			got.Devices[1].Address != "0000:5e:00.2" {
			t.Errorf("%+v", got)
		}
		w.until("its pages are reported", func() bool {
			c := w.cells()
			return len(c) == 2 && c[1].Pages[0].Used == 512 &&
				c[1].Floating == 1
		})
		must(t, stop())
	})
	scenario(t, "a move keeps the NUMA placement", func(t *testing.T, w *testHost) {
		sets(w)
		_, stop := w.startReported()
		s := w.server("s1", name2)
		s.Topology = pinnedCells(1, 512)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		was := w.compute.guest("s1").Cells
		m := poweredOff(w.moved(s, "m1"))
		w.compute.assign(m)
		w.untilPhase(host.Stopped, "m1")
		if got := w.compute.guest("m1").Cells; !reflect.DeepEqual(got, was) {
			t.Errorf("%+v, before %+v", got, was)
		}
		must(t, stop())
		w.checkConsistent("m1")
	})
}
