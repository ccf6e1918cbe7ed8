package loop

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// attachable returns a server without ports, and with the request of the device of a port.
func (p portHost) attachable() (without, requested host.Server) {
	without = p.legacyServer("s1", 1)
	requested = without
	requested.Requests = append(slices.Clone(without.Requests), host.Request{ID: "of the port", Count: 1,
		Class: string(vfClass), Port: &host.RequestPort{ID: "p", PhysicalNetworks: []string{"physnet1"}}})
	return without, requested
}

// bindTo returns an assignment with the port bound with a VF.
func bindTo(s host.Server, vf string) host.Server {
	s.Interfaces = []host.Interface{{Port: "p", MAC: "fa:16:3e:00:00:01", VIF: "hw_veb", VNIC: "direct", VLAN: 7,
		Device: vf}}
	return s
}

// deviceOfPort returns the VF that compute has as that of the port; empty: none.
func (p portHost) deviceOfPort() string {
	for _, d := range p.compute.guest("s1").Devices {
		if d.RequestID == "of the port" {
			return d.Address
		}
	}
	return ""
}

// attached reports whether compute knows that the guest has the port.
func (p portHost) attached() bool { return slices.Contains(p.compute.guest("s1").Ports, "p") }

// attach has a server with the device of a port built, and binds the port. It returns the VF of the port.
func (p portHost) attach(requested host.Server) (vf string) {
	p.t.Helper()
	p.compute.assign(requested)
	p.untilPhase(host.Running, "s1")
	vf = p.deviceOfPort()
	p.compute.assign(bindTo(requested, vf))
	p.until("the interface", p.attached)
	return vf
}

// checkVF checks whether the guest has a VF, whether it is configured, and which consumer the journal has for it.
func (p portHost) checkVF(vf string, guest, configured, claimed bool) {
	p.t.Helper()
	journalled := false
	for _, c := range p.journalled().Claims() {
		journalled = journalled || c.ID().String() == vf
	}
	_, has := p.holders()[vf]
	if is := p.kernel.Settings(vf) != vfconfig.Unassigned(); has != guest || is != configured || journalled != claimed {
		p.t.Errorf("%s: guest %v, configured %v, claimed %v; want %v, %v, %v", vf, has, is, journalled, guest, configured,
			claimed)
	}
}

// A port with a device is attached to a guest that exists: its VF is claimed and reported while the guest stays as it
// is, is configured when the port is bound, and is then given to the guest. Detaching resets it before it is freed.
func TestDeviceOfAPortIsAttachedAndDetached(t *testing.T) {
	for _, power := range []host.Power{host.On, host.Off} {
		scenario(t, "guest is "+string(power), func(t *testing.T, w *testHost) {
			p := withPorts(t, w, "s1")
			p.builds.Store("any")
			_, stop := w.startReported()
			before, requested := p.attachable()
			before.Power, requested.Power = power, power
			phase := map[host.Power]host.Phase{host.On: host.Running, host.Off: host.Stopped}[power]
			w.compute.assign(before)
			w.untilPhase(phase, "s1")
			w.compute.assign(requested)
			w.until("the claim", func() bool { return p.deviceOfPort() != "" })
			vf := p.deviceOfPort()
			p.checkVF(vf, false, false, true)
			must(t, stop())
			_, stop = w.startReported() // the claim survives a restart

			w.compute.assign(bindTo(requested, vf))
			w.until("the interface", p.attached)
			p.checkVF(vf, true, power == host.On, true)
			if got := w.guest("s1"); len(got.Devices) != 2 || len(got.Interfaces) != 1 || got.Interfaces[0].VLAN != 7 {
				t.Errorf("%+v", got)
			}

			w.compute.assign(before)
			w.until("the device is free", func() bool { return p.deviceOfPort() == "" })
			p.checkVF(vf, false, false, false)
			if got := w.guest("s1"); len(got.Devices) != 1 || len(got.Interfaces) != 0 || p.attached() {
				t.Errorf("%+v", got)
			}
			must(t, stop())
			w.checkConsistent("s1")
		})
	}
}

