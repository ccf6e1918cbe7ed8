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
	gpuAt    = "0000:17:00.0"
	gpuClass = "CUSTOM_GPU"
	gpuName  = "cmp1_0000:17:00.0"
	gpuRule  = `{"vendor_id":"8086","product_id":"20b0","resource_class":"gpu","one_time_use":true}`
)

// cleaner is the operator's program.
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

// once has a plain device for one-time use.
func (w *testHost) once() *cleaner {
	w.sysfs.add(gpuAt, "20b0", "")
	w.sysfs.change(func(t fstest.MapFS) { delete(t, "bus/pci/devices/"+gpuAt+"/sriov_totalvfs") })
	rules(w, gpuRule)
	c := &cleaner{}
	w.options.Clean = c
	return c
}

// gpu is a server with the device.
func (w *testHost) gpu(id string) host.Server {
	s := w.want(id)
	p := w.provider(gpuName)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "gpu", Count: 1, Class: gpuClass,
		Providers: []string{string(p.ID)}}}
	w.placement.set(resource.ConsumerID(id), p.ID, resource.Amounts{gpuClass: 1})
	return s
}

// free deletes a server's allocation, as compute does when the server is reported gone.
func (w *testHost) free(id string) {
	w.placement.remove(resource.ConsumerID(id))
}

func (w *testHost) reserved() int { return w.provider(gpuName).Inventories[gpuClass].Reserved }

// reserve sets what is reserved by hand.
func (w *testHost) reserve(n int) {
	w.stock(func(inv *resource.Inventory) { inv.Reserved = n })
}

// stock changes the inventory by hand.
func (w *testHost) stock(change func(*resource.Inventory)) {
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
		if d.Address == gpuAt {
			return d.Spent
		}
	}
	return false
}

func TestOneTimeUse(t *testing.T) {
	scenario(t, "used when the guest runs, refused afterwards, and returned by hand",
		func(t *testing.T, w *testHost) {
			w.once()
			_, stop := w.begin()
			if w.reserved() != 0 || !w.provider(gpuName).HasTrait("HW_PCI_ONE_TIME_USE") {
				t.Errorf("%+v", w.provider(gpuName))
			}
			w.compute.assign(w.gpu("s1"))
			w.untilPhase(host.Running, "s1")
			w.until("it is reserved", func() bool { return w.reserved() == 1 && w.spent() })
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			w.free("s1")
			time.Sleep(3 * time.Minute)
			if w.reserved() != 1 || !w.spent() {
				t.Error("the mark did not survive the guest")
			}
			w.compute.assign(w.gpu("s2")) // as if Placement had given it
			w.untilPhase(host.Failed, "s2")
			contains(t, w.compute.guest("s2").Message, "used once", "berth device clean")
			w.free("s2")
			w.reserve(0)
			w.until("it is free again", func() bool { return !w.spent() })
			w.compute.assign(w.gpu("s3"))
			w.untilPhase(host.Running, "s3")
			w.until("it is reserved", func() bool { return w.reserved() == 1 })
			must(t, stop())
		})
	scenario(t, "the record survives restart, deletion and a provider that is created again",
		func(t *testing.T, w *testHost) {
			w.once()
			_, stop := w.begin()
			w.compute.assign(w.gpu("s1"))
			w.untilPhase(host.Running, "s1")
			w.until("it is reserved", func() bool { return w.reserved() == 1 })
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			w.free("s1")
			must(t, stop())
			rules(w, `{"vendor_id":"8086","product_id":"154c"}`)
			_, stop = w.begin()
			if w.provider(gpuName).ID != "" {
				t.Error("the provider is still there")
			}
			must(t, stop())
			rules(w, gpuRule)
			_, stop = w.begin()
			if w.reserved() != 1 || !w.spent() {
				t.Errorf("%+v", w.provider(gpuName))
			}
			w.placement.setTree() // another client deletes them all
			w.until("they are back", func() bool { return w.reserved() == 1 })
			time.Sleep(3 * time.Minute)
			if w.reserved() != 1 || !w.spent() {
				t.Errorf("%+v", w.provider(gpuName))
			}
			must(t, stop())
		})
	scenario(t, "a total raised for a moment does not count as cleaning", func(t *testing.T, w *testHost) {
		w.once()
		_, stop := w.begin()
		w.compute.assign(w.gpu("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.free("s1")
		w.stock(func(inv *resource.Inventory) { inv.Total = 2 }) // as when its share is moved
		w.until("the room is gone", func() bool { return w.provider(gpuName).Inventories[gpuClass].Total == 1 })
		if w.reserved() != 1 || !w.spent() || len(w.journalled().Spent()) != 1 {
			t.Errorf("given back: %+v, spent %v", w.provider(gpuName), w.journalled().Spent())
		}
		must(t, stop())
	})
	scenario(t, "a failed build does not mark the device used, nor does a claim", func(t *testing.T, w *testHost) {
		w.once()
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Internal, "test", "no such image")
			}
			return nil
		}
		_, stop := w.begin()
		w.compute.assign(w.gpu("s1"))
		w.untilPhase(host.Failed, "s1")
		time.Sleep(3 * time.Minute)
		if w.reserved() != 0 || w.spent() {
			t.Errorf("%+v", w.provider(gpuName))
		}
		w.guests.Fail = nil
		s2 := w.gpu("s2")
		s2.Incoming = true
		w.compute.assign(s2)
		w.untilPhase(host.Claimed, "s2")
		time.Sleep(3 * time.Minute)
		if w.reserved() != 0 || w.spent() {
			t.Errorf("a claim burnt it: %+v", w.provider(gpuName))
		}
		must(t, stop())
	})
	scenario(t, "a rule that says one_time_use while a guest runs", func(t *testing.T, w *testHost) {
		w.once()
		rules(w, strings.Replace(gpuRule, `,"one_time_use":true`, "", 1))
		_, stop := w.begin()
		w.compute.assign(w.gpu("s1"))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		rules(w, gpuRule)
		_, stop = w.begin()
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
				w.once()
				_, stop := w.begin()
				must(t, stop())
				deaths, first := crashOnce(at, after)
				ran := false
				w.guests.Fail = func(_ context.Context, operation, _ string) error {
					if operation == "destroy" {
						ran = true
					}
					return nil
				}
				w.compute.assign(w.gpu("s1"))
				w.runAgents(func() bool { return len(w.running()) == 1 }, deaths)
				w.compute.assign()
				w.runAgents(func() bool { return w.are(host.Gone, "s1") }, deaths)
				if len(w.journalled().Spent()) != 1 || !ran {
					t.Errorf("nobody remembers: %v", w.journalled().Spent())
				}
				reached = first.dead
			})
		}
		if at < 15 || at == 100 {
			t.Errorf("the story has %d calls", at)
		}
	}
}

