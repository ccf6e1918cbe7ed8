package loop

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

func TestBuildFaults(t *testing.T) {
	scenario(t, "a guest that cannot be built holds no device", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Internal, "no such image")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Failed, "s1")
		contains(t, w.compute.guest("s1").Message, "no such image")
		time.Sleep(time.Minute)
		must(t, stop())
		w.checkConsistent()
		if n := strings.Count(w.compute.logText(), "failed"); n != 1 {
			t.Errorf("the failure is reported %d times", n)
		}
		if log := w.compute.logText(); !strings.Contains(log[strings.Index(log, "claimed"):strings.Index(log, "failed")],
			"report free=4") {
			t.Errorf("the failure is reported before the free device: %s", log)
		}
	})
	scenario(t, "the hypervisor is unavailable for a while", func(t *testing.T, w *testHost) {
		var builds atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && builds.Add(1) < buildTries {
				return fault.New(fault.Unavailable, "restarting")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "the hypervisor stays unavailable", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Unavailable, "no daemon")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Failed, "s1")
		must(t, stop())
		contains(t, w.compute.guest("s1").Message, "no daemon")
		w.checkConsistent()
	})
}
