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

func TestStart(t *testing.T) {
	scenario(t, "reporting cannot be switched off", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		must(t, stop())
		w.options.ReportInPlacement = false
		writes := w.writes()
		contains(t, w.refusedStart(fault.Invalid), "report_in_placement", name1)
		if w.writes() != writes {
			t.Error("wrote to Placement all the same")
		}
	})
	scenario(t, "a host that never reported devices keeps them to itself", func(t *testing.T, w *testHost) {
		w.options.ReportInPlacement = false
		a, stop := w.begin()
		if n := len(w.placement.tree().Providers); n != 1 || len(a.Report().Devices) != 4 ||
			a.Report().Devices[0].Provider != "" {
			t.Errorf("%d providers, report %+v", n, a.Report())
		}
		must(t, stop())
	})
	scenario(t, "a configuration that cannot be reported writes nothing", func(t *testing.T, w *testHost) {
		rules(w, `{"vendor_id":"8086"}`)
		contains(t, w.refusedStart(fault.Invalid), pf1, "0000:3b:00.1")
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
	})
	scenario(t, "a Placement that is not there yet", func(t *testing.T, w *testHost) {
		began := time.Now()
		w.placement.fail = func(string) error {
			if time.Since(began) < 2*time.Minute {
				return fault.New(fault.Unavailable, "test", "connection refused")
			}
			return nil
		}
		_, stop := w.begin()
		if time.Since(began) < 2*time.Minute || w.provider(name2).ID == "" {
			t.Error("began without Placement")
		}
		must(t, stop())
	})
	scenario(t, "a Placement that stumbles is forgiven, one that falls is not", func(t *testing.T, w *testHost) {
		var calls atomic.Int32
		w.placement.fail = func(call string) error {
			if call == "PutInventories" && calls.Add(1) <= 3 {
				return fault.New(fault.Internal, "test", "deadlock found")
			}
			return nil
		}
		_, stop := w.begin()
		if w.provider(name2).Inventories[class].Total != 2 {
			t.Error("began without reporting")
		}
		must(t, stop())
		w.placement.fail = func(string) error { return fault.New(fault.Internal, "test", "no such table") }
		contains(t, w.refusedStart(fault.Internal), "no such table")
	})
	scenario(t, "an end while waiting for Placement is no fault", func(t *testing.T, w *testHost) {
		w.placement.fail = func(string) error { return fault.New(fault.Unavailable, "test", "connection refused") }
		_, stop := w.start()
		time.Sleep(time.Minute)
		must(t, stop())
	})
	scenario(t, "a Placement that forbids", func(t *testing.T, w *testHost) {
		w.placement.fail = func(string) error { return fault.New(fault.Forbidden, "test", "no such token") }
		contains(t, w.refusedStart(fault.Forbidden), "no such token")
	})
	scenario(t, "a /sys that is none", func(t *testing.T, w *testHost) {
		w.sysfs.change(func(tree fstest.MapFS) { clear(tree) })
		contains(t, w.refusedStart(fault.Invalid), "has no bus/pci/devices")
		if _, err := w.agent().Plan(t.Context()); !fault.Is(err, fault.Invalid) {
			t.Errorf("a dry run: %v", err)
		}
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
	})
	scenario(t, "a /sys that goes away is no machine without devices", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
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
	scenario(t, "two agents", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		contains(t, w.refusedStart(fault.Conflict), w.options.Dir)
		must(t, stop())
	})
	scenario(t, "the root that Placement has is adopted", func(t *testing.T, w *testHost) {
		w.placement.setTree(provider.Provider{ID: "22222222-2222-4222-8222-222222222222", Name: "cmp1"})
		a, stop := w.begin()
		if got := a.Report().Provider; got != "22222222-2222-4222-8222-222222222222" {
			t.Error(got)
		}
		must(t, stop())
		w.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"})
		_, stop = w.begin()
		contains(t, w.compute.conditions(), rootID, "22222222-2222-4222-8222-222222222222")
		must(t, stop())
		if id, _ := w.journalled().Identity(); id.Provider != rootID {
			t.Errorf("%+v", id)
		}
	})
	scenario(t, "a root that somebody deleted comes back as the same", func(t *testing.T, w *testHost) {
		var ids atomic.Int32
		w.options.NewID = func() string {
			if ids.Add(1) > 1 { // the first is the agent's own
				t.Error("a new id")
			}
			return "?"
		}
		w.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"})
		_, stop := w.begin()
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
		"a provider of that name under another": {tree: []provider.Provider{{ID: "x", Name: "rack"},
			{ID: rootID, Name: "cmp1", Parent: "x"}}, words: []string{"must be a root"}},
		"the journal of another host": {identity: journal.Identity{Host: "cmp2", Provider: rootID},
			words: []string{"cmp2", "cmp1"}},
		"a root under another name": {identity: journal.Identity{Host: "cmp1", Provider: rootID},
			tree:  []provider.Provider{{ID: rootID, Name: "renamed"}},
			words: []string{"renamed"}},
	} {
		scenario(t, name, func(t *testing.T, w *testHost) {
			if c.identity != (journal.Identity{}) {
				book, err := journal.Open(w.options.Dir)
				must(t, err)
				must(t, book.Write(c.identity.Entry()))
				must(t, book.Close())
			}
			w.placement.setTree(c.tree...)
			contains(t, w.refusedStart(fault.Invalid), c.words...)
			if w.writes() != 0 {
				t.Errorf("%d writes", w.writes())
			}
		})
	}
}

