package loop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/health"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// healthFake answers the checks of devices.
type healthFake struct {
	mu      sync.Mutex
	results map[string]health.Result
	err     error
	checked []string
}

func (f *healthFake) Check(_ context.Context, id device.ID) (health.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = append(f.checked, id.String())
	return f.results[id.String()], f.err
}

// set replaces the result for a device.
func (f *healthFake) set(address string, r health.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results[address] = r
}

// setErr makes all checks fail to run.
func (f *healthFake) setErr(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// withHealth gives a host health checks and unique ids.
func withHealth(w *testHost) *healthFake {
	f, n := &healthFake{results: map[string]health.Result{}}, 0
	w.options.Health = f
	w.options.NewID = func() string { n++; return fmt.Sprintf("11111111-1111-4111-8111-%012d", n) }
	return f
}

// finding returns the failed check that the last report has of a device.
func (o *fakeCompute) finding(address string) (found host.DisabledDevice) {
	for _, d := range o.lastReport().DisabledDevices {
		if d.Address == address && d.Check {
			found = d
		}
	}
	return found
}

func TestHealthChecks(t *testing.T) {
	const vf = "0000:3b:00.1"
	scenario(t, "a failed device is disabled, and comes back only when an operator enables it and it passes",
		func(t *testing.T, w *testHost) {
			f := withHealth(w)
			_, stop := w.startReported()
			f.set(vf, health.Result{Failed: "XID 79"})
			w.until("it is disabled", func() bool { return w.compute.finding(vf).Reason == "XID 79" && w.vfsReserved() == 1 })
			contains(t, w.compute.conditions(), vf, "XID 79", "berth device enable cmp1 "+vf)
			first := w.compute.finding(vf).ID
			f.set(vf, health.Result{})
			time.Sleep(10 * time.Minute)
			if w.vfsReserved() != 1 {
				t.Error("it came back by itself")
			}
			f.set(vf, health.Result{Failed: "XID 13"})
			w.compute.disable(nil, first)
			w.until("it has failed again", func() bool { return w.compute.finding(vf).Reason == "XID 13" })
			w.until("the request is answered", func() bool {
				return slices.Equal(w.compute.lastReport().EnabledDevices, []string{first})
			})
			second := w.compute.finding(vf).ID
			if second == first || w.vfsReserved() != 1 {
				t.Errorf("%s after %s, %d reserved", second, first, w.vfsReserved())
			}
			f.setErr(fault.New(fault.Invalid, "no such program"))
			w.compute.disable(nil, second)
			w.until("a condition", func() bool { return w.compute.finding(vf).ID == second })
			time.Sleep(3 * time.Minute)
			contains(t, w.compute.conditions(), "cannot be checked: no such program")
			if w.vfsReserved() != 1 {
				t.Error("it came back without a check")
			}
			f.setErr(nil)
			f.set(vf, health.Result{})
			w.until("it is back", func() bool { return w.compute.finding(vf).ID == "" && w.vfsReserved() == 0 })
			must(t, stop())
		})
	scenario(t, "errors count when they occur, also while the agent is away", func(t *testing.T, w *testHost) {
		f := withHealth(w)
		count := func(fatal, nonfatal int64) {
			f.set(pf1, health.Result{Counted: true, Fatal: fatal, Nonfatal: nonfatal})
		}
		count(3, 5) // before the agent saw the device for the first time
		_, stop := w.startReported()
		time.Sleep(3 * time.Minute)
		if w.compute.finding(pf1).ID != "" {
			t.Error("errors of before count")
		}
		must(t, stop())
		count(3, 6)
		_, stop = w.startReported()
		w.until("the PF is disabled with its VFs", func() bool {
			return w.compute.finding(pf1).ID != "" && w.vfsReserved() == 2
		})
		contains(t, w.compute.finding(pf1).Reason, "aer_dev_nonfatal was 5 and is 6")
		w.compute.disable(nil, w.compute.finding(pf1).ID)
		w.until("it is back, because no error has occurred since", func() bool { return w.vfsReserved() == 0 })
		count(0, 1) // the host was started again
		time.Sleep(3 * time.Minute)
		if w.compute.finding(pf1).ID != "" {
			t.Error("a counter that was reset counts")
		}
		count(1, 1)
		w.until("fatal errors", func() bool { return w.compute.finding(pf1).ID != "" })
		contains(t, w.compute.finding(pf1).Reason, "aer_dev_fatal was 0 and is 1")
		must(t, stop())
	})
	scenario(t, "a device that vanishes is disabled when it returns; its VFs and others may vanish",
		func(t *testing.T, w *testHost) {
			w.addOneTimeDevice()
			gpu, err := pci.ParseSpecs(`{"vendor_id":"8086","product_id":"20b0","resource_class":"gpu"}`)
			must(t, err)
			setRules(w, vfRule)
			w.options.Rules = append(w.options.Rules, gpu...)
			f := withHealth(w)
			_, stop := w.startReported()
			w.until("it is offered", func() bool { return w.provider(gpuName).ID != "" })
			w.sysfs.remove(vf)
			w.sysfs.remove(gpuAddress)
			w.until("it is gone", func() bool { return w.provider(gpuName).ID == "" })
			w.until("a finding", func() bool { return w.compute.finding(gpuAddress).Reason == "it has vanished from the host" })
			if got := w.compute.finding(vf); got.ID != "" {
				t.Errorf("%+v", got)
			}
			w.sysfs.add(gpuAddress, "20b0", "")
			w.until("it is disabled", func() bool { return w.reserved() == 1 })
			w.compute.disable(nil, w.compute.finding(gpuAddress).ID)
			w.until("it is offered", func() bool { return w.reserved() == 0 })
			w.sysfs.remove(gpuAddress)
			w.until("it is gone again", func() bool { return w.compute.finding(gpuAddress).ID != "" })
			f.set(gpuAddress, health.Result{Missing: true})
			w.compute.disable(nil, w.compute.finding(gpuAddress).ID)
			w.until("it is forgotten", func() bool { return len(w.compute.lastReport().DisabledDevices) == 0 })
			must(t, stop())
		})
	scenario(t, "PFs of VFs are checked, and without checks an operator decides alone", func(t *testing.T, w *testHost) {
		f := withHealth(w)
		_, stop := w.startReported()
		f.set(vf, health.Result{Failed: "XID 79"})
		w.until("it is disabled", func() bool { return w.compute.finding(vf).ID != "" })
		must(t, stop())
		f.mu.Lock()
		for _, at := range []string{pf1, pf2, vf} {
			if !slices.Contains(f.checked, at) {
				t.Errorf("%s was not checked: %v", at, f.checked)
			}
		}
		f.mu.Unlock()
		w.options.Health = nil
		_, stop = w.startReported()
		w.compute.disable(nil, w.compute.finding(vf).ID)
		w.until("it is back", func() bool { return w.compute.finding(vf).ID == "" && w.vfsReserved() == 0 })
		must(t, stop())
	})
}
