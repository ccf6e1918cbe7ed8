package loop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// An agent destroys a guest only when the assignments name it for removal.
func TestOnlyNamedGuestsAreDestroyed(t *testing.T) {
	scenario(t, "a guest that the assignments do not mention keeps running, and may be destroyed by an operator",
		func(t *testing.T, w *testHost) {
			a, stop := w.startReported()
			w.compute.assign(w.server("s1", name1), w.server("s2"))
			w.untilPhase(host.Running, "s1", "s2")
			w.compute.mu.Lock()
			w.compute.omitRemovals = true
			w.compute.mu.Unlock()
			w.compute.assign(w.server("s2"))
			w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
			time.Sleep(10 * time.Minute)
			if got := w.running(); !slices.Equal(got, []string{"s1", "s2"}) || len(w.holders()) != 1 {
				t.Errorf("guests %v, devices %v", got, w.holders())
			}
			present := []host.Present{{ID: "s1"}, {ID: "s2", Assigned: true}}
			if got := w.compute.lastReport().Guests; !slices.Equal(got, present) {
				t.Errorf("%+v", got)
			}
			if err := a.DestroyGuest(t.Context(), "s1", false); !fault.Is(err, fault.Conflict) {
				t.Errorf("beside the running agent: %v", err)
			}
			must(t, stop())
			for id, kind := range map[string]fault.Kind{"s2": fault.Conflict, "none": fault.NotFound} {
				if err := w.agent().DestroyGuest(t.Context(), id, false); !fault.Is(err, kind) {
					t.Errorf("%s: %v", id, err)
				}
			}
			must(t, w.agent().DestroyGuest(t.Context(), "s1", false))
			_, stop = w.startReported()
			w.untilPhase(host.Gone, "s1")
			w.until("no condition", func() bool { return w.compute.conditions() == "" })
			must(t, stop())
			w.checkConsistent("s2")
		})
	scenario(t, "a guest that Berth did not create is treated the same way", func(t *testing.T, w *testHost) {
		at, err := device.ParseID("0000:3b:00.1")
		must(t, err)
		must(t, w.guests.Build(t.Context(), hypervisor.Guest{ID: "foreign", Name: "by hand",
			Devices: []hypervisor.Device{{ID: at}}}))
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.until("a condition", func() bool {
			return strings.Contains(w.compute.conditions(), "guest foreign (by hand) exists here with 0000:3b:00.1")
		})
		time.Sleep(5 * time.Minute)
		must(t, stop())
		if got := w.holders(); got["0000:3b:00.1"] != "foreign" || got["0000:3b:00.2"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "journal and compute's database are lost together", func(t *testing.T, w *testHost) {
		w.compute.assignments.Cloud = "c1"
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1), w.server("s2", name2))
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.forgetJournal()
		w.compute.setCloud("c2")
		w.options.NewID = func() string { return "another" }
		time.Sleep(3 * time.Minute) // compute no longer expects the first agent
		_, stop = w.startReported()
		w.compute.assign(w.server("s3", name1))
		w.untilPhase(host.Running, "s3")
		time.Sleep(5 * time.Minute)
		must(t, stop())
		w.checkConsistent("s1", "s2", "s3") // and each device has one holder
	})
	scenario(t, "a removal is reported until compute has received the report", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.compute.refuseReports(true)
		w.compute.assign()
		w.until("it is destroyed", func() bool { return len(w.running()) == 0 })
		must(t, stop())
		w.forgetJournal() // no record of s1 is left
		w.compute.refuseReports(false)
		_, stop = w.startReported()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "a claim without a guest is freed without a removal in the assignments", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.refuseReports(true) // no claim is confirmed, so nothing is built
		w.compute.assign(w.server("s1", name1))
		w.until("claimed", func() bool { return len(w.journalled().Claims()) == 1 })
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		w.compute.refuseReports(false)
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "a guest that was rebuilt more often than compute records is not built again",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			s := w.server("s1", name1)
			rebuilt := s
			rebuilt.Build = 2
			w.compute.assign(rebuilt)
			w.untilPhase(host.Running, "s1")
			old := poweredOff(s) // an older record: of build 0, and stopped
			w.compute.assign(old)
			w.untilPhase(host.Stopped, "s1")
			guests, err := w.guests.Guests(t.Context())
			if err != nil || len(guests) != 1 || guests[0].Build != 2 || !guests[0].Stopped || w.compute.guest("s1").Build != 2 {
				t.Errorf("%+v %v, reported %+v", guests, err, w.compute.guest("s1"))
			}
			must(t, stop())
		})
}

// Assignments of a restored or copied database are not followed; see host.Position.Accept for each case.
func TestOlderAssignments(t *testing.T) {
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
		must(t, w.agent().Adopt())
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s2")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		must(t, stop())
		w.checkConsistent("s1", "s2")
	})
}

// A compute that has restarted gets a report at once: it waits for one before it continues.
func TestReportToAComputeThatStartsAgain(t *testing.T) {
	scenario(t, "at once", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1"))
		w.untilPhase(host.Running, "s1")
		time.Sleep(10 * time.Second)
		reports := w.compute.count(&w.compute.reports)
		w.compute.mu.Lock()
		w.compute.assignments.Epoch, w.compute.assignments.EpochID = 1, "e1"
		w.compute.mu.Unlock()
		w.compute.endStreams()
		time.Sleep(time.Second)
		if now := w.compute.count(&w.compute.reports); now == reports {
			t.Error("no report within a second")
		}
		must(t, stop())
	})
}

