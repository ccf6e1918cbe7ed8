package loop

import (
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
)

// What an agent says of guests has numbers that only rise, from one agent of a journal to the next.
func TestWhatIsSaidIsCounted(t *testing.T) {
	story(t, "restarts, a journal from a backup, and one that is lost", func(t *testing.T, w *world) {
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		backup, _ := w.journalled().Identity()
		first := w.office.guest("s1")
		if first.Number <= perStart || first.Instance != backup.Instance {
			t.Errorf("%+v", first)
		}
		again := func() host.Guest {
			t.Helper()
			w.office.forget()
			_, stop := w.begin()
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			return w.office.guest("s1")
		}
		second := again()
		if second.Number <= first.Number || second.Instance != first.Instance {
			t.Errorf("after a restart: %+v, before it %+v", second, first)
		}
		for range 3 {
			second = again()
		}
		book, err := journal.Open(w.options.Dir)
		must(t, err)
		must(t, book.SetIdentity(backup))
		must(t, book.Close())
		if third := again(); third.Number <= second.Number {
			t.Errorf("with a journal from a backup: %+v, before it %+v", third, second)
		}
		if id, _ := w.journalled().Identity(); id.Starts <= second.Number/perStart {
			t.Errorf("the journal has not caught up: %+v", id)
		}
		w.forgetJournal()
		w.options.NewID = func() string { return "another" }
		time.Sleep(3 * time.Minute)
		if last := again(); last.Instance != "another" || last.Number > 2*perStart {
			t.Errorf("with a new journal: %+v", last)
		}
	})
}
