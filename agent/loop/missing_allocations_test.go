package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// allocated returns the amount of a class that a consumer has of a provider.
func (w *testHost) allocated(consumer, name string, of resource.Class) int {
	p := w.provider(name)
	return w.placement.Held(resource.ConsumerID(consumer))[p.ID][of]
}

// deleteAllocation deletes what a consumer has of a provider.
func (w *testHost) deleteAllocation(consumer, name string) {
	p := w.provider(name)
	w.placement.set(resource.ConsumerID(consumer), p.ID, nil)
}

// legacyServer returns the assignment of a server for whose devices Placement has no allocation.
func (w *testHost) legacyServer(id string, count int) host.Server {
	s := w.server(id)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "nic", Count: count, Class: class, VendorID: "8086",
		ProductID: "154c", Type: "type-VF"}}
	return s
}

func TestMissingAllocations(t *testing.T) {
	scenario(t, "guests from before reporting get their allocations in one reshape, and then nothing is written",
		func(t *testing.T, w *testHost) {
			w.options.ReportInPlacement = false
			_, stop := w.startReported()
			one, three := w.legacyServer("s1", 1), w.legacyServer("s2", 3)
			w.compute.assign(one, three)
			w.untilPhase(host.Running, "s1", "s2")
			must(t, stop())
			w.options.ReportInPlacement = true
			plan, err := w.agent().Plan(t.Context())
			if must(t, err); plan.Steps[len(plan.Steps)-1].Op != treeplan.Reshape || len(plan.Objections) > 0 {
				t.Errorf("%+v", plan)
			}
			a, stop := w.startReported()
			w.until("the allocation is written", func() bool {
				return w.allocated("s1", name1, class)+w.allocated("s2", name1, class) == 2 &&
					w.allocated("s1", name2, class)+w.allocated("s2", name2, class) == 2 &&
					w.allocated("s1", name1, class)+w.allocated("s1", name2, class) == 1
			})
			if w.placement.Held("s1")[rootID]["VCPU"] != 1 {
				t.Errorf("%v", w.placement.all())
			}
			w.until("no condition", func() bool { return w.compute.conditions() == "" })
			writes := w.writes()
			time.Sleep(5 * time.Minute)
			if plan, err := a.Plan(t.Context()); err != nil || !plan.Empty() || w.writes() != writes {
				t.Errorf("%+v %v", plan, err)
			}
			must(t, stop())
			w.checkConsistent("s1", "s2")
		})
	scenario(t, "an allocation is lost while the agent runs", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1, name1), w.server("s2", name2))
		w.untilPhase(host.Running, "s1", "s2")
		w.placement.set("s1", w.provider(name1).ID, resource.Amounts{class: 1}) // a wrong amount
		w.deleteAllocation("s2", name2)
		w.until("written again", func() bool {
			return w.allocated("s1", name1, class) == 2 &&
				w.allocated("s2", name2, class) == 1
		})
		must(t, stop())
	})
	scenario(t, "a consumer without any allocation gets a condition only", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.deleteAllocations("s1")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no allocation of it at all") })
		time.Sleep(5 * time.Minute)
		if len(w.placement.Held("s1")) != 0 {
			t.Errorf("%v", w.placement.all())
		}
		must(t, stop())
	})
	scenario(t, "an allocation above the guest's devices is noted and kept", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		p := w.provider(name1)
		w.placement.SetAllocation("s1", resource.Allocation{rootID: {"VCPU": 1}, p.ID: {class: 2}})
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "nothing is taken from it") })
		must(t, stop())
		if w.allocated("s1", name1, class) != 2 {
			t.Errorf("%v", w.placement.all())
		}
	})
	scenario(t, "a move before its assignments is not mistaken for a loss", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1") // Placement has it under the migration, and s1 has something elsewhere
		w.placement.SetAllocation("s1", resource.Allocation{"elsewhere": {"VCPU": 1}})
		time.Sleep(10 * time.Minute)
		if w.allocated("s1", name1, class) != 0 {
			t.Errorf("%v", w.placement.all())
		}
		w.compute.assign(poweredOff(m))
		w.untilPhase(host.Stopped, "m1")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "the missing allocation of a used and reserved device", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		_, stop := w.startReported()
		w.compute.assign(w.gpuServer("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		w.deleteAllocation("s1", gpuName)
		w.until("written again", func() bool { return w.allocated("s1", gpuName, gpuClass) == 1 })
		w.until("the inventory is as before", func() bool {
			inv := w.provider(gpuName).Inventories[gpuClass]
			return inv.Total == 1 && inv.Reserved == 1 && w.compute.conditions() == ""
		})
		must(t, stop())
	})
}
