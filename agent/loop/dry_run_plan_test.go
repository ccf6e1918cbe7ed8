package loop

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
)

func TestPlanWarnsOfRules(t *testing.T) {
	w := newTestHost(t)
	rules, err := pci.ParseSpecs(`{"vendor_id":"10de","product_id":"ffff"}`)
	must(t, err)
	var log strings.Builder
	w.options.Rules, w.options.Log = rules, slog.New(slog.NewTextHandler(&log, nil))
	_, err = w.agent().Plan(t.Context())
	if must(t, err); !strings.Contains(log.String(), "level=WARN") ||
		!strings.Contains(log.String(), "matches no device of this host") {
		t.Errorf("the log is %q", log.String())
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	scenario(t, "before, beside and after a running agent", func(t *testing.T, w *testHost) {
		plan, err := w.agent().Plan(t.Context())
		must(t, err)
		if len(plan.Steps) < 6 || w.writes() != 0 {
			t.Errorf("%+v, %d writes", plan, w.writes())
		}
		if _, err := os.Stat(w.options.Dir); err == nil {
			t.Error("the dry run made a journal")
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		writes := w.writes()
		for range 2 { // beside the running agent, and after it
			plan, err := w.agent().Plan(t.Context())
			if err != nil || !plan.Empty() || len(plan.Objections) > 0 || w.writes() != writes {
				t.Errorf("%+v %v", plan, err)
			}
			must(t, stop())
		}
	})
}
