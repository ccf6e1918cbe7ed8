package loop

import (
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
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