func TestClean(t *testing.T) {
	used := func(t *testing.T, w *testHost) (*cleaner, func() error) {
		c := w.once()
		_, stop := w.begin()
		w.compute.assign(w.gpu("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		return c, stop
	}
	scenario(t, "a device becomes available only after the program has run", func(t *testing.T, w *testHost) {
		c, stop := used(t, w)
		w.compute.clean(gpuAt, "nonsense") // while it is held
		time.Sleep(time.Minute)
		if c.runs.Load() != 0 || w.reserved() != 1 {
			t.Error("cleaned under its guest")
		}
		w.compute.clean()
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.free("s1")
		c.fail.Store(true)
		w.compute.clean(gpuAt)
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "cannot wipe "+gpuAt) })
		w.until("an answer", func() bool { return strings.Contains(w.compute.answer(gpuAt).Refused, "cannot wipe") })
		time.Sleep(time.Minute)
		if w.reserved() != 1 || !w.spent() {
			t.Error("given back though it could not be cleaned")
		}
		c.fail.Store(false)
		w.compute.clean(gpuAt)
		w.until("it is back", func() bool {
			return w.reserved() == 0 && !w.spent() && !strings.Contains(w.compute.conditions(), "wipe")
		})
		w.until("an answer", func() bool { a := w.compute.answer(gpuAt); return !a.Asked.IsZero() && a.Refused == "" })
		if len(w.journalled().Spent()) != 0 {
			w.until("the mark is gone", func() bool { return len(w.journalled().Spent()) == 0 })
		}
		w.compute.clean()
		w.until("it answers no longer", func() bool { return w.compute.answer(gpuAt).Asked.IsZero() })
		w.compute.assign(w.gpu("s2"))
		w.untilPhase(host.Running, "s2")
		w.until("it is reserved again", func() bool { return w.reserved() == 1 })
		must(t, stop())
	})
	scenario(t, "an agent that dies after the program ran gives it back all the same", func(t *testing.T, w *testHost) {
		c, stop := used(t, w)
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.free("s1")
		away := true
		w.placement.fail = func(call string) error {
			if away && call == "PutInventories" {
				return fault.New(fault.Unavailable, "test", "no Placement")
			}
			return nil
		}
		w.compute.clean(gpuAt)
		w.until("it has run", func() bool { return c.runs.Load() == 1 })
		time.Sleep(time.Second)
		must(t, stop())
		w.compute.clean()
		away = false
		_, stop = w.begin()
		w.until("it is back", func() bool { return w.reserved() == 0 && len(w.journalled().Spent()) == 0 })
		if c.runs.Load() != 1 {
			t.Errorf("cleaned %d times", c.runs.Load())
		}
		must(t, stop())
	})
	scenario(t, "one that an agent of Nova had burnt", func(t *testing.T, w *testHost) {
		c := w.once()
		_, stop := w.begin()
		w.reserve(1)
		w.until("it is told", w.spent)
		w.compute.clean(gpuAt)
		w.until("it is back", func() bool { return w.reserved() == 0 && !w.spent() })
		if c.runs.Load() != 1 {
			t.Errorf("cleaned %d times", c.runs.Load())
		}
		must(t, stop())
	})
}

// answer returns the result in the last report of the clean request for a device.
func (o *fakeCompute) answer(at string) host.CleanResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.report.Cleaned {
		if a.Address == at {
			return a
		}
	}
	return host.CleanResult{}
}

// clean makes these the devices that compute wants back.
func (o *fakeCompute) clean(addresses ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.assignments.Clean, o.assignments.Revision = nil, o.assignments.Revision+1
	for _, at := range addresses {
		o.assignments.Clean = append(o.assignments.Clean, host.CleanRequest{Address: at, Asked: time.Now()})
	}
	close(o.changed)
	o.changed = make(chan struct{})
}
