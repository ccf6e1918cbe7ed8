package loop

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// secondAgent changes the options to those of a second agent of the same host, with another journal and other guests.
func (w *testHost) secondAgent() {
	w.t.Helper()
	guests, err := fake.New(filepath.Join(w.dir, "second", "guests"), hypervisor.Capacity{})
	must(w.t, err)
	w.guests = guests
	w.options.Hypervisor, w.options.Dir = guests, filepath.Join(w.dir, "second")
	w.options.NewID = func() string { return "99999999-9999-4999-8999-999999999999" }
}

func TestTwoAgentsOfOneHost(t *testing.T) {
	scenario(t, "the second agent is refused, and changes nothing", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		writes := w.writes()
		w.secondAgent()
		w.sysfs.remove("0000:5e:00.2") // the second agent runs on another machine
		contains(t, w.refusedStart(fault.Conflict), "another agent serves host cmp1")
		if got := w.running(); len(got) > 0 || w.writes() != writes {
			t.Errorf("guests %v, %d more writes", got, w.writes()-writes)
		}
		must(t, stop())
		time.Sleep(3 * time.Minute) // then compute no longer expects the first agent
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s1")
		must(t, stop())
	})
	scenario(t, "of two agents that start at the same moment, one is refused", func(t *testing.T, w *testHost) {
		_, stop := w.start()
		w.secondAgent()
		_, stopSecond := w.start()
		w.compute.assign(host.Server{ID: "s1"})
		time.Sleep(time.Minute)
		err, second := stop(), stopSecond()
		if fault.Is(err, fault.Conflict) == fault.Is(second, fault.Conflict) {
			t.Errorf("one ended with %v, the other with %v", err, second)
		}
	})
	scenario(t, "an agent stops work while compute accepts reports of another one, and then continues",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Running, "s1")
			w.compute.mu.Lock()
			w.compute.instance, w.compute.reportedAt = "another", time.Now()
			w.compute.mu.Unlock()
			time.Sleep(70 * time.Second) // a report later
			w.compute.assign(w.server("s2", name1))
			writes := w.writes()
			w.sysfs.remove("0000:5e:00.2")
			time.Sleep(90 * time.Second)
			if got := w.running(); len(got) != 1 || got[0] != "s1" || w.writes() != writes {
				t.Errorf("guests %v, %d more writes", got, w.writes()-writes)
			}
			w.untilPhase(host.Running, "s2")
			w.untilPhase(host.Gone, "s1")
			w.until("the tree is corrected", func() bool { return w.provider(name2).Inventories[class].Total == 1 })
			w.until("no condition", func() bool { return w.compute.conditions() == "" })
			must(t, stop())
			w.checkConsistent("s2")
		})
	scenario(t, "the id of the agent is generated once, also for a journal without one",
		func(t *testing.T, w *testHost) {
			opened, err := journal.Open(w.options.Dir)
			must(t, err)
			must(t, opened.Write(journal.Identity{Host: "cmp1", Provider: rootID}.Entry()))
			must(t, opened.Close())
			w.options.NewID = func() string { return "first" }
			for _, next := range []string{"second", "third"} {
				_, stop := w.startReported()
				must(t, stop())
				if id, _ := w.journalled().Identity(); id.Instance != "first" || w.compute.instance != "first" {
					t.Errorf("the journal has %+v, compute %q", id, w.compute.instance)
				}
				w.options.NewID = func() string { return next }
			}
		})
	scenario(t, "an agent starts while compute does not answer", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		w.compute.setUnavailable(true)
		_, stop = w.start()
		time.Sleep(5 * time.Minute)
		before := w.compute.count(&w.compute.reports)
		w.compute.setUnavailable(false)
		w.until("a report", func() bool { return w.compute.count(&w.compute.reports) > before })
		must(t, stop())
		if strings.Contains(w.compute.conditions(), "another") {
			t.Error(w.compute.conditions())
		}
	})
}
