package sim

import (
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain runs the tests with less garbage collection: they simulate one cloud at a time, with little memory in use.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1500)
	os.Exit(m.Run())
}

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

// usualOps is the number of operations of all seeds if OPS is not set, and usualPiece that of one seed: the clouds are
// smaller then too, so that the test is short. most is the number of one seed if OPS is set.
const usualOps, usualPiece, most = 100000, 25000, 130000

// TestSeeds simulates a cloud for each seed. OPS is the number of operations of all seeds, SEED the first seed.
func TestSeeds(t *testing.T) {
	usual := usualOps
	if testing.Short() {
		usual = usualPiece
	}
	ops, seed := number(t, "OPS", usual), number(t, "SEED", 1)
	done, happened := map[string]int{}, map[string]int{}
	everything := ops == usualOps || ops >= 8*most // one cloud does not meet everything
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
		o.Varied = seed%4 == 2
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			began := time.Now()
			r := Run(o)
			if r.Failure != "" {
				t.Error(r.Failure)
				if time.Since(began) > time.Minute {
					t.FailNow() // to shrink it takes up to sixty times as long
				}
				small, again := Shrink(o, r)
				t.Fatalf("without %v it still fails:\n%s", small.Without, again.Failure)
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
		"Migrate", "Destroy", "Upload", "ListGuests", "ReportGuest", "resize", "migrate",
		"os-migrateLive", "confirmResize", "revertResize",
		"shelve", "unshelve", "rescue", "unrescue", "rebuild", "reboot", "stop", "start", "evacuate", "dead") {
		// Actions are counted by their own names; "abort" is the choice of one of two, see TestAbortedMigrations.
		if done[kind] == 0 && kind != "action" && kind != "agent" && kind != "abort" && everything {
			t.Errorf("%q never happened", kind)
		}
	}
	// Reports that are out of order are rare here; the mutation uncounted needs them.
	for _, what := range []string{"active", "error", "resized", "shelved", "deleted_awaiting_cleanup", "live_migrating",
		"restoring_allocations", "awaiting_min_count", "claim lost", "room made", "crash",
		"given up", "journal write failed", "device cleaned", "start refused", "refused",
		"compute restored", "Placement restored", "directory copied", "machine replaced", "clock set", "journal lost",
		"database lost", "host forgotten", "host taken over", "start not admitted", "copy on another machine",
		"line not followed", "line of an ended compute",
		"guest report of another start", "guest destroyed", "held back by the gate", "held back by a guest", "host adopted",
		"guest destroyed by the operator", "allocation written back", "ports bound", "disk uploaded", "disk from an image",
		"guarantee of a bound port removed", "incomplete list of guests", "guest built too late", "device disabled",
		"VFs removed", "VFs restored", "probe placed", "probe refused", "probe moved", "probe not moved",
		"headroom counted"} {
		if happened[what] == 0 && everything {
			t.Errorf("%q never happened", what)
		}
	}
}

// A failure is reduced to few kinds of operations, and the reduced simulation finds it again.
func TestAFailureIsShrunk(t *testing.T) {
	o := Options{Seed: 3, Ops: 20000, Hosts: 24, Quiet: 4000, Broken: WrongDevice, Without: []string{Ports}}
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

// The events of servers have simulated times.
func TestTimesAreSimulated(t *testing.T) {
	w := newWorld(Options{Seed: 1, Hosts: 24, Without: []string{Ports, Jump}})
	for range 300 {
		w.n++
		w.advance(time.Second)
		w.operate()
	}
	events := 0
	for id, s := range w.compute.servers {
		for _, e := range s.History {
			if events++; e.At.Before(beginning()) || e.At.After(w.now) {
				t.Errorf("%s: %s, which is not a time of the simulation: %s", id, e.At, e.Text)
			}
		}
	}
	if events == 0 {
		t.Error("no server has events")
	}
}
