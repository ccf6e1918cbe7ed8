package loop

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// The numbers of guest reports rise, also over restarts with the same journal.
func TestGuestReportSequence(t *testing.T) {
	scenario(t, "after restarts, with a journal from a backup, and after the journal was lost",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			backup, _ := w.journalled().Identity()
			first := w.compute.guest("s1")
			if first.Number <= sequencePerStart || first.Instance != backup.Instance {
				t.Errorf("%+v", first)
			}
			again := func() host.Guest {
				t.Helper()
				w.compute.forget()
				_, stop := w.startReported()
				w.untilPhase(host.Running, "s1")
				must(t, stop())
				return w.compute.guest("s1")
			}
			second := again()
			if second.Number <= first.Number || second.Instance != first.Instance {
				t.Errorf("after a restart: %+v, before it %+v", second, first)
			}
			for range 3 {
				second = again()
			}
			opened, err := journal.Open(w.options.Dir)
			must(t, err)
			must(t, opened.Write(backup.Entry()))
			must(t, opened.Close())
			if third := again(); third.Number <= second.Number {
				t.Errorf("with a journal from a backup: %+v, before it %+v", third, second)
			}
			if id, _ := w.journalled().Identity(); id.Starts <= second.Number/sequencePerStart {
				t.Errorf("the number in the journal is not raised: %+v", id)
			}
			w.forgetJournal()
			w.options.NewID = func() string { return "another" }
			time.Sleep(3 * time.Minute)
			if last := again(); last.Instance != "another" || last.Number > 2*sequencePerStart {
				t.Errorf("with a new journal: %+v", last)
			}
		})
}

// A change that the hypervisor refuses is reported with the actual state of the guest. It is retried at growing
// intervals as long as compute assigns it. The guest is kept, and later changes are tried.
func TestHypervisorRefusals(t *testing.T) {
	scenario(t, "a guest that does not stop", func(t *testing.T, w *testHost) {
		var refuses atomic.Bool
		var tries atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && refuses.Load() {
				tries.Add(1)
				return fault.New(fault.Internal, "test", "no answer to ACPI")
			}
			return nil
		}
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		refuses.Store(true)
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Refused, "s1")
		g := w.compute.guest("s1")
		if g.Power != host.On || g.Message != "no answer to ACPI" || len(g.Devices) != 1 || g.Build != 0 {
			t.Errorf("%+v", g)
		}
		time.Sleep(5 * time.Minute)
		// after 5, 15, 35, 75 and 155 s
		if n := tries.Load(); n != 6 || w.compute.conditions() != "server s1: no answer to ACPI" {
			t.Errorf("tried %d times, %q", n, w.compute.conditions())
		}
		w.compute.assign(s) // compute assigns the actual state
		w.untilPhase(host.Running, "s1")
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Refused, "s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		refuses.Store(false)
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Stopped, "s1")
		refuses.Store(true)
		w.compute.assign(s)
		w.untilPhase(host.Refused, "s1")
		if g := w.compute.guest("s1"); g.Power != host.Off {
			t.Errorf("%+v", g)
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "a change is retried while the hypervisor does not answer", func(t *testing.T, w *testHost) {
		var failing atomic.Bool
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && failing.Load() {
				return fault.New(fault.Unavailable, "test", "libvirtd restarts")
			}
			return nil
		}
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		failing.Store(true)
		w.compute.assign(poweredOff(s))
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "libvirtd restarts") })
		if phase := w.compute.phase("s1"); phase != host.Running {
			t.Error(phase)
		}
		failing.Store(false)
		w.untilPhase(host.Stopped, "s1")
		must(t, stop())
	})
}
