package loop

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// A journal from a backup gives a device to a server that has been removed since. The guest that has the device now
// keeps it. A condition names the claim, and is cleared when the agent has removed the claim from the journal.
func TestJournalFromABackup(t *testing.T) {
	scenario(t, "a device of a removed server", func(t *testing.T, w *testHost) {
		path := filepath.Join(w.options.Dir, "journal")
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		backup, err := os.ReadFile(path)
		must(t, err)
		had := w.holders()
		w.compute.assign()
		w.until("s1 is gone", func() bool { return len(w.running()) == 0 })
		w.compute.assign(w.server("s2", name1))
		w.untilPhase(host.Running, "s2")
		w.until("s2 has the device that s1 had", func() bool { return len(w.holders()) == len(had) })
		must(t, stop())
		must(t, os.WriteFile(path, backup, 0o600))
		w.compute.muteStreams(true) // until compute sends assignments, nothing is removed
		_, stop = w.startReported()
		w.until("a condition", func() bool {
			return strings.Contains(w.compute.conditions(),
				"the journal gives it to server s1, but the guest of server s2 runs with it")
		})
		w.compute.muteStreams(false)
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
		if got := w.running(); !slices.Equal(got, []string{"s2"}) {
			t.Errorf("guests %v", got)
		}
		w.checkConsistent("s2")
	})
}

// A guest keeps its threads when the journal is lost: the agent reads them from the hypervisor.
func TestThreadsAfterALostJournal(t *testing.T) {
	scenario(t, "another guest gets other threads", func(t *testing.T, w *testHost) {
		w.numaNodes()
		w.options.CPUs = state.CPUs{Shared: []int{0, 4, 2, 6}, Dedicated: []int{1, 5, 3, 7}}
		_, stop := w.startReported()
		s1 := w.server("s1", name2)
		s1.Topology = pinnedCells(2, 512)
		w.compute.assign(s1)
		w.untilPhase(host.Running, "s1")
		was := w.compute.guest("s1").Cells
		must(t, stop())
		w.forgetJournal()
		w.compute.forget()
		w.options.NewID = func() string { return "another" }
		time.Sleep(3 * time.Minute) // compute no longer expects the first agent
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s1")
		if got := w.compute.guest("s1").Cells; !reflect.DeepEqual(got, was) {
			t.Errorf("it has %+v, and had %+v", got, was)
		}
		if c := w.cells()[1]; !slices.Equal(c.Pinned, []int{3, 7}) || c.UsedMemory != 512 || c.Floating != 0 {
			t.Errorf("%+v", c)
		}
		s2 := w.server("s2")
		s2.Topology = pinnedCells(2, 512)
		w.compute.assign(s1, s2)
		w.untilPhase(host.Running, "s2")
		if got := w.compute.guest("s2").Cells; len(got) != 1 || got[0].Node != 0 {
			t.Errorf("s2 has %+v, s1 %+v", got, was)
		}
		must(t, stop())
	})
}
