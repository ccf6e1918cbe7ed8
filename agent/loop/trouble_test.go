package loop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// refusedStart runs an agent that must not start, and gives the sentence.
func (w *world) refusedStart(kind fault.Kind) string {
	w.t.Helper()
	err := w.agent().Run(w.t.Context())
	if !fault.Is(err, kind) {
		w.t.Fatalf("the start ended with %v, want %s", err, kind)
	}
	return err.Error()
}

func contains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in %q", word, text)
		}
	}
}

func TestClaims(t *testing.T) {
	story(t, "more servers than devices: those without one fail, each with a sentence", func(t *testing.T, w *world) {
		_, stop := w.begin()
		var all []host.Server
		for i := range 5 { // of two devices
			all = append(all, w.want(fmt.Sprintf("s%d", i), name1))
		}
		w.office.assign(all...)
		running, failed := 0, 0
		for _, s := range all {
			w.until(s.ID+" ended", func() bool { return w.office.phase(s.ID) == host.Running || w.office.phase(s.ID) == host.Failed })
			if g := w.office.guest(s.ID); g.Phase == host.Running {
				running++
			} else {
				failed++
				contains(t, g.Message, name1, "2 of 2 held")
			}
		}
		must(t, stop())
		if running != 2 || failed != 3 || len(w.holders()) != 2 {
			t.Errorf("%d run, %d failed, held %v", running, failed, w.holders())
		}
	})
	story(t, "no allocation, no guest", func(t *testing.T, w *world) {
		_, stop := w.begin()
		s1, s2 := w.want("s1", name1), w.want("s2", name1, name1)
		delete(w.ledger.allocations, "s1")
		w.ledger.allocations["s2"][w.provider(name1).ID][class] = 1
		w.office.assign(s1, s2)
		w.untilPhase(host.Failed, "s1", "s2")
		must(t, stop())
		contains(t, w.office.guest("s1").Message, "no allocation of server s1 on cmp1")
		contains(t, w.office.guest("s2").Message, "assigned 2 "+class, "has 1")
		w.consistent()
	})
	story(t, "an assignment that this agent does not understand fails", func(t *testing.T, w *world) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		s.Requests[0].Type = "type-Q"
		w.office.assign(s)
		w.untilPhase(host.Failed, "s1")
		must(t, stop())
		contains(t, w.office.guest("s1").Message, "type-Q")
	})
	story(t, "without providers any device that fits will do", func(t *testing.T, w *world) {
		_, stop := w.begin()
		s := w.want("s1", name1, name1, name2)
		s.Requests[0].Providers = nil
		w.office.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	story(t, "a device passes from one who leaves to one who comes", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1, name1))
		w.untilPhase(host.Running, "s1")
		w.office.assign(w.want("s2", name1, name1))
		w.untilPhase(host.Running, "s2")
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent("s2")
	})
	story(t, "who waits in vain for others to leave fails in the end", func(t *testing.T, w *world) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "destroy" {
				return fault.New(fault.Internal, "test", "it will not die")
			}
			return nil
		}
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1, name1))
		w.untilPhase(host.Running, "s1")
		w.office.assign(w.want("s2", name1))
		w.untilPhase(host.Failed, "s2")
		contains(t, w.office.conditions(), "s1", "it will not die")
		must(t, stop())
		w.consistent("s1")
	})
	story(t, "an assignment that changed before its guest was built is claimed anew", func(t *testing.T, w *world) {
		stuck := make(chan struct{})
		w.guests.Fail = func(ctx context.Context, operation, _ string) error {
			if operation != "build" {
				return nil
			}
			select {
			case <-stuck:
				return nil
			case <-ctx.Done():
				return fault.Wrap(fault.Unavailable, "test", ctx.Err())
			}
		}
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		w.office.assign(w.want("s1", name2))
		w.until("claimed anew", func() bool {
			g := w.office.guest("s1")
			return len(g.Devices) == 1 && g.Devices[0].Address == "0000:5e:00.1"
		})
		close(stuck)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
}

func TestBuilding(t *testing.T) {
	story(t, "a guest that cannot be built leaves nothing", func(t *testing.T, w *world) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Internal, "test", "no such image")
			}
			return nil
		}
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Failed, "s1")
		contains(t, w.office.guest("s1").Message, "no such image")
		time.Sleep(time.Minute)
		must(t, stop())
		w.consistent()
		if n := strings.Count(strings.Join(w.office.said, ","), "failed"); n != 1 {
			t.Errorf("told %d times that it failed", n)
		}
		if said := strings.Join(w.office.said, ","); !strings.Contains(said[strings.Index(said, "claimed"):strings.Index(said, "failed")], "report free=4") {
			t.Errorf("compute heard of the failure before it heard of the free device: %s", said)
		}
	})
	story(t, "a hypervisor that is away for a while", func(t *testing.T, w *world) {
		var builds atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && builds.Add(1) < buildTries {
				return fault.New(fault.Unavailable, "test", "restarting")
			}
			return nil
		}
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	story(t, "a hypervisor that stays away", func(t *testing.T, w *world) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Unavailable, "test", "no daemon")
			}
			return nil
		}
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Failed, "s1")
		must(t, stop())
		contains(t, w.office.guest("s1").Message, "no daemon")
		w.consistent()
	})
	story(t, "a slow guest that is wanted no more is given up", func(t *testing.T, w *world) {
		w.guests.Fail = func(ctx context.Context, operation, _ string) error {
			if operation == "build" {
				<-ctx.Done()
				return fault.Wrap(fault.Unavailable, "test", ctx.Err())
			}
			return nil
		}
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		w.office.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent()
	})
	story(t, "a guest that vanished is built again with its devices", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, w.guests.Destroy(t.Context(), "s1"))
		w.until("it is back", func() bool { return slices.Equal(w.running(), []string{"s1"}) })
		time.Sleep(time.Minute)
		must(t, stop())
		w.consistent("s1")
	})
	story(t, "no more guests are built at once than allowed", func(t *testing.T, w *world) {
		var now, most atomic.Int32
		w.options.Parallel = 3
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
			}
			return nil
		}
		_, stop := w.begin()
		var all []host.Server
		for i := range 10 {
			all = append(all, w.want(fmt.Sprintf("s%d", i)))
		}
		w.office.assign(all...)
		for _, s := range all {
			w.untilPhase(host.Running, s.ID)
		}
		must(t, stop())
		if most.Load() != 3 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func TestObservationFreesNothing(t *testing.T) {
	story(t, "a claim whose guest is not built waits for compute's word", func(t *testing.T, w *world) {
		a, stop := w.begin()
		j, err := a.set.At(pci.Address{Bus: 0x3b, Func: 1})
		if !err {
			t.Fatal("no device")
		}
		must(t, stop())
		book, fail := journal.Open(w.options.Dir)
		must(t, fail)
		set, claims, refusal := a.set.Claim("s9", pci.Request{ID: "r", Count: 1, Providers: []resource.ProviderID{j.Provider}, Want: pci.Want{Type: pci.Virtual}})
		if refusal != "" || set.Len() != 4 {
			t.Fatal(refusal)
		}
		must(t, book.Put("s9", claims))
		must(t, book.Close())
		w.office.mute = true
		_, stop = w.begin()
		time.Sleep(10 * time.Minute)
		if got := w.journalled().Servers(); !slices.Equal(got, []string{"s9"}) {
			t.Errorf("the journal has %v", got)
		}
		w.office.mu.Lock()
		w.office.mute = false
		w.office.mu.Unlock()
		w.untilPhase(host.Gone, "s9")
		must(t, stop())
		w.consistent()
	})
	story(t, "a device that vanished stays its holder's, also in Placement", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.machine.remove("0000:3b:00.1")
		w.machine.remove("0000:3b:00.2")
		w.until("a note", func() bool { return strings.Contains(w.office.conditions(), "0000:3b:00.1") })
		if p := w.provider(name1); p.Inventories[class].Total != 1 {
			t.Errorf("%+v", p)
		}
		must(t, stop())
		_, stop = w.begin() // the journal alone knows the device now
		w.untilPhase(host.Running, "s1")
		if p := w.provider(name1); p.Inventories[class].Total != 1 {
			t.Errorf("after the restart: %+v", p)
		}
		w.ledger.mu.Lock()
		delete(w.ledger.allocations, "s1")
		w.ledger.mu.Unlock()
		w.office.assign()
		w.untilPhase(host.Gone, "s1")
		w.until("the provider goes with its last holder", func() bool { return w.provider(name1).ID == "" })
		must(t, stop())
	})
	story(t, "a device that cannot be read is not gone", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.machine.spoil("0000:5e:00.1")
		w.until("a condition", func() bool { return strings.Contains(w.office.conditions(), "0000:5e:00.1") })
		if p := w.provider(name2); p.Inventories[class].Total != 2 {
			t.Errorf("%+v", p)
		}
		w.machine.remove("0000:5e:00.1")
		w.until("it is gone", func() bool { return w.provider(name2).Inventories[class].Total == 1 })
		must(t, stop())
	})
	story(t, "guests tell an agent without a journal what they hold", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1, name2))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.forgetJournal()
		w.office.assign(w.want("s1", name1, name2), w.want("s2", name1))
		_, stop = w.begin()
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.consistent("s1", "s2")
		if id, _ := w.journalled().Identity(); id.Provider != rootID {
			t.Errorf("%+v", id)
		}
	})
	story(t, "a journal that contradicts a guest is not believed", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		book, err := journal.Open(w.options.Dir)
		must(t, err)
		claims, _ := book.State().Of("s1")
		must(t, book.Put("s2", claims))
		must(t, book.Close())
		w.office.assign(w.want("s1", name1), w.want("s2", name1))
		_, stop = w.begin()
		w.untilPhase(host.Running, "s1", "s2")
		contains(t, w.office.conditions(), "0000:3b:00.1", "s2")
		must(t, stop())
		w.consistent("s1", "s2")
	})
}

