package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

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

// With report_in_placement, a server whose devices Placement did not select gets its allocation right after the claim.
func TestAllocationsRightAfterClaim(t *testing.T) {
	scenario(t, "at once", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 2))
		began := time.Now()
		w.until("written", func() bool { return w.allocated("s1", name1, class)+w.allocated("s1", name2, class) == 2 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %s", took)
		}
		must(t, stop())
	})
	scenario(t, "a missing allocation is written although other servers are added and removed",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			s := w.server("s1", name1)
			w.compute.assign(s)
			w.untilPhase(host.Running, "s1")
			w.deleteAllocation("s1", name1)
			other, written := w.server("s2"), false
			for range 60 { // a change of the host's assignments every two seconds
				w.compute.assign(s, other)
				time.Sleep(time.Second)
				w.compute.assign(s)
				time.Sleep(time.Second)
				if written = w.allocated("s1", name1, class) == 1; written {
					break
				}
			}
			if !written {
				t.Error("never written")
			}
			must(t, stop())
		})
	scenario(t, "nothing is written before compute has confirmed the assignment", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.deleteAllocation("s1", name1)
		w.compute.forget()
		w.compute.refuseReports(true)
		_, stop = w.startReported()
		time.Sleep(10 * time.Minute)
		if w.allocated("s1", name1, class) != 0 {
			t.Error("written without a confirmation of compute")
		}
		w.compute.refuseReports(false)
		w.until("written", func() bool { return w.allocated("s1", name1, class) == 1 })
		must(t, stop())
	})
	scenario(t, "an agent continues with its directory after its host was deleted", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		// The server was evacuated, and the host's providers were removed.
		w.placement.SetAllocation("s1", resource.Allocation{"elsewhere": {"VCPU": 1}})
		w.placement.setTree()
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		_, stop = w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		time.Sleep(10 * time.Minute)
		must(t, stop())
		if got := w.placement.Held("s1"); len(got) != 1 || got["elsewhere"] == nil {
			t.Errorf("%v", got)
		}
	})
}

// The assignments of an agent that receives none may be outdated: it writes no missing allocation.
func TestNoAllocationWrittenWithoutAssignments(t *testing.T) {
	scenario(t, "the streams send nothing", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		mute := func(mute bool) {
			w.compute.mu.Lock()
			w.compute.muted = mute
			w.compute.mu.Unlock()
			w.compute.endStreams()
		}
		mute(true)
		w.deleteAllocation("s1", name1)
		time.Sleep(10 * time.Minute)
		if n := w.allocated("s1", name1, class); n != 0 {
			t.Errorf("an allocation of %d was written", n)
		}
		mute(false)
		w.until("the allocation is written", func() bool { return w.allocated("s1", name1, class) == 1 })
		must(t, stop())
	})
}
