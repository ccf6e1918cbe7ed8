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
			a, stop := w.begin()
			w.compute.assign(w.want("s1", name1), w.want("s2"))
			w.untilPhase(host.Running, "s1", "s2")
			w.compute.mu.Lock()
			w.compute.omitRemovals = true
			w.compute.mu.Unlock()
			w.compute.assign(w.want("s2"))
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
			_, stop = w.begin()
			w.untilPhase(host.Gone, "s1")
			w.until("no condition", func() bool { return w.compute.conditions() == "" })
			must(t, stop())
			w.consistent("s2")
		})
	scenario(t, "a guest that Berth did not create is treated the same way", func(t *testing.T, w *testHost) {
		at, err := device.ParseID("0000:3b:00.1")
		must(t, err)
		must(t, w.guests.Build(t.Context(), hypervisor.Guest{ID: "foreign", Name: "by hand",
			Devices: []hypervisor.Device{{ID: at}}}))
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
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
	scenario(t, "row 4: journal and compute's database lost together", func(t *testing.T, w *testHost) {
		w.compute.assignments.Cloud = "c1"
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1), w.want("s2", name2))
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.forgetJournal()
		w.compute.setCloud("c2")
		w.options.NewID = func() string { return "another" }
		time.Sleep(3 * time.Minute) // the place of the first is free
		_, stop = w.begin()
		w.compute.assign(w.want("s3", name1))
		w.untilPhase(host.Running, "s3")
		time.Sleep(5 * time.Minute)
		must(t, stop())
		w.consistent("s1", "s2", "s3") // and each device has one holder
	})
	scenario(t, "a removal is repeated until compute has read its end", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.compute.refuseReports(true)
		w.compute.assign()
		w.until("it is destroyed", func() bool { return len(w.running()) == 0 })
		must(t, stop())
		w.forgetJournal() // nothing is known of s1 any more
		w.compute.refuseReports(false)
		_, stop = w.begin()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent()
	})
	scenario(t, "a claim that never became a guest is freed without being named", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.refuseReports(true) // no claim is confirmed, so nothing is built
		w.compute.assign(w.want("s1", name1))
		w.until("claimed", func() bool { return len(w.journalled().Claims()) == 1 })
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		w.compute.refuseReports(false)
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent()
	})
	scenario(t, "a guest that was rebuilt more often than compute records is not built again",
		func(t *testing.T, w *testHost) {
			_, stop := w.begin()
			s := w.want("s1", name1)
			rebuilt := s
			rebuilt.Build = 2
			w.compute.assign(rebuilt)
			w.untilPhase(host.Running, "s1")
			old := off(s) // an older record: of build 0, and stopped
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
	scenario(t, "another epoch without a record of the one before, until it is adopted", func(t *testing.T, w *testHost) {
		at := func(epoch int64, id string) {
			w.compute.mu.Lock()
			defer w.compute.mu.Unlock()
			w.compute.assignments.Epoch, w.compute.assignments.EpochID = epoch, id
		}
		at(3, "e3")
		w.compute.assignments.Cloud = "c1"
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		at(3, "another e3") // a copy of the database that has counted as far
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign(w.want("s2"))
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
		var then []string
		for _, g := range plan.Guests {
			then = append(then, strings.Join([]string{g.ID, g.Guest, g.Journal, g.Placement, g.Compute, g.Then}, "; "))
		}
		want := []string{"s1; running; 0000:3b:00.1; here; none; stays as it is, and a condition names it",
			"s2; none; none; here; assigned; is built, unless another host reports its guest"}
		if !slices.Equal(then, want) || !strings.Contains(plan.Followed, "start 3 of compute, revision 1") {
			t.Errorf("%s\n%q", plan.Followed, then)
		}
		must(t, w.agent().Adopt())
		_, stop = w.begin()
		w.untilPhase(host.Running, "s2")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		must(t, stop())
		w.consistent("s1", "s2")
	})
}

// A compute that starts again gets a report at once: it waits for one before it goes on with what it was doing.
func TestReportToAComputeThatStartsAgain(t *testing.T) {
	scenario(t, "at once", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1"))
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
	scenario(t, "again", func(t *testing.T, w *testHost) {
		w.compute.assignments.Epoch, w.compute.assignments.EpochID = 1, "e1"
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
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
		w.consistent("s1")
	})
}

// A start of an agent names itself, and those before it that compute has not acknowledged.
func TestStarts(t *testing.T) {
	scenario(t, "each start has an id of its own and names the one before", func(t *testing.T, w *testHost) {
		ids := []string{"start 1", "start 2", "start 3", "start 4"}
		w.options.NewStart = func() (id string) { id, ids = ids[0], ids[1:]; return id }
		w.options.Machine = reconcile.Machine{ID: "m1", Place: "boot 1"}
		_, stop := w.begin()
		w.compute.assign(w.want("s1"))
		w.untilPhase(host.Running, "s1")
		if r := w.compute.lastReport(); r.Start != "start 1" || len(r.Previous) > 0 || r.Place != "boot 1" ||
			w.compute.guest("s1").Start != "start 1" {
			t.Errorf("%+v, %+v", r.Sender(), w.compute.guest("s1"))
		}
		must(t, stop())
		w.compute.setAway(true) // this start is never acknowledged
		_, stop = w.start()
		time.Sleep(time.Minute)
		must(t, stop())
		if got := w.journalled().Starts(); !slices.Equal(got, []string{"start 1", "start 2"}) {
			t.Errorf("%v", got)
		}
		w.compute.setAway(false)
		w.compute.mu.Lock()
		w.compute.reports = 0
		w.compute.mu.Unlock()
		_, stop = w.begin()
		w.until("reported", func() bool { return w.compute.count(&w.compute.reports) > 0 })
		must(t, stop())
		if got := w.compute.lastReport().Previous; !slices.Equal(got, []string{"start 1", "start 2"}) && len(got) != 0 {
			t.Errorf("%v", got)
		}
		if got := w.journalled().Starts(); !slices.Equal(got, []string{"start 3"}) {
			t.Errorf("acknowledged: %v", got)
		}
	})
	scenario(t, "row 2: a directory that was written on another machine is refused until it is adopted",
		func(t *testing.T, w *testHost) {
			w.options.Machine.ID = "m1"
			_, stop := w.begin()
			must(t, stop())
			w.options.Machine.ID = "m2"
			contains(t, w.refusedStart(fault.Conflict), "was written on another machine (machine-id m1, here it is m2)")
			must(t, w.agent().Adopt())
			_, stop = w.begin()
			must(t, stop())
			if id, _ := w.journalled().Identity(); id.Machine != "m2" {
				t.Errorf("%+v", id)
			}
		})
	scenario(t, "row 2: two directories of one host on one machine", func(t *testing.T, w *testHost) {
		w.options.LockDir = filepath.Join(w.dir, "locks")
		must(t, os.Mkdir(w.options.LockDir, 0o700))
		_, stop := w.begin()
		original := w.options.Dir
		w.options.Dir = filepath.Join(w.dir, "copy")
		must(t, os.CopyFS(w.options.Dir, os.DirFS(original)))
		contains(t, w.refusedStart(fault.Conflict), "agent-cmp1.lock locked; stop it")
		must(t, stop())
		_, err := journal.Open(original)
		must(t, err)
	})
}

// Row 12: with reporting on and Placement not asked for devices, the allocation has the devices right after the claim.
func TestAllocationsRightAfterClaim(t *testing.T) {
	scenario(t, "at once", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.legacy("s1", 2))
		began := time.Now()
		w.until("written", func() bool { return w.share("s1", name1, class)+w.share("s1", name2, class) == 2 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %s", took)
		}
		must(t, stop())
	})
	scenario(t, "a lost share is written although other servers come and go", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		w.deleteAllocation("s1", name1)
		other, mended := w.want("s2"), false
		for range 60 { // a change of the host's assignments every two seconds
			w.compute.assign(s, other)
			time.Sleep(time.Second)
			w.compute.assign(s)
			time.Sleep(time.Second)
			if mended = w.share("s1", name1, class) == 1; mended {
				break
			}
		}
		if !mended {
			t.Error("never written")
		}
		must(t, stop())
	})
	scenario(t, "row 17: nothing is written before compute has confirmed the assignment", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.deleteAllocation("s1", name1)
		w.compute.forget()
		w.compute.refuseReports(true)
		_, stop = w.begin()
		time.Sleep(10 * time.Minute)
		if w.share("s1", name1, class) != 0 {
			t.Error("written without compute's word")
		}
		w.compute.refuseReports(false)
		w.until("written", func() bool { return w.share("s1", name1, class) == 1 })
		must(t, stop())
	})
	scenario(t, "row 17: a host that was forgotten, and its agent on the old directory", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
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
		_, stop = w.begin()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
		time.Sleep(10 * time.Minute)
		must(t, stop())
		if got := w.placement.Held("s1"); len(got) != 1 || got["elsewhere"] == nil {
			t.Errorf("%v", got)
		}
	})
}