func TestStart(t *testing.T) {
	story(t, "reporting cannot be switched off", func(t *testing.T, w *world) {
		_, stop := w.begin()
		must(t, stop())
		w.options.ReportInPlacement = false
		writes := w.writes()
		contains(t, w.refusedStart(fault.Invalid), "report_in_placement", name1)
		if w.writes() != writes {
			t.Error("wrote to Placement all the same")
		}
	})
	story(t, "a host that never reported devices keeps them to itself", func(t *testing.T, w *world) {
		w.options.ReportInPlacement = false
		a, stop := w.begin()
		if n := len(w.ledger.tree.Providers); n != 1 || len(a.Report().Devices) != 4 || a.Report().Devices[0].Provider != "" {
			t.Errorf("%d providers, report %+v", n, a.Report())
		}
		must(t, stop())
	})
	story(t, "a configuration that cannot be reported", func(t *testing.T, w *world) {
		rules, err := pci.ParseSpecs(`{"vendor_id":"8086"}`)
		must(t, err)
		w.options.Rules = rules
		contains(t, w.refusedStart(fault.Invalid), pf1, "0000:3b:00.1")
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
	})
	story(t, "a Placement that is not there yet", func(t *testing.T, w *world) {
		began := time.Now()
		w.ledger.fail = func(string) error {
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
	story(t, "an end while waiting for Placement is no fault", func(t *testing.T, w *world) {
		w.ledger.fail = func(string) error { return fault.New(fault.Unavailable, "test", "connection refused") }
		_, stop := w.start()
		time.Sleep(time.Minute)
		must(t, stop())
	})
	story(t, "a Placement that forbids", func(t *testing.T, w *world) {
		w.ledger.fail = func(string) error { return fault.New(fault.Forbidden, "test", "no such token") }
		contains(t, w.refusedStart(fault.Forbidden), "no such token")
	})
	story(t, "two agents", func(t *testing.T, w *world) {
		_, stop := w.begin()
		contains(t, w.refusedStart(fault.Conflict), w.options.Dir)
		must(t, stop())
	})
	story(t, "the root that Placement has is adopted", func(t *testing.T, w *world) {
		w.ledger.tree.Providers = []provider.Provider{{ID: "22222222-2222-4222-8222-222222222222", Name: "cmp1"}}
		a, stop := w.begin()
		if got := a.Report().Provider; got != "22222222-2222-4222-8222-222222222222" {
			t.Error(got)
		}
		must(t, stop())
		w.ledger.tree.Providers = []provider.Provider{{ID: rootID, Name: "cmp1"}}
		_, stop = w.begin()
		contains(t, w.office.conditions(), rootID, "22222222-2222-4222-8222-222222222222")
		must(t, stop())
		if id, _ := w.journalled().Identity(); id.Provider != rootID {
			t.Errorf("%+v", id)
		}
	})
	story(t, "a root that somebody deleted comes back as the same", func(t *testing.T, w *world) {
		w.options.NewID = func() string { t.Error("a new id"); return "?" }
		w.ledger.tree.Providers = []provider.Provider{{ID: rootID, Name: "cmp1"}}
		_, stop := w.begin()
		w.ledger.mu.Lock()
		w.ledger.tree.Providers = nil
		w.ledger.mu.Unlock()
		w.until("it is back", func() bool { return w.provider("cmp1").ID == rootID && w.provider(name2).Inventories[class].Total == 2 })
		must(t, stop())
	})
	for name, c := range map[string]struct {
		identity journal.Identity
		tree     []provider.Provider
		words    []string
	}{
		"a provider of that name under another": {tree: []provider.Provider{{ID: "x", Name: "rack"}, {ID: rootID, Name: "cmp1", Parent: "x"}}, words: []string{"must be a root"}},
		"the journal of another host":           {identity: journal.Identity{Host: "cmp2", Provider: rootID}, words: []string{"cmp2", "cmp1"}},
		"a root under another name": {identity: journal.Identity{Host: "cmp1", Provider: rootID}, tree: []provider.Provider{{ID: rootID, Name: "renamed"}},
			words: []string{"renamed"}},
	} {
		story(t, name, func(t *testing.T, w *world) {
			if c.identity != (journal.Identity{}) {
				book, err := journal.Open(w.options.Dir)
				must(t, err)
				must(t, book.SetIdentity(c.identity))
				must(t, book.Close())
			}
			w.ledger.tree.Providers = c.tree
			contains(t, w.refusedStart(fault.Invalid), c.words...)
			if w.writes() != 0 {
				t.Errorf("%d writes", w.writes())
			}
		})
	}
}

func TestPlacementTrouble(t *testing.T) {
	story(t, "a plan that others spoilt is thrown away and made anew", func(t *testing.T, w *world) {
		var spoilt atomic.Int32
		w.ledger.fail = func(call string) error {
			if call == "PutInventories" && spoilt.Add(1) <= 3 {
				return fault.New(fault.Conflict, "test", "generation moved")
			}
			return nil
		}
		_, stop := w.begin()
		if w.provider(name2).Inventories[class].Total != 2 || w.office.conditions() != "" {
			t.Errorf("%+v, conditions %q", w.provider(name2), w.office.conditions())
		}
		must(t, stop())
	})
	story(t, "others who never stop do not keep the agent from serving", func(t *testing.T, w *world) {
		_, stop := w.begin()
		must(t, stop())
		w.machine.add("0000:3b:00.3", "154c", pf1)
		w.ledger.fail = func(call string) error {
			if call == "PutInventories" {
				return fault.New(fault.Conflict, "test", "generation moved")
			}
			return nil
		}
		_, stop = w.begin()
		w.until("a condition", func() bool { return strings.Contains(w.office.conditions(), "generation moved") })
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
	})
	story(t, "no guest is built while Placement cannot say what it holds", func(t *testing.T, w *world) {
		_, stop := w.begin()
		var away atomic.Bool
		away.Store(true)
		w.ledger.mu.Lock()
		w.ledger.fail = func(string) error {
			if away.Load() {
				return fault.New(fault.Unavailable, "test", "gone fishing")
			}
			return nil
		}
		w.ledger.mu.Unlock()
		s1 := host.Server{ID: "s1", Requests: w.want("s1", name1).Requests}
		w.office.assign(s1)
		w.until("a condition", func() bool { return strings.Contains(w.office.conditions(), "gone fishing") })
		if len(w.running()) != 0 || w.office.phase("s1") != "" {
			t.Errorf("guests %v, told %v", w.running(), w.office.phase("s1"))
		}
		away.Store(false)
		w.untilPhase(host.Running, "s1")
		w.until("no condition", func() bool { return w.office.conditions() == "" })
		must(t, stop())
	})
	story(t, "a dry run writes nothing", func(t *testing.T, w *world) {
		plan, err := w.agent().Plan(t.Context())
		must(t, err)
		if len(plan.Steps) < 6 || w.writes() != 0 {
			t.Errorf("%+v, %d writes", plan, w.writes())
		}
		if _, err := os.Stat(w.options.Dir); err == nil {
			t.Error("the dry run made a journal")
		}
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
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

func TestWatch(t *testing.T) {
	story(t, "streams that end are opened again", func(t *testing.T, w *world) {
		_, stop := w.begin()
		for i := range 5 {
			id := fmt.Sprintf("s%d", i)
			w.office.endStreams()
			w.office.assign(w.want(id))
			w.untilPhase(host.Running, id)
		}
		must(t, stop())
		if w.office.streams != 6 {
			t.Errorf("%d streams", w.office.streams)
		}
	})
	story(t, "a silent stream is given up after three heartbeats", func(t *testing.T, w *world) {
		w.office.mute = true
		_, stop := w.begin()
		time.Sleep(10 * host.Heartbeat)
		must(t, stop())
		if n := w.office.streams; n < 3 || n > 5 {
			t.Errorf("%d streams in ten heartbeats", n)
		}
	})
	story(t, "a compute that went back in time is believed", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.office.assign(w.want("s1"))
		w.untilPhase(host.Running, "s1")
		w.office.mu.Lock()
		w.office.line.Revision = -5
		w.office.mu.Unlock()
		w.office.assign(w.want("s1"), w.want("s2"))
		w.untilPhase(host.Running, "s2")
		must(t, stop())
		w.consistent("s1", "s2")
	})
}

// A host where a guest of the hypervisor holds a device that the journal gave to nobody and device_spec no longer offers.
func TestUnknownDeviceOfAGuest(t *testing.T) {
	story(t, "it is held and not in the way of the report", func(t *testing.T, w *world) {
		must(t, w.guests.Build(t.Context(), hypervisor.Guest{ID: "s1", Devices: []hypervisor.Device{{Address: pci.Address{Bus: 9}, Request: "r"}}}))
		w.office.assign(host.Server{ID: "s1"})
		_, stop := w.begin()
		w.untilPhase(host.Running, "s1")
		contains(t, w.office.conditions(), "0000:09:00.0", "s1")
		must(t, stop())
		w.consistent("s1")
	})
}
