package loop

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

func TestRestartChangesNothing(t *testing.T) {
	scenario(t, "a restart changes nothing and reports the guests again", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1, name2))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		writes, holders := w.writes(), w.holders()
		w.guests.Fail = func(_ context.Context, operation, guest string) error {
			if operation == "build" || operation == "destroy" {
				t.Errorf("%s %s after the restart", operation, guest)
			}
			return nil
		}
		w.compute.forget()
		a, stop := w.startReported()
		w.untilPhase(host.Running, "s1")
		plan, err := a.Plan(t.Context())
		if err != nil || !plan.Empty() || len(plan.Objections) > 0 {
			t.Errorf("%+v %v", plan, err)
		}
		time.Sleep(5 * time.Minute)
		must(t, stop())
		if w.writes() != writes {
			t.Errorf("%d more writes to Placement", w.writes()-writes)
		}
		if got := w.holders(); got["0000:3b:00.1"] != "s1" || len(got) != len(holders) {
			t.Errorf("%v, before %v", got, holders)
		}
	})
}
