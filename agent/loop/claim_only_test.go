package loop

import (
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
)

// A server whose ports are not bound yet gets its devices, and no guest, also after a restart. Its guest is built with
// the device of its port when compute has bound it, and not with another device than the claimed one.
func TestDevicesAreClaimedBeforePortsAreBound(t *testing.T) {
	scenario(t, "claim, restart, build", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		claimOnly := w.legacyServer("s1", 1)
		claimOnly.ClaimOnly = true
		w.compute.assign(claimOnly)
		w.untilPhase(host.Claimed, "s1")
		vf := w.compute.guest("s1").Devices[0].Address
		must(t, stop())
		_, stop = w.startReported()
		time.Sleep(time.Minute)
		if got := w.compute.guest("s1").Devices; len(w.running()) > 0 || len(got) != 1 || got[0].Address != vf {
			t.Errorf("guests %v, devices %v, before %s", w.running(), got, vf)
		}

		bound := claimOnly
		bound.ClaimOnly = false
		bound.Interfaces = []host.Interface{{Port: "p", MAC: "fa:16:3e:00:00:01", VIF: "hw_veb", VNIC: "direct", VLAN: 7,
			Device: "0000:ff:00.1"}}
		w.compute.assign(bound)
		time.Sleep(time.Minute)
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v with a device that is not claimed", got)
		}
		bound.Interfaces = []host.Interface{bound.Interfaces[0]}
		bound.Interfaces[0].Device = vf
		w.compute.assign(bound)
		w.untilPhase(host.Running, "s1")
		check := func() {
			t.Helper()
			guests, err := w.guests.Guests(t.Context())
			must(t, err)
			if len(guests) != 1 || len(guests[0].Devices) != 1 || len(guests[0].Interfaces) != 1 ||
				guests[0].Interfaces[0] != (hypervisor.Interface{Port: "p", MAC: "fa:16:3e:00:00:01", VIF: "hw_veb",
					VNIC: "direct", VLAN: 7, Device: guests[0].Devices[0].ID}) {
				t.Errorf("%+v", guests)
			}
		}
		check()

		// A restored database of compute does not have the bindings: the guest stays as it is.
		w.compute.assign(claimOnly)
		w.untilPhase(host.Running, "s1")
		time.Sleep(time.Minute)
		check()
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "a port cannot be bound", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		claimOnly := w.legacyServer("s1", 1)
		claimOnly.ClaimOnly = true
		w.compute.assign(claimOnly)
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign() // the removal
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
}
