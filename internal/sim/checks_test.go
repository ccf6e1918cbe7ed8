package sim

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// soonQuiet is the number of operations between two rests of a cloud in which something is broken whose consequences
// show when the cloud comes to rest, and only if they are recent: with the usual number dozens of clouds are needed.
var soonQuiet = map[string]int{Uncounted: 400, Demolish: 1000, Ungated: 1000, WallClock: 1000}

// firstCloudOf is the first seed for what few clouds meet, if it is not 1: that of a cloud that has met it. A change
// of production code changes all clouds; then another one may be the first to meet it.
var firstCloudOf = map[string]uint64{Ungated: 4, WallClock: 10, Unrecorded: 2, Demolish: 2}

// rarelyNoticed are the things that are broken on purpose and that one of dozens of clouds may be the first to notice.
var rarelyNoticed = map[string]string{
	Uncounted:  "guest",
	Careless:   "freed",
	Ungated:    "freed",
	Unrecorded: "unassigned",
	WallClock:  "running twice",
}

// Each thing that is broken on purpose is noticed by the check for it.
func TestTheChecksCanFail(t *testing.T) {
	testenv.Long(t)
	seeBroken(t, map[string]string{
		Lenient:     "capacity",
		Orphans:     "orphan",
		Early:       "freed",
		Undead:      "journal",
		Twice:       "held twice",
		Silent:      "rest",
		WrongDevice: "chosen",
		Unlooked:    "inventory",
		Forgetful:   "journal",
		Unwritten:   "journal",
		Sweeping:    "destroyed",
		Backward:    "follow",
		Doubles:     "admitted",
		Anyone:      "reported",
		Demolish:    "rebuilt",
		Once:        "unassigned",
	})
}

// TestRareMistakesAreNoticed is TestTheChecksCanFail for what is rarely noticed: minutes of processor time. `make
// mutations` runs it.
func TestRareMistakesAreNoticed(t *testing.T) {
	testenv.Long(t)
	seeBroken(t, rarelyNoticed)
}

// seeBroken breaks one thing in each simulation until a check notices it.
func seeBroken(t *testing.T, broken map[string]string) {
	t.Helper()
	for broken, noticed := range broken {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			var r Report
			quiet := 4000
			if short := soonQuiet[broken]; short > 0 {
				quiet = short
			}
			without := []string{Ports, "steal"} // stealing exempts servers from some checks
			if often[broken] == "steal" {
				without = without[:1]
			}
			// not every seed meets it first
			first := max(1, firstCloudOf[broken])
			for seed := first; seed < first+100 && !strings.Contains(r.Failure, ": "+noticed); seed++ {
				r = Run(Options{Seed: seed, Ops: 20000, Hosts: 24, Quiet: quiet, Broken: broken, Without: without})
			}
			if !strings.Contains(r.Failure, ": "+noticed) {
				t.Errorf("want %q, got %q", noticed, r.Failure)
			}
			t.Logf("noticed in cloud %d, after %d operations", r.Seed, r.Ops)
		})
	}
}

// resting returns a small quiescent cloud with guests of all kinds, that of the first seed that has them.
func resting(t *testing.T) *World {
	t.Helper()
	for seed := uint64(5); seed < 25; seed++ {
		w := newWorld(Options{Seed: seed, Hosts: 24, Without: []string{Ports}})
		for range 6000 {
			w.n++
			w.advance(time.Second)
			w.operate()
			w.checkMarked()
		}
		if w.quiesce(); w.failure != "" {
			t.Fatal(w.failure)
		}
		if g, _ := w.running(w.hasRoom); g != nil {
			return w
		}
	}
	t.Fatal("no cloud has a running guest with a device of a provider with room")
	return nil
}

// hasRoom reports whether a machine has one zone and ten VFs, and the provider of a device has room for another one.
func (w *World) hasRoom(m *simHost, d hypervisor.Device) bool {
	p, _ := w.placement.Provider(d.Provider)
	return w.placement.Used(d.Provider)["CUSTOM_VF_0"] < p.Inventories["CUSTOM_VF_0"].Total && len(m.made) == 10 &&
		m.zone == 0
}

