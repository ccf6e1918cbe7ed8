package loop

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
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
				return fault.New(fault.Unavailable, "test", "connection refused")
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
				return fault.New(fault.Internal, "test", "deadlock found")
			}
			return nil
		}
		_, stop := w.startReported()
		if w.provider(name2).Inventories[class].Total != 2 {
			t.Error("the agent started without writing the inventory")
		}
		must(t, stop())
		w.placement.fail = func(string) error { return fault.New(fault.Internal, "test", "no such table") }
		contains(t, w.refusedStart(fault.Internal), "no such table")
	})
	scenario(t, "an agent that is stopped while it waits for Placement returns no fault", func(t *testing.T, w *testHost) {
		w.placement.fail = func(string) error { return fault.New(fault.Unavailable, "test", "connection refused") }
		_, stop := w.start()
		time.Sleep(time.Minute)
		must(t, stop())
	})
	scenario(t, "Placement refuses the token", func(t *testing.T, w *testHost) {
		w.placement.fail = func(string) error { return fault.New(fault.Forbidden, "test", "no such token") }
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

func TestPlacementFaults(t *testing.T) {
	scenario(t, "a plan is discarded and made again after a conflict", func(t *testing.T, w *testHost) {
		var conflicts atomic.Int32
		w.placement.fail = func(call string) error {
			if call == "PutInventories" && conflicts.Add(1) <= 3 {
				return fault.New(fault.Conflict, "test", "generation moved")
			}
			return nil
		}
		_, stop := w.startReported()
		if w.provider(name2).Inventories[class].Total != 2 || w.compute.conditions() != "" {
			t.Errorf("%+v, conditions %q", w.provider(name2), w.compute.conditions())
		}
		must(t, stop())
	})
	scenario(t, "an agent serves while each plan conflicts with other clients", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.placement.fail = func(call string) error {
			if call == "PutInventories" {
				return fault.New(fault.Conflict, "test", "generation moved")
			}
			return nil
		}
		_, stop = w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "generation moved") })
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
	})
	scenario(t, "no guest is built while its allocation cannot be read", func(t *testing.T, w *testHost) {
		var unavailable atomic.Bool
		w.placement.fail = func(string) error {
			if unavailable.Load() {
				return fault.New(fault.Unavailable, "test", "no answer")
			}
			return nil
		}
		_, stop := w.startReported()
		unavailable.Store(true)
		s1 := host.Server{ID: "s1", Requests: w.server("s1", name1).Requests}
		w.compute.assign(s1)
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no answer") })
		if len(w.running()) != 0 || w.compute.phase("s1") != "" {
			t.Errorf("guests %v, reported %v", w.running(), w.compute.phase("s1"))
		}
		unavailable.Store(false)
		w.untilPhase(host.Running, "s1")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "traits of the configuration are added and removed, those of others are kept",
		func(t *testing.T, w *testHost) {
			for at := 1; at < 20; at++ { // the agent that writes the first ones crashes at each call
				setRules(w, `{"vendor_id":"8086","product_id":"154c","traits":"CUSTOM_OLD"}`)
				crashes, _ := crashOnce(at, true)
				w.runAgents(func() bool { return w.provider(name2).HasTrait("CUSTOM_OLD") }, crashes)
				for _, p := range w.placement.tree().Providers {
					w.placement.change(p.Name, func(p *provider.Provider) {
						p.Traits = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(p.Traits), "CUSTOM_FOREIGN"))))
					})
				}
				setRules(w, `{"vendor_id":"8086","product_id":"154c","traits":"CUSTOM_NEW"}`)
				_, stop := w.startReported()
				must(t, stop())
				for _, name := range []string{name1, name2} {
					if p := w.provider(name); p.HasTrait("CUSTOM_OLD") || !p.HasTrait("CUSTOM_NEW") || !p.HasTrait("CUSTOM_FOREIGN") {
						t.Fatalf("crash at call %d: %s has %v", at, name, p.Traits)
					}
				}
				if p := w.provider("cmp1"); !p.HasTrait("CUSTOM_FOREIGN") {
					t.Fatalf("the root has %v", p.Traits)
				}
				// Back to the first state, except for the traits of others.
				setRules(w, `{"vendor_id":"8086","product_id":"154c"}`)
				_, stop = w.startReported()
				must(t, stop())
			}
		})
	scenario(t, "another class for a device is written while it is free, and refused while it is held",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			must(t, stop())
			setRules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
			_, stop = w.startReported()
			if p := w.provider(name1); p.Inventories["CUSTOM_NIC"].Total != 2 || len(p.Inventories) != 1 {
				t.Errorf("%+v", p)
			}
			setRules(w, `{"vendor_id":"8086","product_id":"154c"}`)
			must(t, stop())
			_, stop = w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			setRules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
			contains(t, w.refusedStart(fault.Invalid), "CUSTOM_NIC", "s1", class)
			w.checkConsistent("s1")
		})
	scenario(t, "an allocation of an unknown consumer keeps the class of a device", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		w.server("stranger", name1) // a consumer that this host does not have
		setRules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
		_, stop = w.startReported()
		contains(t, w.compute.conditions(), name1, class, "stranger")
		if p := w.provider(name1); p.Inventories[class].Total != 2 || len(p.Inventories) != 1 {
			t.Errorf("%+v", p)
		}
		if p := w.provider(name2); p.Inventories["CUSTOM_NIC"].Total != 2 {
			t.Errorf("the other device was not healed: %+v", p)
		}
		must(t, stop())
	})
	scenario(t, "a dry run writes nothing", func(t *testing.T, w *testHost) {
		plan, err := w.agent().Plan(t.Context())
		must(t, err)
		if len(plan.Steps) < 6 || w.writes() != 0 {
			t.Errorf("%+v, %d writes", plan, w.writes())
		}
		if _, err := os.Stat(w.options.Dir); err == nil {
			t.Error("the dry run made a journal")
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		writes := w.writes()
		for range 2 { // beside the running agent, and after it
			plan, err := w.agent().Plan(t.Context())
			if err != nil || !plan.Empty() || len(plan.Objections) > 0 || w.writes() != writes {
				t.Errorf("%+v %v", plan, err)
			}
			must(t, stop())
		}
	})
}
