package loop

import (
	"context"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/internal/testenv"
)

// The same scenario runs with a crash at each call in turn. The final state is always the same.
func TestCrashAtEachStep(t *testing.T) {
	crashAtCalls(t, testenv.Stride(7), 30, 400, crashScenario)
}

// checkReportedBuilds fails the test when a guest is built before compute has a report of it.
func (w *testHost) checkReportedBuilds() {
	w.guests.Fail = func(_ context.Context, operation, guest string) error {
		if phase := w.compute.phase(guest); operation == "build" && phase != host.Claimed && phase != host.Running {
			w.t.Errorf("%s is built, and the last phase that compute has of it is %q", guest, phase)
		}
		return nil
	}
}

// crashScenario assigns three servers, removes one, and assigns another that needs its devices.
func crashScenario(t *testing.T, crashes func() *crash) {
	w := newTestHost(t)
	w.checkReportedBuilds()
	w.runAgents(func() bool {
		return w.provider(name1).Inventories[class].Total == 2 && w.provider(name2).Inventories[class].Total == 2
	}, crashes)
	w.compute.assign(w.server("s1", name1, name1), w.server("s2", name2), w.server("s3"))
	w.runAgents(func() bool { return w.inPhase(host.Running, "s1", "s2", "s3") }, crashes)
	w.checkConsistent("s1", "s2", "s3")
	was := w.holders()["0000:5e:00.1"]
	w.compute.assign(w.server("s2", name2), w.server("s3"), w.server("s4", name1, name1))
	w.runAgents(func() bool {
		return w.inPhase(host.Running, "s4") && w.inPhase(host.Gone, "s1") && len(w.journalled().Gone()) == 0
	}, crashes)
	w.checkConsistent("s2", "s3", "s4")
	if got := w.holders(); len(got) != 3 || got["0000:5e:00.1"] != was || got["0000:3b:00.1"] != "s4" {
		t.Errorf("holders %v", got)
	}
	if log := w.compute.logText(); strings.Contains(log, "failed") {
		t.Errorf("a server failed: %s", log)
	}
	if n := len(w.placement.tree().Providers); n != 3 {
		t.Errorf("%d providers", n)
	}
}
