package loop

import (
	"io/fs"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

func TestStartConditions(t *testing.T) {
	scenario(t, "reporting cannot be switched off", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		w.options.ReportInPlacement = false
		writes := w.writes()
		contains(t, w.refusedStart(fault.Invalid), "report_in_placement", name1)
		if w.writes() != writes {
			t.Error("Placement was written")
		}
	})
	scenario(t, "without report_in_placement devices are not written to Placement", func(t *testing.T, w *testHost) {
		w.options.ReportInPlacement = false
		a, stop := w.startReported()
		if n := len(w.placement.tree().Providers); n != 1 || len(a.Report().Devices) != 4 ||
			a.Report().Devices[0].Provider != "" {
			t.Errorf("%d providers, report %+v", n, a.Report())
		}
		must(t, stop())
	})
	scenario(t, "a configuration that cannot be reported writes nothing", func(t *testing.T, w *testHost) {
		setRules(w, `{"vendor_id":"8086"}`)
		contains(t, w.refusedStart(fault.Invalid), pf1, "0000:3b:00.1")
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
	})
	scenario(t, "the start waits for a Placement that does not answer", func(t *testing.T, w *testHost) {
		began := time.Now()
		w.placement.fail = func(string) error {
			if time.Since(began) < 2*time.Minute {
				return fault.New(fault.Unavailable, "connection refused")
			}
			return nil
		}
		_, stop := w.startReported()
		if time.Since(began) < 2*time.Minute || w.provider(name2).ID == "" {
			t.Error("the agent started without Placement")
		}
		must(t, stop())
	})
	scenario(t, "the start retries a few internal faults of Placement, not many", func(t *testing.T, w *testHost) {
		var calls atomic.Int32
		w.placement.fail = func(call string) error {
			if call == "PutInventories" && calls.Add(1) <= 3 {
				return fault.New(fault.Internal, "deadlock found")
			}
			return nil
		}
		_, stop := w.startReported()
		if w.provider(name2).Inventories[class].Total != 2 {
			t.Error("the agent started without writing the inventory")
		}
		must(t, stop())
		w.placement.fail = func(string) error { return fault.New(fault.Internal, "no such table") }
		contains(t, w.refusedStart(fault.Internal), "no such table")
	})
	scenario(t, "an agent that is stopped while it waits for Placement returns no fault", func(t *testing.T, w *testHost) {
		w.placement.fail = func(string) error { return fault.New(fault.Unavailable, "connection refused") }
		_, stop := w.start()
		time.Sleep(time.Minute)
		must(t, stop())
	})
	scenario(t, "Placement refuses the token", func(t *testing.T, w *testHost) {
		w.placement.fail = func(string) error { return fault.New(fault.Forbidden, "no such token") }
		contains(t, w.refusedStart(fault.Forbidden), "no such token")
	})
	scenario(t, "a directory that is not /sys", func(t *testing.T, w *testHost) {
		w.sysfs.change(func(tree fstest.MapFS) { clear(tree) })
		contains(t, w.refusedStart(fault.Invalid), "has no bus/pci/devices")
		if _, err := w.agent().Plan(t.Context()); !fault.Is(err, fault.Invalid) {
			t.Errorf("a dry run: %v", err)
		}
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
	})
	scenario(t, "a missing /sys does not count as a host without devices", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		was := w.sysfs.now()
		w.sysfs.change(func(tree fstest.MapFS) { clear(tree) })
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "bus/pci/devices") })
		if w.provider(name1).Inventories[class].Total != 2 {
			t.Errorf("%+v", w.provider(name1))
		}
		w.sysfs.change(func(tree fstest.MapFS) { maps.Copy(tree, was) })
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		w.sysfs.change(func(tree fstest.MapFS) {
			clear(tree)
			tree["bus/pci/devices"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		})
		w.until("the devices are gone", func() bool { return w.provider(name1).ID == "" })
		must(t, stop())
	})
	scenario(t, "two agents with one directory", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		contains(t, w.refusedStart(fault.Conflict), w.options.Dir)
		must(t, stop())
	})
	scenario(t, "the root that Placement has is adopted", func(t *testing.T, w *testHost) {
		w.placement.setTree(provider.Provider{ID: "22222222-2222-4222-8222-222222222222", Name: "cmp1"})
		a, stop := w.startReported()
		if got := a.Report().Provider; got != "22222222-2222-4222-8222-222222222222" {
			t.Error(got)
		}
		must(t, stop())
		w.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"})
		_, stop = w.startReported()
		contains(t, w.compute.conditions(), rootID, "22222222-2222-4222-8222-222222222222")
		must(t, stop())
		if id, _ := w.journalled().Identity(); id.Provider != rootID {
			t.Errorf("%+v", id)
		}
	})
	scenario(t, "a root provider that another client deletes is created again with its id",
		func(t *testing.T, w *testHost) {
			var ids atomic.Int32
			w.options.NewID = func() string {
				if ids.Add(1) > 1 { // the first is the agent's own
					t.Error("a new id")
				}
				return "?"
			}
			w.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"})
			_, stop := w.startReported()
			w.placement.setTree()
			w.until("it is back", func() bool {
				return w.provider("cmp1").ID == rootID &&
					w.provider(name2).Inventories[class].Total == 2
			})
			must(t, stop())
		})
	for name, c := range map[string]struct {
		identity journal.Identity
		tree     []provider.Provider
		words    []string
	}{
		"a child provider with the name of the host": {tree: []provider.Provider{{ID: "x", Name: "rack"},
			{ID: rootID, Name: "cmp1", Parent: "x"}}, words: []string{"must be a root"}},
		"the journal of another host": {identity: journal.Identity{Host: "cmp2", Provider: rootID},
			words: []string{"cmp2", "cmp1"}},
		"a root under another name": {identity: journal.Identity{Host: "cmp1", Provider: rootID},
			tree:  []provider.Provider{{ID: rootID, Name: "renamed"}},
			words: []string{"renamed"}},
	} {
		scenario(t, name, func(t *testing.T, w *testHost) {
			if c.identity != (journal.Identity{}) {
				opened, err := journal.Open(w.options.Dir)
				must(t, err)
				must(t, opened.Write(c.identity.Entry()))
				must(t, opened.Close())
			}
			w.placement.setTree(c.tree...)
			contains(t, w.refusedStart(fault.Invalid), c.words...)
			if w.writes() != 0 {
				t.Errorf("%d writes", w.writes())
			}
		})
	}
}