// The agent reports its servers again to a restarted compute, whose database may be from a backup.
func TestGuestsAreReportedToAComputeThatStartsAgain(t *testing.T) {
	scenario(t, "after compute has restarted", func(t *testing.T, w *testHost) {
		w.compute.assignments.Epoch, w.compute.assignments.EpochID = 1, "e1"
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.compute.forget()
		w.compute.endStreams()
		time.Sleep(time.Minute)
		if phase := w.compute.phase("s1"); phase != "" {
			t.Errorf("%q to the same compute", phase)
		}
		w.compute.mu.Lock()
		w.compute.assignments.Past = &host.Position{Epoch: 1, EpochID: "e1", Revision: w.compute.assignments.Revision}
		w.compute.assignments.Epoch, w.compute.assignments.EpochID = 2, "e2"
		w.compute.mu.Unlock()
		w.compute.endStreams()
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// A start of an agent sends its id, and the ids of earlier starts that compute has not acknowledged.
func TestStartIDs(t *testing.T) {
	scenario(t, "each start has its own id and sends those of earlier starts", func(t *testing.T, w *testHost) {
		ids := []string{"start 1", "start 2", "start 3", "start 4"}
		w.options.NewStart = func() (id string) { id, ids = ids[0], ids[1:]; return id }
		w.options.Machine = reconcile.Machine{ID: "m1", Place: "boot 1"}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1"))
		w.untilPhase(host.Running, "s1")
		if r := w.compute.lastReport(); r.Start != "start 1" || len(r.Previous) > 0 || r.Place != "boot 1" ||
			w.compute.guest("s1").Start != "start 1" {
			t.Errorf("%+v, %+v", r.Sender(), w.compute.guest("s1"))
		}
		must(t, stop())
		w.compute.setUnavailable(true) // this start is never acknowledged
		_, stop = w.start()
		time.Sleep(time.Minute)
		must(t, stop())
		if got := w.journalled().Starts(); !slices.Equal(got, []string{"start 1", "start 2"}) {
			t.Errorf("%v", got)
		}
		w.compute.setUnavailable(false)
		w.compute.mu.Lock()
		w.compute.reports = 0
		w.compute.mu.Unlock()
		_, stop = w.startReported()
		w.until("reported", func() bool { return w.compute.count(&w.compute.reports) > 0 })
		must(t, stop())
		if got := w.compute.lastReport().Previous; !slices.Equal(got, []string{"start 1", "start 2"}) && len(got) != 0 {
			t.Errorf("%v", got)
		}
		if got := w.journalled().Starts(); !slices.Equal(got, []string{"start 3"}) {
			t.Errorf("acknowledged: %v", got)
		}
	})
	scenario(t, "a directory that was written on another machine is refused until it is adopted",
		func(t *testing.T, w *testHost) {
			w.options.Machine.ID = "m1"
			_, stop := w.startReported()
			must(t, stop())
			w.options.Machine.ID = "m2"
			contains(t, w.refusedStart(fault.Conflict), "was written on another machine (machine-id m1, here it is m2)")
			must(t, w.agent().Adopt())
			_, stop = w.startReported()
			must(t, stop())
			if id, _ := w.journalled().Identity(); id.Machine != "m2" {
				t.Errorf("%+v", id)
			}
		})
	scenario(t, "two directories of one host on one machine", func(t *testing.T, w *testHost) {
		w.options.LockDir = filepath.Join(w.dir, "locks")
		must(t, os.Mkdir(w.options.LockDir, 0o700))
		_, stop := w.startReported()
		original := w.options.Dir
		w.options.Dir = filepath.Join(w.dir, "copy")
		must(t, os.CopyFS(w.options.Dir, os.DirFS(original)))
		contains(t, w.refusedStart(fault.Conflict), "agent-cmp1.lock locked; stop it")
		must(t, stop())
		_, err := journal.Open(original)
		must(t, err)
	})
}

// With report_in_placement, a server whose devices Placement did not select gets its allocation right after the claim.
func TestAllocationsRightAfterClaim(t *testing.T) {
	scenario(t, "at once", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 2))
		began := time.Now()
		w.until("written", func() bool { return w.allocated("s1", name1, class)+w.allocated("s1", name2, class) == 2 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %s", took)
		}
		must(t, stop())
	})
	scenario(t, "a missing allocation is written although other servers are added and removed",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			s := w.server("s1", name1)
			w.compute.assign(s)
			w.untilPhase(host.Running, "s1")
			w.deleteAllocation("s1", name1)
			other, written := w.server("s2"), false
			for range 60 { // a change of the host's assignments every two seconds
				w.compute.assign(s, other)
				time.Sleep(time.Second)
				w.compute.assign(s)
				time.Sleep(time.Second)
				if written = w.allocated("s1", name1, class) == 1; written {
					break
				}
			}
			if !written {
				t.Error("never written")
			}
			must(t, stop())
		})
	scenario(t, "nothing is written before compute has confirmed the assignment", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.deleteAllocation("s1", name1)
		w.compute.forget()
		w.compute.refuseReports(true)
		_, stop = w.startReported()
		time.Sleep(10 * time.Minute)
		if w.allocated("s1", name1, class) != 0 {
			t.Error("written without a confirmation of compute")
		}
		w.compute.refuseReports(false)
		w.until("written", func() bool { return w.allocated("s1", name1, class) == 1 })
		must(t, stop())
	})
	scenario(t, "an agent continues with its directory after its host was deleted", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		// The server was evacuated, and the host's providers were removed.
		w.placement.SetAllocation("s1", resource.Allocation{"elsewhere": {"VCPU": 1}})
		w.placement.setTree()
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		_, stop = w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		time.Sleep(10 * time.Minute)
		must(t, stop())
		if got := w.placement.Held("s1"); len(got) != 1 || got["elsewhere"] == nil {
			t.Errorf("%v", got)
		}
	})
}