// running finds a guest that is started, with a first device that fulfils a condition; nil if there is none. One that
// is stopped may be the source of a move.
func (w *World) running(fulfils func(*simHost, hypervisor.Device) bool) (*hypervisor.Guest, hypervisor.Device) {
	for _, m := range w.hosts {
		for _, id := range slices.Sorted(maps.Keys(m.guests)) {
			if g := m.guests[id]; len(g.Devices) > 0 && !g.Stopped && fulfils(m, g.Devices[0]) {
				return g, g.Devices[0]
			}
		}
	}
	return nil, hypervisor.Device{}
}

// holding finds a machine with a guest that has devices, and the first of these.
func (w *World) holding(more func(*simHost, hypervisor.Device) bool) (*simHost, *hypervisor.Guest,
	hypervisor.Device) {
	for _, m := range w.hosts {
		for _, id := range slices.Sorted(maps.Keys(m.guests)) {
			if g := m.guests[id]; len(g.Devices) > 0 && more(m, g.Devices[0]) {
				return m, g, g.Devices[0]
			}
		}
	}
	panic("no guest has devices")
}

// A change behind the back of a quiescent cloud is noticed by the check for it.
func TestTamperingIsNoticed(t *testing.T) {
	any := func(*simHost, hypervisor.Device) bool { return true }
	for noticed, tamper := range map[string]func(*World){
		"sum": func(w *World) { // 1
			g, d := w.running(w.hasRoom) // so that only the sum is wrong
			more := map[provider.ID]resource.Amounts{}
			for _, r := range w.compute.servers[w.ownerOf[g.ID]].Residences() {
				if r.Consumer == g.ID {
					r.Choice.Allocation[d.Provider]["CUSTOM_VF_0"]++ // also in the record of the server
					more = r.Choice.Allocation
				}
			}
			w.placement.SetAllocation(resource.ConsumerID(g.ID), more)
		},
		"chosen": func(w *World) {
			_, g, _ := w.holding(any)
			g.Devices[0].Provider = "another"
			more := maps.Clone(w.placement.Held(resource.ConsumerID(g.ID)))
			more["another"] = resource.Amounts{"X": 9}
			w.placement.SetAllocation(resource.ConsumerID(g.ID), more)
		},
		"family": func(w *World) { // 3
			m, _, _ := w.holding(func(m *simHost, _ hypervisor.Device) bool { return len(m.made) == 10 })
			vf := m.made[1]
			m.guests = map[string]*hypervisor.Guest{"one": {ID: "one",
				Devices: []hypervisor.Device{{ID: device.PCI(vf.Address)}}},
				"two": {ID: "two", Devices: []hypervisor.Device{{ID: device.PCI(*vf.Parent)}}}}
		},
		"pool": func(w *World) {
			for _, m := range w.hosts {
				for i, d := range m.host.row.report.Devices {
					if d.State == pci.Available && !d.Spent && !d.Disabled && d.Slices == 0 {
						m.host.row.report.Devices[i].State = "unclaimable"
						return
					}
				}
			}
		},
		"inventory": func(w *World) {
			_, _, d := w.holding(any)
			p, _ := w.placement.Provider(d.Provider)
			for class, inv := range p.Inventories {
				inv.Total++
				p.Inventories = map[resource.Class]resource.Inventory{class: inv}
			}
			w.placement.SetProvider(p)
		},
		"plan": func(w *World) { // 6
			_, _, d := w.holding(any)
			p, _ := w.placement.Provider(d.Provider)
			p.Traits = nil
			w.placement.SetProvider(p)
		},
		"bandwidth": func(w *World) {
			m, _, _ := w.holding(any)
			p, _ := w.placement.Provider(bandwidth.Name{Hypervisor: m.name, Agent: bandwidth.OpenVSwitch}.ID())
			p.Traits = append(slices.Clone(p.Traits), "CUSTOM_VNIC_TYPE_OTHER")
			w.placement.SetProvider(p)
		},
		"left": func(w *World) {
			m, _, _ := w.holding(any)
			m.disk.change(journal.Gone("unknown"))
		},
		"guest": func(w *World) {
			g, _ := w.running(any)
			g.Stopped = true // one that is started, such as the source of a move, would run twice
		},
	} {
		t.Run(noticed, func(t *testing.T) {
			w := resting(t)
			tamper(w)
			w.checkAll()
			if !strings.Contains(w.failure, noticed+": ") {
				t.Errorf("want %q, got %q", noticed, w.failure)
			}
		})
	}
}
