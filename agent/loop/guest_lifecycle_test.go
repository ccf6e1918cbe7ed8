package loop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

func TestGuestLifecycle(t *testing.T) {
	scenario(t, "from an empty Placement to running guests and back", func(t *testing.T, w *testHost) {
		a, stop := w.startReported()
		if p := w.provider(name1); p.Inventories[class].Total != 2 || !p.HasTrait("COMPUTE_MANAGED_PCI_DEVICE") ||
			p.Parent != rootID {
			t.Errorf("%+v", p)
		}
		if p := w.provider("cmp1"); p.ID != rootID || p.Inventories["VCPU"].Total != 64 {
			t.Errorf("%+v", p)
		}
		r := a.Report()
		if len(r.Devices) != 4 || r.Devices[0].Provider != string(w.provider(name1).ID) ||
			r.Devices[0].State != "available" || r.Provider != rootID || !r.InPlace || r.Devices[0].NUMANode != 1 {
			t.Errorf("%+v", r)
		}
		w.compute.assign(w.server("s1", name1, name2), w.server("s2", name1), w.server("s3"))
		w.untilPhase(host.Running, "s1", "s2", "s3")
		g := w.compute.guest("s1")
		if len(g.Devices) != 2 || !strings.HasPrefix(g.Devices[0].Address, "0000:3b:00.") ||
			g.Devices[1].Address != "0000:5e:00.1" || g.Devices[0].RequestID != "r-s1" ||
			g.Devices[1].Provider != string(w.provider(name2).ID) {
			t.Errorf("%+v", g)
		}
		w.checkConsistent("s1", "s2", "s3")
		w.compute.assign(w.server("s3"))
		w.untilPhase(host.Gone, "s1", "s2")
		must(t, stop())
		w.checkConsistent("s3")
		if len(w.holders()) != 0 {
			t.Errorf("still held: %v", w.holders())
		}
	})
	scenario(t, "the report with free devices precedes the report that a server is gone", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		log := w.compute.logText()
		if !strings.Contains(log[strings.Index(log, "s1 running"):strings.Index(log, "s1 gone")], "report free=4") {
			t.Error(log)
		}
	})
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
	scenario(t, "a host with a long rescan interval reports at least once a minute", func(t *testing.T, w *testHost) {
		w.options.Rescan = time.Hour
		_, stop := w.startReported()
		time.Sleep(time.Second)
		before := w.compute.count(&w.compute.reports)
		time.Sleep(10*time.Minute + time.Second)
		must(t, stop())
		if n := w.compute.count(&w.compute.reports) - before; n < 10 || n > 15 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
	scenario(t, "a quiet host reports at least once a minute", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		time.Sleep(time.Second)
		before := w.compute.count(&w.compute.reports)
		time.Sleep(10*time.Minute + time.Second)
		must(t, stop())
		if n := w.compute.count(&w.compute.reports) - before; n < 10 || n > 25 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
}
