package loop

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scenario runs a test in a synctest bubble; it fails when a goroutine outlives the test.
func scenario(t *testing.T, name string, tell func(t *testing.T, w *testHost)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { tell(t, newTestHost(t)) })
	})
}

// begin starts an agent and waits for its first report.
func (w *testHost) begin() (*Agent, func() error) {
	w.t.Helper()
	before := w.compute.count(&w.compute.reports)
	a, stop := w.start()
	w.until("a report", func() bool { return w.compute.count(&w.compute.reports) > before })
	return a, stop
}

func TestGuestLifecycle(t *testing.T) {
	scenario(t, "from an empty Placement to running guests and back", func(t *testing.T, w *testHost) {
		a, stop := w.begin()
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
		w.compute.assign(w.want("s1", name1, name2), w.want("s2", name1), w.want("s3"))
		w.untilPhase(host.Running, "s1", "s2", "s3")
		g := w.compute.guest("s1")
		if len(g.Devices) != 2 || !strings.HasPrefix(g.Devices[0].Address, "0000:3b:00.") ||
			g.Devices[1].Address != "0000:5e:00.1" || g.Devices[0].RequestID != "r-s1" ||
			g.Devices[1].Provider != string(w.provider(name2).ID) {
			t.Errorf("%+v", g)
		}
		w.consistent("s1", "s2", "s3")
		w.compute.assign(w.want("s3"))
		w.untilPhase(host.Gone, "s1", "s2")
		must(t, stop())
		w.consistent("s3")
		if len(w.holders()) != 0 {
			t.Errorf("still held: %v", w.holders())
		}
	})
	scenario(t, "the report with free devices precedes the report that a server is gone", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		said := w.compute.logText()
		if !strings.Contains(said[strings.Index(said, "s1 running"):strings.Index(said, "s1 gone")], "report free=4") {
			t.Error(said)
		}
	})
	scenario(t, "a restart changes nothing and reports the guests again", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1, name2))
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
		a, stop := w.begin()
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
		_, stop := w.begin()
		time.Sleep(time.Second)
		before := w.compute.count(&w.compute.reports)
		time.Sleep(10*time.Minute + time.Second)
		must(t, stop())
		if n := w.compute.count(&w.compute.reports) - before; n < 10 || n > 15 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
	scenario(t, "a quiet host reports at least once a minute", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		time.Sleep(time.Second)
		before := w.compute.count(&w.compute.reports)
		time.Sleep(10*time.Minute + time.Second)
		must(t, stop())
		if n := w.compute.count(&w.compute.reports) - before; n < 10 || n > 25 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
}

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

func TestEndedWorkIsForgotten(t *testing.T) {
	scenario(t, "nothing is kept of the effects of servers that are gone", func(t *testing.T, w *testHost) {
		a, stop := w.begin()
		w.compute.assign(w.want("s1", name1), w.want("s2"))
		w.untilPhase(host.Running, "s1", "s2")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1", "s2")
		time.Sleep(time.Second)
		must(t, stop())
		if len(a.cancels) != 0 {
			t.Errorf("%d effects are kept", len(a.cancels))
		}
	})
}

func TestNewReportsMissingOptions(t *testing.T) {
	if _, err := New(Options{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	w := newTestHost(t)
	for _, name := range []string{"../../etc", "..", "a b", strings.Repeat("x", 256)} {
		o := w.options
		o.Host = name
		if _, err := New(o); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "is not a valid host name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	w.options.Dir = ""
	if _, err := New(w.options); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "journal") {
		t.Errorf("%v", err)
	}
}