// After compute's database was restored, a server may have other ports with devices than its guest. Those of compute
// are claimed while the guest still has the device of the other one; that one is released when they are bound.
func TestPortsOfARestoredDatabaseReplaceThoseOfTheGuest(t *testing.T) {
	scenario(t, "another port", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.builds.Store("any")
		_, stop := w.startReported()
		_, requested := p.attachable()
		vf := p.attach(requested)

		restored := requested
		restored.Requests = slices.Clone(requested.Requests)
		restored.Requests[1].ID, restored.Requests[1].Port = "of another port",
			&host.RequestPort{ID: "q", PhysicalNetworks: []string{"physnet1"}}
		restored.ClaimOnly = true
		w.compute.assign(restored)
		other := ""
		w.until("the claim for the other port", func() bool {
			for _, d := range p.compute.guest("s1").Devices {
				if d.RequestID == "of another port" {
					other = d.Address
				}
			}
			return other != ""
		})
		p.checkVF(vf, true, true, true)
		bound := bindTo(restored, other)
		bound.ClaimOnly, bound.Interfaces[0].Port = false, "q"
		w.compute.assign(bound)
		w.until("the other interface", func() bool { return slices.Contains(p.compute.guest("s1").Ports, "q") })
		w.until("the device of the first port is free", func() bool { return p.deviceOfPort() == "" })
		p.checkVF(vf, false, false, false)
		p.checkVF(other, true, true, true)
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// A claim or an attachment that is refused leaves the guest as it is, and the reason is reported.
func TestDeviceOfAPortIsRefused(t *testing.T) {
	scenario(t, "no free device", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.builds.Store("any")
		_, stop := w.startReported()
		before, requested := p.attachable()
		requested.Requests[1].Port.PhysicalNetworks = []string{"another"}
		w.compute.assign(before)
		w.untilPhase(host.Running, "s1")
		w.compute.assign(requested)
		w.untilPhase(host.Refused, "s1")
		contains(t, w.compute.guest("s1").Message, "has no free device of class SRIOV_NET_VF for port p")
		w.compute.assign(before)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "no allocation", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.builds.Store("any")
		_, stop := w.startReported()
		before, requested := p.attachable()
		requested.Requests[1].Providers = []string{string(w.provider("cmp1").ID)}
		w.compute.assign(before)
		w.untilPhase(host.Running, "s1")
		w.compute.assign(requested)
		w.untilPhase(host.Refused, "s1")
		contains(t, w.compute.guest("s1").Message, "its allocation in Placement has 0")
		if len(w.running()) != 1 {
			t.Error("the guest is destroyed")
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "the hypervisor cannot attach", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.builds.Store("any")
		_, stop := w.startReported()
		before, requested := p.attachable()
		w.compute.assign(before)
		w.untilPhase(host.Running, "s1")
		w.compute.assign(requested)
		w.until("the claim", func() bool { return p.deviceOfPort() != "" })
		vf := p.deviceOfPort()
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Conflict, "no hot plug")
			}
			return nil
		}
		w.compute.assign(bindTo(requested, vf))
		w.untilPhase(host.Refused, "s1")
		contains(t, w.compute.guest("s1").Message, "no hot plug")
		w.compute.assign(before)
		w.until("the device is free", func() bool { return p.deviceOfPort() == "" })
		p.checkVF(vf, false, false, false)
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// A VF that cannot be reset after it was detached is not given to another guest.
func TestDetachedDeviceIsFreedAfterItsReset(t *testing.T) {
	scenario(t, "kernel refuses", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.builds.Store("any")
		a, stop := w.startReported()
		before, requested := p.attachable()
		vf := p.attach(requested)
		p.kernel.SetErr(fault.New(fault.Unavailable, "device or resource busy"))
		w.compute.assign(before)
		w.until("a condition", func() bool {
			return strings.Contains(strings.Join(condition.Texts(a.Report().Conditions), "\n"), "device or resource busy")
		})
		if _, has := w.holders()[vf]; has || p.deviceOfPort() != vf || len(w.journalled().Claims()) != 2 {
			t.Errorf("guests %v, claims %v", w.holders(), w.journalled().Claims())
		}
		p.kernel.SetErr(nil)
		w.until("the device is free", func() bool { return p.deviceOfPort() == "" })
		p.checkVF(vf, false, false, false)
		must(t, stop())
	})
}

// TestCrashWhileDevicesAreAttached attaches and detaches a port with a crash at each call in turn.
func TestCrashWhileDevicesAreAttached(t *testing.T) {
	crashAtCalls(t, testenv.Stride(5), 20, 300, crashScenarioWithAttachment)
}

func crashScenarioWithAttachment(t *testing.T, crashes func() *crash) {
	w := newTestHost(t)
	p := withPorts(t, w, "s1")
	p.builds.Store("any")
	w.runAgents(func() bool { return w.provider("cmp1").ID != "" }, crashes)
	before, requested := p.attachable()
	w.compute.assign(before)
	w.runAgents(func() bool { return w.inPhase(host.Running, "s1") }, crashes)
	w.compute.assign(requested)
	w.runAgents(func() bool { return p.deviceOfPort() != "" }, crashes)
	vf := p.deviceOfPort()
	w.compute.assign(bindTo(requested, vf))
	w.runAgents(p.attached, crashes)
	p.checkVF(vf, true, true, true)
	w.compute.assign(before)
	w.runAgents(func() bool { return p.deviceOfPort() == "" }, crashes)
	p.checkVF(vf, false, false, false)
	w.checkConsistent("s1")
}

// A guest that is built while a port is being attached gets the device with the interface: otherwise it would keep the
// device when the port is not attached.
func TestGuestIsBuiltWithoutADeviceOfAnUnboundPort(t *testing.T) {
	scenario(t, "not attached", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.builds.Store("any")
		_, stop := w.startReported()
		before, requested := p.attachable()
		w.compute.assign(requested)
		w.untilPhase(host.Running, "s1")
		vf := p.deviceOfPort()
		p.checkVF(vf, false, false, true)
		w.compute.assign(before)
		w.until("the device is free", func() bool { return p.deviceOfPort() == "" })
		p.checkVF(vf, false, false, false)
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// An agent that has lost its claim for a port of a guest that exists claims another device and reports it, so that
// compute can bind the port again.
func TestPortBoundWithALostClaimIsBoundAgain(t *testing.T) {
	scenario(t, "another device", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.builds.Store("any")
		_, stop := w.startReported()
		before, requested := p.attachable()
		w.compute.assign(before)
		w.untilPhase(host.Running, "s1")
		w.compute.assign(bindTo(requested, "0000:ff:00.1"))
		w.until("the claim", func() bool { return p.deviceOfPort() != "" })
		vf := p.deviceOfPort()
		p.checkVF(vf, false, false, true)
		w.compute.assign(bindTo(requested, vf))
		w.until("the interface", p.attached)
		p.checkVF(vf, true, true, true)
		must(t, stop())
		w.checkConsistent("s1")
	})
}
