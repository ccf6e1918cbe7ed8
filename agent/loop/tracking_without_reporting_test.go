package loop

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
)

// Without reporting devices are claimed as before: also those of a physical network, and either a PF or its VFs.
func TestLegacyTracking(t *testing.T) {
	pf := func(w *testHost, id string) host.Server {
		s := w.legacyServer(id, 1)
		r := &s.Requests[0]
		r.Alias, r.Class, r.ProductID, r.Type = "pf", pfClass, "1572", "type-PF"
		return s
	}
	scenario(t, "physical_network", func(t *testing.T, w *testHost) {
		w.options.ReportInPlacement = false
		setRules(w, strings.TrimSuffix(vfRule, "}")+`,"physical_network":"physnet1"}`)
		_, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 2))
		w.untilPhase(host.Running, "s1")
		if len(w.holders()) != 2 {
			t.Errorf("%v", w.holders())
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	for name, order := range map[string][2]func(*testHost, string) host.Server{
		"a PF, then one of its VFs": {pf, func(w *testHost, id string) host.Server { return w.legacyServer(id, 1) }},
		"a VF, then its PF":         {func(w *testHost, id string) host.Server { return w.legacyServer(id, 1) }, pf},
	} {
		scenario(t, name, func(t *testing.T, w *testHost) {
			w.options.ReportInPlacement = false
			setRules(w, `[{"product_id":"1572","address":"0000:3b:00.0"},{"product_id":"154c","address":"0000:3b:00.*"}]`)
			_, stop := w.startReported()
			first := order[0](w, "s1")
			w.compute.assign(first)
			w.untilPhase(host.Running, "s1")
			w.compute.assign(first, order[1](w, "s2"))
			w.untilPhase(host.Failed, "s2")
			contains(t, w.compute.guest("s2").Message, "is unavailable because s1 holds")
			must(t, stop())
			w.checkConsistent("s1")
		})
	}
}
