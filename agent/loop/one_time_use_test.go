package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

func TestOneTimeUse(t *testing.T) {
	scenario(t, "a device is used when its guest runs, then refused, and available after an operator returns it",
		func(t *testing.T, w *testHost) {
			w.addOneTimeDevice()
			_, stop := w.startReported()
			if w.reserved() != 0 || !w.provider(gpuName).HasTrait("HW_PCI_ONE_TIME_USE") {
				t.Errorf("%+v", w.provider(gpuName))
			}
			w.compute.assign(w.gpuServer("s1"))
			w.untilPhase(host.Running, "s1")
			w.until("it is reserved", func() bool { return w.reserved() == 1 && w.spent() })
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			w.deleteAllocations("s1")
			time.Sleep(3 * time.Minute)
			if w.reserved() != 1 || !w.spent() {
				t.Error("the device is no longer marked used")
			}
			w.compute.assign(w.gpuServer("s2")) // although Placement has it reserved
			w.untilPhase(host.Failed, "s2")
			contains(t, w.compute.guest("s2").Message, "used once", "berth device clean")
			w.deleteAllocations("s2")
			w.reserve(0)
			w.until("it is free again", func() bool { return !w.spent() })
			w.compute.assign(w.gpuServer("s3"))
			w.untilPhase(host.Running, "s3")
			w.until("it is reserved", func() bool { return w.reserved() == 1 })
			must(t, stop())
		})
	scenario(t, "the record survives restart, deletion and a provider that is created again",
		func(t *testing.T, w *testHost) {
			w.addOneTimeDevice()
			_, stop := w.startReported()
			w.compute.assign(w.gpuServer("s1"))
			w.untilPhase(host.Running, "s1")
			w.until("it is reserved", func() bool { return w.reserved() == 1 })
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			w.deleteAllocations("s1")
			must(t, stop())
			setRules(w, `{"vendor_id":"8086","product_id":"154c"}`)
			_, stop = w.startReported()
			if w.provider(gpuName).ID != "" {
				t.Error("the provider is still there")
			}
			must(t, stop())
			setRules(w, gpuRule)
			_, stop = w.startReported()
			if w.reserved() != 1 || !w.spent() {
				t.Errorf("%+v", w.provider(gpuName))
			}
			w.placement.setTree() // another client deletes them all
			w.until("the providers are created again", func() bool { return w.reserved() == 1 })
			time.Sleep(3 * time.Minute)
			if w.reserved() != 1 || !w.spent() {
				t.Errorf("%+v", w.provider(gpuName))
			}
			must(t, stop())
		})
	scenario(t, "a total that is increased briefly does not count as cleaning", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		_, stop := w.startReported()
		w.compute.assign(w.gpuServer("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.changeInventory(func(inv *resource.Inventory) { inv.Total = 2 }) // as while its allocation is moved
		w.until("the total is corrected", func() bool { return w.provider(gpuName).Inventories[gpuClass].Total == 1 })
		if w.reserved() != 1 || !w.spent() || len(w.journalled().Spent()) != 1 {
			t.Errorf("available again: %+v, used %v", w.provider(gpuName), w.journalled().Spent())
		}
		must(t, stop())
	})
	scenario(t, "a failed build does not mark the device used, nor does a claim", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Internal, "no such image")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.gpuServer("s1"))
		w.untilPhase(host.Failed, "s1")
		time.Sleep(3 * time.Minute)
		if w.reserved() != 0 || w.spent() {
			t.Errorf("%+v", w.provider(gpuName))
		}
		w.guests.Fail = nil
		s2 := w.gpuServer("s2")
		s2.Incoming = true
		w.compute.assign(s2)
		w.untilPhase(host.Claimed, "s2")
		time.Sleep(3 * time.Minute)
		if w.reserved() != 0 || w.spent() {
			t.Errorf("a claim marked it used: %+v", w.provider(gpuName))
		}
		must(t, stop())
	})
	scenario(t, "one_time_use is added to the rule while a guest runs", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		setRules(w, strings.Replace(gpuRule, `,"one_time_use":true`, "", 1))
		_, stop := w.startReported()
		w.compute.assign(w.gpuServer("s1"))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		setRules(w, gpuRule)
		_, stop = w.startReported()
		w.until("it is reserved", func() bool {
			return w.reserved() == 1 &&
				w.provider(gpuName).HasTrait("HW_PCI_ONE_TIME_USE")
		})
		must(t, stop())
	})
}

// After a crash at any call: a device with which a guest has run is used, whether or not the agent has journalled it.
func TestCrashAroundMarkingUsed(t *testing.T) {
	for _, after := range []bool{false, true} {
		at, reached := 1, true
		for ; reached && at < 100; at += testenv.Stride(7) {
			scenario(t, fmt.Sprintf("call %d after=%v", at, after), func(t *testing.T, w *testHost) {
				w.addOneTimeDevice()
				_, stop := w.startReported()
				must(t, stop())
				crashes, first := crashOnce(at, after)
				ran := false
				w.guests.Fail = func(_ context.Context, operation, _ string) error {
					if operation == "destroy" {
						ran = true
					}
					return nil
				}
				w.compute.assign(w.gpuServer("s1"))
				w.runAgents(func() bool { return len(w.running()) == 1 }, crashes)
				w.compute.assign()
				w.runAgents(func() bool { return w.inPhase(host.Gone, "s1") }, crashes)
				if len(w.journalled().Spent()) != 1 || !ran {
					t.Errorf("the journal does not have the use: %v", w.journalled().Spent())
				}
				reached = first.crashed
			})
		}
		if at < 15 || at == 100 {
			t.Errorf("the scenario has %d calls", at)
		}
	}
}

// A guest that ran with the device has used it, also when its resize is reverted; one that was only expected has not.
func TestRevertedResize(t *testing.T) {
	scenario(t, "the guest ran", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		_, stop := w.startReported()
		s := w.server("s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := poweredOff(w.moved(s, "m1"))
		w.compute.forget()
		w.compute.assign(m, w.resizedGPUServer("s1"))
		w.untilPhase(host.Stopped, "m1")
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		w.revertResize(s, m)
		time.Sleep(3 * time.Minute)
		if len(w.holders()) != 0 || w.reserved() != 1 || !w.spent() {
			t.Errorf("%v, %+v", w.holders(), w.provider(gpuName))
		}
		must(t, stop())
	})
	scenario(t, "the guest was only expected", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		_, stop := w.startReported()
		s := w.gpuServer("s1")
		s.Incoming = true
		w.compute.assign(s)
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		time.Sleep(3 * time.Minute)
		if w.reserved() != 0 || w.spent() {
			t.Errorf("%+v", w.provider(gpuName))
		}
		must(t, stop())
	})
}

// resizedGPUServer is gpuServer with the request of a resized server.
func (w *testHost) resizedGPUServer(id string) host.Server {
	s := w.gpuServer(id)
	s.Requests[0].ID = "r-new"
	return s
}
