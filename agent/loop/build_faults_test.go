package loop

import (
	"context"
	"fmt"
	"slices"
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
				return fault.New(fault.Internal, "test", "no such image")
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
				return fault.New(fault.Unavailable, "test", "restarting")
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
				return fault.New(fault.Unavailable, "test", "no daemon")
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
	scenario(t, "the slow build of an unassigned guest is cancelled", func(t *testing.T, w *testHost) {
		w.guests.Fail = func(ctx context.Context, operation, _ string) error {
			if operation == "build" {
				<-ctx.Done()
				return fault.Wrap(fault.Unavailable, "test", ctx.Err())
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "a vanished guest is built again with its devices", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, w.guests.Destroy(t.Context(), "s1"))
		w.until("it is back", func() bool { return slices.Equal(w.running(), []string{"s1"}) })
		time.Sleep(time.Minute)
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "an observation older than a guest is ignored", func(t *testing.T, w *testHost) {
		slow := make(chan struct{})
		var observations atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "capacity" && observations.Add(1) == 2 { // after the guests were read
				<-slow
			}
			return nil
		}
		_, stop := w.startReported()
		time.Sleep(90 * time.Second)
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		close(slow)
		time.Sleep(10 * time.Second)
		must(t, stop())
		if n := strings.Count(w.compute.logText(), "s1 running"); n != 1 {
			t.Errorf("running is reported %d times", n)
		}
	})
	scenario(t, "the number of concurrent builds is limited", func(t *testing.T, w *testHost) {
		var now, most atomic.Int32
		w.options.Parallel = 3
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
			}
			return nil
		}
		_, stop := w.startReported()
		var all []host.Server
		for i := range 10 {
			all = append(all, w.server(fmt.Sprintf("s%d", i)))
		}
		w.compute.assign(all...)
		for _, s := range all {
			w.untilPhase(host.Running, s.ID)
		}
		must(t, stop())
		if most.Load() != 3 {
			t.Errorf("%d at once", most.Load())
		}
	})
}
