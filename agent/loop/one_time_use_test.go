package loop

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	gpuAddress = "0000:17:00.0"
	gpuClass   = "CUSTOM_GPU"
	gpuName    = "cmp1_0000:17:00.0"
	gpuRule    = `{"vendor_id":"8086","product_id":"20b0","resource_class":"gpu","one_time_use":true}`
)

// cleaner replaces the operator's program that cleans devices.
type cleaner struct {
	runs atomic.Int32
	fail atomic.Bool
}

func (c *cleaner) Clean(_ context.Context, at device.ID) error {
	c.runs.Add(1)
	if c.fail.Load() {
		return fault.New(fault.Internal, "test", "cannot wipe %s", at)
	}
	return nil
}

// addOneTimeDevice adds a plain device for one-time use to the host.
func (w *testHost) addOneTimeDevice() *cleaner {
	w.sysfs.add(gpuAddress, "20b0", "")
	w.sysfs.change(func(t fstest.MapFS) { delete(t, "bus/pci/devices/"+gpuAddress+"/sriov_totalvfs") })
	setRules(w, gpuRule)
	c := &cleaner{}
	w.options.Clean = c
	return c
}

// gpuServer returns the assignment of a server with that device, and writes its allocation.
func (w *testHost) gpuServer(id string) host.Server {
	s := w.server(id)
	p := w.provider(gpuName)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "gpu", Count: 1, Class: gpuClass,
		Providers: []string{string(p.ID)}}}
	w.placement.set(resource.ConsumerID(id), p.ID, resource.Amounts{gpuClass: 1})
	return s
}

// deleteAllocations deletes a server's allocation, as compute does when the server is reported gone.
func (w *testHost) deleteAllocations(id string) {
	w.placement.remove(resource.ConsumerID(id))
}

func (w *testHost) reserved() int { return w.provider(gpuName).Inventories[gpuClass].Reserved }

// reserve sets the reserved amount, as an operator does.
func (w *testHost) reserve(n int) {
	w.changeInventory(func(inv *resource.Inventory) { inv.Reserved = n })
}

// changeInventory changes the inventory, as an operator does.
func (w *testHost) changeInventory(change func(*resource.Inventory)) {
	w.placement.change(gpuName, func(p *provider.Provider) {
		inv := p.Inventories[gpuClass]
		change(&inv)
		p.Inventories = map[resource.Class]resource.Inventory{gpuClass: inv}
	})
}

func (w *testHost) spent() bool {
	w.compute.mu.Lock()
	defer w.compute.mu.Unlock()
	for _, d := range w.compute.report.Devices {
		if d.Address == gpuAddress {
			return d.Spent
		}
	}
	return false
}

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
				return fault.New(fault.Internal, "test", "no such image")
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

func TestCleaning(t *testing.T) {
	used := func(t *testing.T, w *testHost) (*cleaner, func() error) {
		c := w.addOneTimeDevice()
		_, stop := w.startReported()
		w.compute.assign(w.gpuServer("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		return c, stop
	}
	scenario(t, "a device becomes available only after the program has run", func(t *testing.T, w *testHost) {
		c, stop := used(t, w)
		w.compute.requestCleaning(gpuAddress, "nonsense") // while it is held
		time.Sleep(time.Minute)
		if c.runs.Load() != 0 || w.reserved() != 1 {
			t.Error("cleaned while its guest runs")
		}
		w.compute.requestCleaning()
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		c.fail.Store(true)
		w.compute.requestCleaning(gpuAddress)
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "cannot wipe "+gpuAddress) })
		w.until("a result of the cleaning", func() bool {
			return strings.Contains(w.compute.cleanResult(gpuAddress).Refused,
				"cannot wipe")
		})
		time.Sleep(time.Minute)
		if w.reserved() != 1 || !w.spent() {
			t.Error("available though it could not be cleaned")
		}
		c.fail.Store(false)
		w.compute.requestCleaning(gpuAddress)
		w.until("it is back", func() bool {
			return w.reserved() == 0 && !w.spent() && !strings.Contains(w.compute.conditions(), "wipe")
		})
		w.until("a result of the cleaning", func() bool {
			a := w.compute.cleanResult(gpuAddress)
			return !a.Asked.IsZero() &&
				a.Refused == ""
		})
		if len(w.journalled().Spent()) != 0 {
			w.until("the record is deleted", func() bool { return len(w.journalled().Spent()) == 0 })
		}
		w.compute.requestCleaning()
		w.until("the result is no longer reported", func() bool { return w.compute.cleanResult(gpuAddress).Asked.IsZero() })
		w.compute.assign(w.gpuServer("s2"))
		w.untilPhase(host.Running, "s2")
		w.until("it is reserved again", func() bool { return w.reserved() == 1 })
		must(t, stop())
	})
	scenario(t, "a cleaned device becomes available after a crash of the agent", func(t *testing.T, w *testHost) {
		c, stop := used(t, w)
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		unavailable := true
		w.placement.fail = func(call string) error {
			if unavailable && call == "PutInventories" {
				return fault.New(fault.Unavailable, "test", "no Placement")
			}
			return nil
		}
		w.compute.requestCleaning(gpuAddress)
		w.until("the program has run", func() bool { return c.runs.Load() == 1 })
		time.Sleep(time.Second)
		must(t, stop())
		w.compute.requestCleaning()
		unavailable = false
		_, stop = w.startReported()
		w.until("it is available", func() bool { return w.reserved() == 0 && len(w.journalled().Spent()) == 0 })
		if c.runs.Load() != 1 {
			t.Errorf("cleaned %d times", c.runs.Load())
		}
		must(t, stop())
	})
	scenario(t, "a device that an agent of Nova marked used", func(t *testing.T, w *testHost) {
		c := w.addOneTimeDevice()
		_, stop := w.startReported()
		w.reserve(1)
		w.until("it is reported as used", w.spent)
		w.compute.requestCleaning(gpuAddress)
		w.until("it is available", func() bool { return w.reserved() == 0 && !w.spent() })
		if c.runs.Load() != 1 {
			t.Errorf("cleaned %d times", c.runs.Load())
		}
		must(t, stop())
	})
}

// cleanResult returns the result in the last report of the clean request for a device.
func (o *fakeCompute) cleanResult(at string) host.CleanResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.report.Cleaned {
		if a.Address == at {
			return a
		}
	}
	return host.CleanResult{}
}

// requestCleaning replaces the devices that compute requests to clean.
func (o *fakeCompute) requestCleaning(addresses ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.assignments.Clean, o.assignments.Revision = nil, o.assignments.Revision+1
	for _, at := range addresses {
		o.assignments.Clean = append(o.assignments.Clean, host.CleanRequest{Address: at, Asked: time.Now()})
	}
	close(o.changed)
	o.changed = make(chan struct{})
}
