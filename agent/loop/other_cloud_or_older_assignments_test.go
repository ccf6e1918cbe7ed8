package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

func TestAssignmentsOfAnotherCloud(t *testing.T) {
	scenario(t, "assignments of another cloud end no guest until they are adopted", func(t *testing.T, w *testHost) {
		w.compute.assignments.Cloud = "c1"
		a, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		if id, _ := w.journalled().Identity(); id.Cloud != "c1" {
			t.Errorf("%+v", id)
		}
		w.compute.setCloud("c2")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent adopt") })
		time.Sleep(5 * time.Minute)
		w.checkConsistent("s1")
		if err := a.Adopt(t.Context()); !fault.Is(err, fault.Conflict) {
			t.Errorf("adopted beside the running agent: %v", err)
		}
		must(t, stop())
		must(t, a.Adopt(t.Context()))
		_, stop = w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		time.Sleep(5 * time.Minute)
		must(t, stop())
		w.checkConsistent("s1")
		if id, _ := w.journalled().Identity(); id.Cloud != "c2" || id.Instance != a.Report().Instance {
			t.Errorf("%+v", id)
		}
	})
}

// setCloud replaces compute by one of another cloud, with an empty database.
func (o *fakeCompute) setCloud(cloud string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.assignments = host.Assignments{Cloud: cloud, Position: host.Position{Revision: 1}}
	o.wake()
}

// Assignments of a restored or copied database are not followed; see host.Position.Accept for each case.
func TestOlderAssignments(t *testing.T) {
	scenario(t, "older assignments are not followed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1"))
		w.untilPhase(host.Running, "s1")
		w.compute.mu.Lock()
		w.compute.assignments.Revision = -5
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign(w.server("s2"))
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "restored backup") })
		time.Sleep(5 * time.Minute)
		if w.compute.phase("s2") != "" || w.compute.lastReport().NotFollowed == "" {
			t.Errorf("s2 is %q, NotFollowed in the report is %q", w.compute.phase("s2"), w.compute.lastReport().NotFollowed)
		}
		must(t, stop())
		w.checkConsistent("s1")
		_, stop = w.startReported() // and not after a restart of the agent
		time.Sleep(5 * time.Minute)
		w.compute.mu.Lock()
		w.compute.assignments.Revision = 7 // the newest database is back
		w.compute.mu.Unlock()
		w.compute.assign(w.server("s1"), w.server("s2"))
		w.untilPhase(host.Running, "s2")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
		w.checkConsistent("s1", "s2")
	})
	scenario(t, "assignments of another epoch are not followed until they are adopted", func(t *testing.T, w *testHost) {
		at := func(epoch int64, id string) {
			w.compute.mu.Lock()
			defer w.compute.mu.Unlock()
			w.compute.assignments.Epoch, w.compute.assignments.EpochID = epoch, id
		}
		at(3, "e3")
		w.compute.assignments.Cloud = "c1"
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		at(3, "another e3") // a copy of the database with as many starts
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign(w.server("s2"))
		w.until("a condition", func() bool {
			return strings.Contains(w.compute.conditions(),
				"its start 3 of compute is another one")
		})
		must(t, stop())
		if p := w.journalled().Position(); p.EpochID != "e3" {
			t.Errorf("%+v", p)
		}
		plan, err := w.agent().AdoptionPlan(t.Context())
		must(t, err)
		var rows []string
		for _, g := range plan.Guests {
			rows = append(rows, strings.Join([]string{g.ID, g.Guest, g.Journal, g.Placement, g.Compute, g.Then}, "; "))
		}
		want := []string{"s1; running; 0000:3b:00.1; here; none; stays as it is, and a condition names it",
			"s2; none; none; here; assigned; is built, unless another host reports its guest"}
		if !slices.Equal(rows, want) || !strings.Contains(plan.Followed, "start 3 of compute, revision 1") {
			t.Errorf("%s\n%q", plan.Followed, rows)
		}
		must(t, w.agent().Adopt(t.Context()))
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s2")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		must(t, stop())
		w.checkConsistent("s1", "s2")
	})
}
