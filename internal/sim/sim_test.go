package sim

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// number returns a number from the environment, as `make sim` sets it.
func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q; write a whole number", name, text)
	}
	return n
}

// most is the number of operations of one seed, and usualPiece the number if OPS is not set: then the clouds are
// smaller too, so that the test is short.
const most, usualPiece = 130000, 25000

// TestSeeds simulates a cloud for each seed. OPS is the number of operations of all seeds, SEED the first seed.
func TestSeeds(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1500)) // one cloud at a time, with little memory in use
	usual := usualOps
	if testing.Short() {
		usual = usualPiece
	}
	ops, seed := number(t, "OPS", usual), number(t, "SEED", 1)
	done, happened := map[string]int{}, map[string]int{}
	piece := most
	if ops == usual {
		piece = usualPiece
	}
	for left := ops; left > 0; left, seed = left-piece, seed+1 {
		o := Options{Seed: uint64(seed), Ops: min(piece, left)}
		switch {
		case ops == usual:
			o.Hosts, o.Quiet = 48, 5000
		case seed%4 == 0:
			o.Hosts = 360
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := Run(o)
			if r.Failure != "" {
				small, again := Shrink(o, r)
				t.Fatalf("%s\n\nwithout %v it still fails:\n%s", r.Failure, small.Without, again.Failure)
			}
			for kind, n := range r.Done {
				done[kind] += n
			}
			for what, n := range r.Happened {
				happened[what] += n
			}
		})
	}
	t.Logf("%d operations: %v", ops, done)
	t.Logf("led to %v", happened)
	for _, kind := range append(kindsOfOps(), "step", "WriteJournal", "Admit", "Watch", "Received", "ReportHost",
		"Observe", "ReadUses", "ReadAllocations", "WriteProvider", "CleanDevice", "ReadAllocation", "Build", "Rename",
		"Migrate", "Destroy", "ListGuests", "ReportGuest", "resize", "migrate",
		"os-migrateLive", "confirmResize", "revertResize",
		"shelve", "unshelve", "rebuild", "reboot", "stop", "start", "evacuate", "dead") {
		if done[kind] == 0 && kind != "action" && kind != "agent" && ops >= usualOps {
			t.Errorf("%q never happened", kind)
		}
	}
	for _, what := range []string{"active", "error", "resized", "shelved", "lingering", "crossing", "restoring",
		"mustering", "claim lost", "room made", "crash",
		"given up", "journal write failed", "device cleaned", "start refused", "out of order", "refused",
		"compute restored", "Placement restored", "directory copied", "machine replaced", "clock set", "journal lost",
		"database lost", "host forgotten", "host taken over", "start not admitted", "copy on another machine",
		"line not followed", "line of an ended compute",
		"guest report of another start", "guest destroyed", "held back by the gate", "held back by a guest", "host adopted",
		"guest destroyed by the operator", "allocation written back"} {
		if happened[what] == 0 && ops >= usualOps {
			t.Errorf("%q never happened", what)
		}
	}
}

// Each thing that is broken on purpose is noticed by the check for it.
func TestTheChecksCanFail(t *testing.T) {
	testenv.Long(t)
	for broken, noticed := range map[string]string{
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
		Uncounted:   "guest",
		Sweeping:    "destroyed",
		Backward:    "follow",
		Doubles:     "admitted",
		Anyone:      "reported",
		Demolish:    "rebuilt",
		Careless:    "freed",
		Ungated:     "freed",
		Once:        "unassigned",
		Unrecorded:  "unassigned",
		WallClock:   "running twice",
	} {
		t.Run(broken, func(t *testing.T) {
			var r Report
			without := []string{"steal"} // it exempts servers from some checks
			if often[broken] == "steal" {
				without = nil
			}
			// not every seed meets it first
			for seed := uint64(1); seed <= 12 && !strings.Contains(r.Failure, ": "+noticed); seed++ {
				r = Run(Options{Seed: seed, Ops: 20000, Hosts: 24, Quiet: 4000, Broken: broken, Without: without})
			}
			if !strings.Contains(r.Failure, ": "+noticed) {
				t.Errorf("want %q, got %q", noticed, r.Failure)
			}
		})
	}
}

// A failure is reduced to few kinds of operations, and the reduced simulation finds it again.
func TestAFailureIsShrunk(t *testing.T) {
	o := Options{Seed: 3, Ops: 20000, Hosts: 24, Quiet: 4000, Broken: WrongDevice}
	r := Run(o)
	small, again := Shrink(o, r)
	if again.Failure == "" || len(small.Without) < 10 || again.Ops > r.Ops {
		t.Errorf("without %v: %d operations, not %d: %s", small.Without, again.Ops, r.Ops, again.Failure)
	}
	if !strings.Contains(r.Failure, "seed 3, operation ") || !strings.Contains(r.Failure, "GuestClaimed") {
		t.Errorf("%s", r.Failure)
	}
}

// The same seed gives the same simulation.
func TestASeedIsRepeatable(t *testing.T) {
	o := Options{Seed: 5, Ops: 6000, Quiet: 3000, Hosts: 36}
	if a, b := Run(o), Run(o); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// resting returns a small quiescent cloud with guests of all kinds.
func resting(t *testing.T) *World {
	t.Helper()
	w := newWorld(Options{Seed: 3, Hosts: 24})
	for range 6000 {
		w.n++
		w.advance(time.Second)
		w.operate()
		w.checkMarked()
	}
	if w.quiesce(); w.failure != "" {
		t.Fatal(w.failure)
	}
	return w
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
			_, g, d := w.holding(func(m *simHost, d hypervisor.Device) bool {
				return w.placement.Used(d.Provider)["CUSTOM_VF_0"] < 4 && len(m.made) == 10 && m.zone == 0
			})
			more := map[provider.ID]resource.Amounts{}
			for _, r := range w.compute.servers[w.owners[g.ID]].Residences() {
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
					if d.State == schedule.Available && !d.Spent {
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
		"left": func(w *World) {
			m, _, _ := w.holding(any)
			m.disk.change(journal.Gone("unknown"))
		},
		"guest": func(w *World) {
			_, g, _ := w.holding(any)
			g.Stopped = !g.Stopped
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
