package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// share is what a consumer has of a device provider.
func (w *testHost) share(consumer, name string, of resource.Class) int {
	p := w.provider(name)
	return w.placement.Held(resource.ConsumerID(consumer))[p.ID][of]
}

// lose takes a consumer's share of a provider away.
func (w *testHost) deleteAllocation(consumer, name string) {
	p := w.provider(name)
	w.placement.set(resource.ConsumerID(consumer), p.ID, nil)
}

// legacy is a server whose devices Placement was not asked for.
func (w *testHost) legacy(id string, count int) host.Server {
	s := w.want(id)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "nic", Count: count, Class: class, VendorID: "8086",
		ProductID: "154c", Type: "type-VF"}}
	return s
}

func TestMissingAllocations(t *testing.T) {
	scenario(t, "guests from before reporting get their shares in one reshape, and then it is quiet",
		func(t *testing.T, w *testHost) {
			w.options.ReportInPlacement = false
			_, stop := w.begin()
			one, three := w.legacy("s1", 1), w.legacy("s2", 3)
			w.compute.assign(one, three)
			w.untilPhase(host.Running, "s1", "s2")
			must(t, stop())
			w.options.ReportInPlacement = true
			plan, err := w.agent().Plan(t.Context())
			if must(t, err); plan.Steps[len(plan.Steps)-1].Op != heal.Reshape || len(plan.Objections) > 0 {
				t.Errorf("%+v", plan)
			}
			a, stop := w.begin()
			w.until("healed", func() bool {
				return w.share("s1", name1, class)+w.share("s2", name1, class) == 2 &&
					w.share("s1", name2, class)+w.share("s2", name2, class) == 2 &&
					w.share("s1", name1, class)+w.share("s1", name2, class) == 1
			})
			if w.placement.Held("s1")[rootID]["VCPU"] != 1 {
				t.Errorf("%v", w.placement.all())
			}
			w.until("quiet", func() bool { return w.compute.conditions() == "" })
			writes := w.writes()
			time.Sleep(5 * time.Minute)
			if plan, err := a.Plan(t.Context()); err != nil || !plan.Empty() || w.writes() != writes {
				t.Errorf("%+v %v", plan, err)
			}
			must(t, stop())
			w.consistent("s1", "s2")
		})
	scenario(t, "an allocation is lost while the agent runs", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1, name1), w.want("s2", name2))
		w.untilPhase(host.Running, "s1", "s2")
		w.placement.set("s1", w.provider(name1).ID, resource.Amounts{class: 1}) // a wrong amount
		w.deleteAllocation("s2", name2)
		w.until("mended", func() bool { return w.share("s1", name1, class) == 2 && w.share("s2", name2, class) == 1 })
		must(t, stop())
	})
	scenario(t, "a consumer without any allocation gets a condition only", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.free("s1")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no allocation of it at all") })
		time.Sleep(5 * time.Minute)
		if len(w.placement.Held("s1")) != 0 {
			t.Errorf("%v", w.placement.all())
		}
		must(t, stop())
	})
	scenario(t, "an allocation above the guest's devices is noted and kept", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		p := w.provider(name1)
		w.placement.SetAllocation("s1", resource.Allocation{rootID: {"VCPU": 1}, p.ID: {class: 2}})
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "nothing is taken from it") })
		must(t, stop())
		if w.share("s1", name1, class) != 2 {
			t.Errorf("%v", w.placement.all())
		}
	})
	scenario(t, "a move before its assignments is not mistaken for a loss", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1") // Placement has it under the migration, and s1 has something elsewhere
		w.placement.SetAllocation("s1", resource.Allocation{"elsewhere": {"VCPU": 1}})
		time.Sleep(10 * time.Minute)
		if w.share("s1", name1, class) != 0 {
			t.Errorf("%v", w.placement.all())
		}
		w.compute.assign(off(m))
		w.untilPhase(host.Stopped, "m1")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "the missing allocation of a used and reserved device", func(t *testing.T, w *testHost) {
		w.once()
		_, stop := w.begin()
		w.compute.assign(w.gpu("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		w.deleteAllocation("s1", gpuName)
		w.until("mended", func() bool { return w.share("s1", gpuName, gpuClass) == 1 })
		w.until("as it was", func() bool {
			inv := w.provider(gpuName).Inventories[gpuClass]
			return inv.Total == 1 && inv.Reserved == 1 && w.compute.conditions() == ""
		})
		must(t, stop())
	})
}
