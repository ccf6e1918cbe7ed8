package loop

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/api/host"
)

// A held device whose directory has no vendor is unreadable. It does not count as removed, and it stays held.
func TestHeldDeviceIsUnreadable(t *testing.T) {
	scenario(t, "while the agent runs and after a restart", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		check := func(when string, total int) {
			t.Helper()
			text := w.compute.conditions()
			contains(t, text, heldVF+": vendor is missing, so the device is unreadable")
			if strings.Contains(text, "vanished") || strings.Contains(text, "no longer on the host") || w.total(name1,
				class) != total || w.allocated("s1", name1, class) != 1 || w.holders()[heldVF] != "s1" {
				t.Errorf("%s: %+v\n%s", when, w.provider(name1), text)
			}
		}
		w.sysfs.change(setFile(heldVF, "vendor", ""))
		w.until("a condition", func() bool { return w.compute.conditions() != "" })
		check("while the agent runs", 2)
		must(t, stop())
		plan, err := w.agent().Plan(t.Context())
		must(t, err)
		contains(t, strings.Join(plan.Notes, "\n"), heldVF+": vendor is missing, so the device is unreadable",
			heldVF+": is held by server s1, though the host cannot read it now")
		_, stop = w.startReported()
		check("after a restart", 2)
		contains(t, w.compute.conditions(), heldVF+": is held by server s1, though the host cannot read it now")
		w.checkConsistent("s1")
		w.sysfs.change(setFile(heldVF, "vendor", "0x8086"))
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		if w.total(name1, class) != 2 {
			t.Errorf("%+v", w.provider(name1))
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// Problems with NUMA nodes, and with the NUMA nodes of devices, are conditions of the host.
func TestWarningsAreConditions(t *testing.T) {
	scenario(t, "missing files of a NUMA node and of a device", func(t *testing.T, w *testHost) {
		w.numaNodes()
		for _, one := range []func(fstest.MapFS){setFile("0000:5e:00.0", "numa_node", ""), setFile("0000:5e:00.0",
			"sriov_vf_device", " "),
			func(t fstest.MapFS) { delete(t, "devices/system/node/node1/meminfo") }} {
			w.sysfs.change(one)
		}
		_, stop := w.startReported()
		contains(t, w.compute.conditions(), "0000:5e:00.0: numa_node is missing: the node is taken as unknown; ",
			"node1: meminfo is missing: ",
			`0000:5e:00.0: sriov_vf_device "" is not a number: the product_id of its VFs is taken from the VFs that `+
				`exist; `)
		must(t, stop())
	})
}
