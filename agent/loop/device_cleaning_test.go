package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

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
				return fault.New(fault.Unavailable, "no Placement")
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
