package loop

import (
	"strings"
	"testing"

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
}
