package loop

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
)

// The tag managed of device_spec is passed to the hypervisor with the device; the default is yes. It does not change
// while a guest holds the device.
func TestManaged(t *testing.T) {
	device := func(w *testHost) (d hypervisor.Device) {
		w.t.Helper()
		if list := w.guest("s1").Devices; len(list) == 1 && list[0].ID.String() == "0000:3b:00.1" {
			return list[0]
		}
		w.t.Fatalf("%+v", w.guest("s1"))
		return d
	}
	for tag, unmanaged := range map[string]bool{"": false, `,"managed":"yes"`: false, `,"managed":"no"`: true} {
		scenario(t, tag, func(t *testing.T, w *testHost) {
			setRules(w, strings.TrimSuffix(vfRule, "}")+tag+"}")
			_, stop := w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Running, "s1")
			if d := device(w); d.Unmanaged != unmanaged {
				t.Errorf("%+v", d)
			}
			must(t, stop())
		})
	}
	scenario(t, "the tag is dropped while a guest has the device", func(t *testing.T, w *testHost) {
		setRules(w, strings.TrimSuffix(vfRule, "}")+`,"managed":false,"live_migratable":true}`)
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		stop = w.restart(stop, vfRule)
		s.Build = 1 // the guest is rebuilt with the devices that it has
		w.compute.assign(s)
		w.until("it is rebuilt", func() bool { return w.compute.guest("s1").Build == 1 })
		if d := device(w); !d.Unmanaged {
			t.Errorf("%+v", d)
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.compute.forget()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		if d := device(w); d.Unmanaged {
			t.Errorf("%+v", d)
		}
		must(t, stop())
	})
}
