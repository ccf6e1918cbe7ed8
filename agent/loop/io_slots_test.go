package loop

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/slotsurvey"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// slotClass is the resource class of the slots in the tests.
const slotClass = "CUSTOM_GPU"

// slotSource is a host with two GPUs in I/O slots. The owners are the partitions of the host's guests.
type slotSource struct {
	w     *testHost
	rules inventoryfile.Rules
	plain bool // names of providers without the host
}

func (s slotSource) Check() error { return nil }

func (s slotSource) Read(pci.Rules) (facts.Facts, error) {
	system := ioslot.System{Name: "sys1", Reported: true}
	holders := s.w.holders()
	for _, index := range []ioslot.Index{0x1C0FFEE1, 0x1C0FFEE2} {
		slot := ioslot.Slot{Index: index, Description: "3D Controller", Vendor: ioslot.Known(0x10DE),
			Owner: ioslot.Owner{Kind: ioslot.Unowned}}
		if holder := holders[index.String()]; holder != "" {
			slot.Owner = ioslot.Owner{Kind: ioslot.Owned, PartitionID: 3, Name: holder}
		}
		system.Slots = append(system.Slots, slot)
	}
	return facts.Facts{Parts: map[string]any{slotsurvey.Name: slotsurvey.Part{System: system, Rules: s.rules,
		PlainNames: s.plain}}}, nil
}

// newSlotHost returns a host with I/O slots.
func newSlotHost(t *testing.T) *testHost {
	t.Helper()
	w := newTestHost(t)
	file, problems := inventoryfile.Parse("inventory.yaml",
		[]byte("gpus: {identification: {vendor_id: 10DE}, resource_class: CUSTOM_GPU}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w.options.Facts, w.options.Rules = slotSource{w: w, rules: inventoryfile.Merge(file)}, nil
	return w
}

func slotName(n int) string { return fmt.Sprintf("PowerVM IOSlot cmp1 1C0FFEE%d", n) }

// slotServer writes the allocation of a server with slots to Placement and returns its assignment, which has no
// request: the flavor has plain groups.
func (w *testHost) slotServer(id string, slots ...int) host.Server {
	s := host.Server{ID: id, Name: "server " + id, VCPUs: 1, MemoryMB: 512, DiskGB: 1}
	a := resource.Allocation{rootID: {"VCPU": 1}}
	for _, n := range slots {
		a[w.provider(slotName(n)).ID] = resource.Amounts{slotClass: 1}
	}
	w.placement.SetAllocation(resource.ConsumerID(id), a)
	return s
}

// The agent is ended at each call in turn, while it reports slots, gives them to servers, and takes them back. The
// final state is always the same: no slot has two guests, and no guest is without its slot.
func TestCrashAtEachStepWithIOSlots(t *testing.T) {
	crashAtCalls(t, 2*testenv.Stride(3), 30, 400, slotScenario)
}

// slotScenario assigns two servers with a slot each, removes one, and assigns another that gets its slot.
func slotScenario(t *testing.T, crashes func() *crash) {
	w := newSlotHost(t)
	w.checkReportedBuilds()
	w.runAgents(func() bool {
		return w.provider(slotName(1)).Inventories[slotClass].Total == 1 &&
			w.provider(slotName(2)).Inventories[slotClass].Total == 1
	}, crashes)
	w.compute.assign(w.slotServer("s1", 1), w.slotServer("s2", 2))
	w.runAgents(func() bool { return w.inPhase(host.Running, "s1", "s2") }, crashes)
	w.checkConsistent("s1", "s2")
	w.placement.remove("s1")
	w.compute.assign(w.slotServer("s2", 2))
	w.runAgents(func() bool { return w.inPhase(host.Gone, "s1") && len(w.journalled().Gone()) == 0 }, crashes)
	w.compute.assign(w.slotServer("s2", 2), w.slotServer("s3", 1))
	w.runAgents(func() bool { return w.inPhase(host.Running, "s3") }, crashes)
	w.checkConsistent("s2", "s3")
	if got := w.holders(); len(got) != 2 || got["1C0FFEE1"] != "s3" || got["1C0FFEE2"] != "s2" {
		t.Errorf("holders %v", got)
	}
	for n := 1; n <= 2; n++ {
		if inv := w.provider(slotName(n)).Inventories[slotClass]; inv.Reserved != 0 {
			t.Errorf("the slot %d of a guest is reserved: %+v", n, inv)
		}
	}
}

// Two hosts whose providers have the plain names collide, because names are unique in Placement: the second one is
// refused with what to change before it writes anything.
func TestPlainNamesOfTwoHostsCollide_C7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlotHost(t)
		source := w.options.Facts.(slotSource)
		source.plain = true
		w.options.Facts = source
		w.placement.setTree(provider.Provider{ID: "cmp2", Name: "cmp2"}, provider.Provider{ID: "foreign",
			Name: "PowerVM IOSlot 1C0FFEE1", Parent: "cmp2", Root: "cmp2", Generation: 3})
		before := w.writes()
		if got := w.refusedStart(fault.Invalid); !strings.Contains(got, "plain_provider_names is for one host") {
			t.Error(got)
		}
		if w.writes() != before || w.provider("cmp1").ID != "" {
			t.Errorf("%d writes", w.writes()-before)
		}
		if p := w.provider("PowerVM IOSlot 1C0FFEE1"); p.ID != "foreign" || p.Generation != 3 || p.Parent != "cmp2" {
			t.Errorf("%+v", p)
		}
	})
}