func TestPlacementTrouble(t *testing.T) {
	scenario(t, "a plan that others spoilt is thrown away and made anew", func(t *testing.T, w *testHost) {
		var spoilt atomic.Int32
		w.placement.fail = func(call string) error {
			if call == "PutInventories" && spoilt.Add(1) <= 3 {
				return fault.New(fault.Conflict, "test", "generation moved")
			}
			return nil
		}
		_, stop := w.begin()
		if w.provider(name2).Inventories[class].Total != 2 || w.compute.conditions() != "" {
			t.Errorf("%+v, conditions %q", w.provider(name2), w.compute.conditions())
		}
		must(t, stop())
	})
	scenario(t, "others who never stop do not keep the agent from serving", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		must(t, stop())
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.placement.fail = func(call string) error {
			if call == "PutInventories" {
				return fault.New(fault.Conflict, "test", "generation moved")
			}
			return nil
		}
		_, stop = w.begin()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "generation moved") })
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
	})
	scenario(t, "no guest is built while Placement cannot say what it holds", func(t *testing.T, w *testHost) {
		var away atomic.Bool
		w.placement.fail = func(string) error {
			if away.Load() {
				return fault.New(fault.Unavailable, "test", "gone fishing")
			}
			return nil
		}
		_, stop := w.begin()
		away.Store(true)
		s1 := host.Server{ID: "s1", Requests: w.want("s1", name1).Requests}
		w.compute.assign(s1)
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "gone fishing") })
		if len(w.running()) != 0 || w.compute.phase("s1") != "" {
			t.Errorf("guests %v, told %v", w.running(), w.compute.phase("s1"))
		}
		away.Store(false)
		w.untilPhase(host.Running, "s1")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "traits of the configuration come and go, those of others stay", func(t *testing.T, w *testHost) {
		for at := 1; at < 20; at++ { // wherever the agent died that put the first ones there
			rules(w, `{"vendor_id":"8086","product_id":"154c","traits":"CUSTOM_OLD"}`)
			deaths, _ := crashOnce(at, true)
			w.runAgents(func() bool { return w.provider(name2).HasTrait("CUSTOM_OLD") }, deaths)
			for _, p := range w.placement.tree().Providers {
				w.placement.change(p.Name, func(p *provider.Provider) {
					p.Traits = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(p.Traits), "CUSTOM_FOREIGN"))))
				})
			}
			rules(w, `{"vendor_id":"8086","product_id":"154c","traits":"CUSTOM_NEW"}`)
			_, stop := w.begin()
			must(t, stop())
			for _, name := range []string{name1, name2} {
				if p := w.provider(name); p.HasTrait("CUSTOM_OLD") || !p.HasTrait("CUSTOM_NEW") || !p.HasTrait("CUSTOM_FOREIGN") {
					t.Fatalf("death at call %d: %s has %v", at, name, p.Traits)
				}
			}
			if p := w.provider("cmp1"); !p.HasTrait("CUSTOM_FOREIGN") {
				t.Fatalf("the root has %v", p.Traits)
			}
			// Back to the beginning, but for what others put there.
			rules(w, `{"vendor_id":"8086","product_id":"154c"}`)
			_, stop = w.begin()
			must(t, stop())
		}
	})
	scenario(t, "another class for a device: swapped when it is free, refused while it is held",
		func(t *testing.T, w *testHost) {
			_, stop := w.begin()
			must(t, stop())
			rules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
			_, stop = w.begin()
			if p := w.provider(name1); p.Inventories["CUSTOM_NIC"].Total != 2 || len(p.Inventories) != 1 {
				t.Errorf("%+v", p)
			}
			rules(w, `{"vendor_id":"8086","product_id":"154c"}`)
			must(t, stop())
			_, stop = w.begin()
			w.compute.assign(w.want("s1", name1))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			rules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
			contains(t, w.refusedStart(fault.Invalid), "CUSTOM_NIC", "s1", class)
			w.consistent("s1")
		})
	scenario(t, "a share that others hold of a device class keeps the class", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		must(t, stop())
		w.want("stranger", name1) // held in Placement by somebody whom this host does not know
		rules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
		_, stop = w.begin()
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
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
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
