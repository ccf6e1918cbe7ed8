package loop

import (
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/internal/testenv"
)

// After a crash at any call while a server is resized on its host and reverted, the final state is the same.
func TestCrashDuringMove(t *testing.T) {
	crashAtCalls(t, testenv.Stride(7), 30, 200, func(t *testing.T, crashes func() *crash) {
		w := newTestHost(t)
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		m := poweredOff(w.moved(s, "m1"))
		resized := w.server("s1", name2, name2)
		resized.Requests[0].ID = "r-new"
		w.compute.forget()
		w.compute.assign(m, resized)
		w.runAgents(func() bool { return w.inPhase(host.Stopped, "m1") && w.inPhase(host.Running, "s1") }, crashes)
		w.checkConsistent("m1", "s1")
		w.compute.assign(m)
		w.runAgents(func() bool { return w.inPhase(host.Gone, "s1") }, crashes)
		w.compute.forget()
		w.compute.assign(w.revert(s, m))
		w.runAgents(func() bool { return w.inPhase(host.Running, "s1") }, crashes)
		w.checkConsistent("s1")
		if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
}