// A server that does not answer, and a file that is not valid, write nothing to Placement, at the start and later.
func TestFailedReadWritesNothing_R40(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlotHost(t)
		source := &failingSource{Source: w.options.Facts}
		w.options.Facts, w.options.Rescan = source, time.Minute
		_, stop := w.startReported()
		defer func() { must(t, stop()) }()
		w.until("the slots are reported", func() bool { return w.provider(slotName(2)).Inventories[slotClass].Total == 1 })
		before := w.writes()
		for _, kind := range []fault.Kind{fault.Unavailable, fault.Invalid} {
			source.fail(fault.New(kind, "no"))
			time.Sleep(10 * time.Minute)
		}
		if after := w.writes(); after != before || w.provider(slotName(1)).ID == "" {
			t.Errorf("%d writes", after-before)
		}
	})
}

// failingSource is a source that fails on request.
type failingSource struct {
	facts.Source
	mu  sync.Mutex
	err error
}

func (s *failingSource) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *failingSource) Read(rules pci.Rules) (facts.Facts, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return facts.Facts{}, err
	}
	return s.Source.Read(rules)
}

// A provider that is named like a slot without being one is not skipped: the server fails, because its guest would
// lack a device.
func TestProviderNamedLikeASlotFailsTheServer_R47_R48(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlotHost(t)
		w.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"},
			provider.Provider{ID: "odd", Name: "PowerVM IOSlot cmp1 1C0F", Parent: rootID, Root: rootID,
				Inventories: map[resource.Class]resource.Inventory{slotClass: resource.Whole(1)}})
		_, stop := w.startReported()
		defer func() { must(t, stop()) }()
		s := w.slotServer("s1")
		w.placement.set("s1", "odd", resource.Amounts{slotClass: 1})
		w.compute.assign(s)
		w.untilPhase(host.Failed, "s1")
		contains(t, w.compute.guest("s1").Message, "is named like that of an I/O slot")
		if len(w.running()) != 0 || w.provider("PowerVM IOSlot cmp1 1C0F").ID == "" {
			t.Errorf("guests %v", w.running())
		}
	})
}

// While Placement cannot be reached, a guest is not built and its server does not fail: it is built when Placement
// answers again. A condition says why it waits.
func TestBuildWithSlotsWaitsForPlacement_R47(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlotHost(t)
		var unreachable atomic.Bool
		w.placement.fail = func(string) error {
			if unreachable.Load() {
				return fault.New(fault.Unavailable, "no answer")
			}
			return nil
		}
		_, stop := w.startReported()
		defer func() { must(t, stop()) }()
		unreachable.Store(true)
		w.compute.assign(w.slotServer("s1", 1))
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no answer") })
		time.Sleep(10 * time.Minute)
		if phase := w.compute.phase("s1"); len(w.running()) != 0 || phase == host.Failed {
			t.Errorf("guests %v; s1 is %s", w.running(), phase)
		}
		unreachable.Store(false)
		w.untilPhase(host.Running, "s1")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
	})
}

// Providers that are not those of slots are never touched, whatever is in the tree: neither another family of names,
// nor a name with another host, nor other children.
func TestOtherChildrenAreNeverTouched_R28(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlotHost(t)
		names := []string{"PowerVM PF 1C0FFEE9", "PowerVM IOSlot cmp9 1C0FFEE9", "PowerVM IOSlotX 1C0FFEE9", "other"}
		tree := []provider.Provider{{ID: rootID, Name: "cmp1"}}
		for _, name := range append(names, "PowerVM IOSlot cmp1 1C0FFEE9") {
			tree = append(tree, provider.Provider{ID: provider.ID("id " + name), Name: name, Parent: rootID, Root: rootID,
				Generation: 4, Inventories: map[resource.Class]resource.Inventory{slotClass: resource.Whole(1)}})
		}
		w.placement.setTree(tree...)
		_, stop := w.startReported()
		defer func() { must(t, stop()) }()
		w.until("the orphan is deleted", func() bool { return w.provider("PowerVM IOSlot cmp1 1C0FFEE9").ID == "" })
		for _, name := range names {
			if p := w.provider(name); p.Generation != 4 {
				t.Errorf("%s: %+v", name, p)
			}
		}
	})
}
