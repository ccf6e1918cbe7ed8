package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/dataplane"
	"github.com/openberth/berth/agent/dataplane/kerneltest"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// boundPorts is a network service in which each VF that compute has a report of is bound to a port of its server.
type boundPorts struct {
	compute *fakeCompute
	servers []string

	mu      sync.Mutex
	maxRate int // kilobits per second
	err     error
}

func (b *boundPorts) HostPorts(context.Context, string, int64) (network.HostPorts, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := network.HostPorts{Revision: 1, Whole: true}
	for i, server := range b.servers {
		for _, d := range b.compute.guest(server).Devices {
			all.Ports = append(all.Ports, network.HostPort{ID: "port of " + server + " " + d.Address, Device: server,
				VIF: "hw_veb", MAC: fmt.Sprintf("fa:16:3e:00:00:0%d", i), AdminUp: true, NetworkType: "vlan",
				SegmentationID: 100 + i,
				PCISlot:        d.Address, SpoofCheck: true, MaxEgress: b.maxRate})
		}
	}
	return all, b.err
}

func (b *boundPorts) set(maxRate int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.maxRate, b.err = maxRate, err
}

// portHost is a host whose VFs are for ports.
type portHost struct {
	*testHost
	kernel *kerneltest.Kernel
	ports  *boundPorts
	builds *atomic.Value // what withPorts permits: configured, any or none
}

var allVFs = []string{"0000:3b:00.1", "0000:3b:00.2", "0000:5e:00.1", "0000:5e:00.2"}

// withPorts gives a host a data plane, and fails the test if a guest is built with a VF that is not configured.
func withPorts(t *testing.T, w *testHost, servers ...string) portHost {
	t.Helper()
	p := portHost{w, kerneltest.New(allVFs...), &boundPorts{compute: w.compute, servers: servers}, &atomic.Value{}}
	p.builds.Store("configured")
	w.options.ReportInPlacement = false
	setRules(w, strings.TrimSuffix(vfRule, "}")+`,"physical_network":"physnet1"}`)
	w.options.DataPlane = dataplane.New("cmp1", p.kernel, p.ports, w.options.Log)
	w.guests.Fail = func(_ context.Context, operation, guest string) error {
		permitted := p.builds.Load()
		if operation != "build" || permitted == "any" {
			return nil
		}
		if permitted == "none" {
			t.Errorf("%s is built", guest)
		}
		for _, d := range w.compute.guest(guest).Devices {
			if p.kernel.Settings(d.Address).VLAN == 0 {
				t.Errorf("%s is built with %s, which is not configured", guest, d.Address)
			}
		}
		return nil
	}
	return p
}

// checkVFs checks that exactly the VFs that guests have are configured.
func (p portHost) checkVFs() {
	p.t.Helper()
	holders := p.holders()
	for _, address := range allVFs {
		s := p.kernel.Settings(address)
		if (holders[address] == "") != (s == vfconfig.Unassigned()) {
			p.t.Errorf("%s: guest %q, configuration %+v", address, holders[address], s)
		}
	}
}

func TestVFsAreConfiguredBeforeTheGuestAndResetAfterIt(t *testing.T) {
	scenario(t, "build, change, delete", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1", "s2")
		_, stop := w.startReported()
		first, second := w.legacyServer("s1", 2), w.legacyServer("s2", 1)
		w.compute.assign(first, second)
		w.untilPhase(host.Running, "s1", "s2")
		p.checkVFs()
		p.ports.set(7000, nil)
		w.until("the new rate", func() bool {
			for address := range w.holders() {
				if p.kernel.Settings(address).MaxRate != 7 {
					return false
				}
			}
			return true
		})
		w.compute.assign(second)
		w.untilPhase(host.Gone, "s1")
		p.checkVFs()
		must(t, stop())
		_, stop = w.startReported() // a restart configures nothing again, and corrects what differs
		for address := range w.holders() {
			p.kernel.Change(address, vfconfig.Unassigned())
		}
		w.until("the correction", func() bool { return p.kernel.Settings(onlyKey(w.holders())).VLAN == 101 })
		p.checkVFs()
		must(t, stop())
		w.checkConsistent("s2")
	})
}

// The VF of a stopped guest is in no network: its server may run elsewhere with the same MAC address.
func TestVFsOfAStoppedGuestAreReset(t *testing.T) {
	scenario(t, "stop, restart, start", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		_, stop := w.startReported()
		s := w.legacyServer("s1", 1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		p.checkVFs()
		stopped := s
		stopped.Power = host.Off
		w.compute.assign(stopped)
		w.untilPhase(host.Stopped, "s1")
		p.checkUnconfigured()
		must(t, stop())
		_, stop = w.startReported()
		time.Sleep(time.Minute)
		p.checkUnconfigured()
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		p.checkVFs()
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// onlyKey returns the only key.
func onlyKey(m map[string]string) (key string) {
	for key = range m {
	}
	return key
}

func TestGuestIsNotBuiltOutsideItsNetwork(t *testing.T) {
	scenario(t, "the NIC has no VLANs", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.kernel.Unsupported = []vfconfig.Attribute{vfconfig.VLAN}
		_, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 1))
		w.untilPhase(host.Failed, "s1")
		contains(t, w.compute.guest("s1").Message, "cannot be built", "port of s1", "not supported")
		p.checkVFs()
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "the network service does not answer", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.ports.set(0, fault.New(fault.Unavailable, "connection refused"))
		a, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 1))
		w.until("a condition", func() bool {
			return strings.Contains(strings.Join(condition.Texts(a.Report().Conditions), "\n"), "connection refused")
		})
		time.Sleep(10 * time.Minute)
		if got := w.compute.phase("s1"); got != host.Claimed || len(w.running()) > 0 {
			t.Errorf("%s, guests %v", got, w.running())
		}
		p.ports.set(0, nil)
		w.untilPhase(host.Running, "s1")
		p.checkVFs()
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// A guest that arrived by live migration has its VF configured before compute gets the report that it runs.
func TestVFsOfAnArrivedGuest(t *testing.T) {
	scenario(t, "live migration", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		w.options.PortInterval, w.options.Rescan = time.Hour, time.Minute
		_, stop := w.startReported()
		incoming := w.legacyServer("s1", 1)
		incoming.Incoming = true
		w.compute.assign(incoming)
		w.untilPhase(host.Claimed, "s1")
		p.builds.Store("any")
		claim := w.journalled().Claims()[0]
		must(t, w.guests.Build(t.Context(), hypervisor.Guest{ID: "s1", Name: "server s1", VCPUs: 1, MemoryMB: 512, DiskGB: 1,
			Devices: []hypervisor.Device{{ID: claim.ID(), Request: claim.RequestID}}}))
		time.Sleep(2 * time.Minute) // the guest is observed
		p.builds.Store("none")
		p.checkUnconfigured()
		w.compute.assign(w.legacyServer("s1", 1))
		w.untilPhase(host.Running, "s1")
		p.checkVFs()
		must(t, stop())
	})
}

// A VF that is created again after its removal is configured at once.
func TestVFsAreComparedAfterKernelEvents(t *testing.T) {
	scenario(t, "kernel event", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		w.options.PortInterval = time.Hour
		events := make(chan struct{})
		w.options.Events = func(ctx context.Context, changed func()) error {
			select {
			case <-events:
				changed()
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 1))
		w.untilPhase(host.Running, "s1")
		p.kernel.Change(onlyKey(w.holders()), vfconfig.Unassigned())
		time.Sleep(time.Minute)
		p.checkUnconfigured()
		close(events)
		w.until("the configuration", func() bool { return p.kernel.Settings(onlyKey(w.holders())).VLAN != 0 })
		must(t, stop())
	})
}

func TestDestroyGuestResetsItsVFs(t *testing.T) {
	scenario(t, "berth agent destroy", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1", "s2")
		_, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 2), w.legacyServer("s2", 1))
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		must(t, w.agent().DestroyGuest(t.Context(), "s1", true))
		p.checkVFs()
	})
}

// A VF whose rule was removed while a guest has it is reset all the same when the guest is gone.
func TestVFOfARemovedRuleIsReset(t *testing.T) {
	for _, byOperator := range []bool{false, true} {
		scenario(t, fmt.Sprint("berth agent destroy: ", byOperator), func(t *testing.T, w *testHost) {
			p := withPorts(t, w, "s1")
			_, stop := w.startReported()
			w.compute.assign(w.legacyServer("s1", 1))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			setRules(w, `{"vendor_id":"10de","product_id":"ffff"}`)
			if byOperator {
				must(t, w.agent().DestroyGuest(t.Context(), "s1", true))
				p.checkUnconfigured()
				return
			}
			_, stop = w.startReported()
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			p.checkUnconfigured()
			must(t, stop())
		})
	}
}

// checkUnconfigured checks that no VF is configured.
func (p portHost) checkUnconfigured() {
	p.t.Helper()
	for _, address := range allVFs {
		if s := p.kernel.Settings(address); s != vfconfig.Unassigned() {
			p.t.Errorf("%s: %+v", address, s)
		}
	}
}

// A VF that cannot be reset is not given to another guest.
func TestDeviceIsFreedAfterItsReset(t *testing.T) {
	scenario(t, "kernel refuses", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		a, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 1))
		w.untilPhase(host.Running, "s1")
		p.kernel.SetErr(fault.New(fault.Unavailable, "device or resource busy"))
		w.compute.assign()
		w.until("a condition", func() bool {
			return strings.Contains(strings.Join(condition.Texts(a.Report().Conditions), "\n"), "device or resource busy")
		})
		if len(w.running()) > 0 || len(w.journalled().Claims()) != 1 {
			t.Errorf("guests %v, claims %v", w.running(), w.journalled().Claims())
		}
		p.kernel.SetErr(nil)
		w.untilPhase(host.Gone, "s1")
		p.checkVFs()
		must(t, stop())
		w.checkConsistent()
	})
}

func TestUnsupportedRateIsACondition(t *testing.T) {
	scenario(t, "rates", func(t *testing.T, w *testHost) {
		p := withPorts(t, w, "s1")
		p.ports.set(5000, nil)
		p.kernel.Unsupported = []vfconfig.Attribute{vfconfig.Rates}
		a, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 1))
		w.untilPhase(host.Running, "s1")
		reports := func() string { return strings.Join(condition.Texts(a.Report().Conditions), "\n") }
		w.until("a condition", func() bool { return strings.Contains(reports(), "at most 5 Mbit/s: operation not") })
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.until("no condition", func() bool { return reports() == "" })
		must(t, stop())
	})
}

// TestCrashWithPorts runs a scenario with a crash at each call in turn. At the end exactly the VFs of guests are
// configured.
func TestCrashWithPorts(t *testing.T) {
	crashAtCalls(t, testenv.Stride(5), 20, 300, crashScenarioWithPorts)
}

// crashScenarioWithPorts assigns two servers with ports, replaces one, and removes the other.
func crashScenarioWithPorts(t *testing.T, crashes func() *crash) {
	w := newTestHost(t)
	p := withPorts(t, w, "s1", "s2", "s3")
	w.runAgents(func() bool { return w.provider("cmp1").ID != "" }, crashes)
	s1, s2 := w.legacyServer("s1", 2), w.legacyServer("s2", 1)
	w.compute.assign(s1, s2)
	w.runAgents(func() bool { return w.inPhase(host.Running, "s1", "s2") }, crashes)
	p.checkVFs()
	w.compute.assign(s2, w.legacyServer("s3", 3))
	w.runAgents(func() bool { return w.inPhase(host.Running, "s3") && w.inPhase(host.Gone, "s1") }, crashes)
	p.checkVFs()
	w.compute.assign(s2)
	w.runAgents(func() bool { return w.inPhase(host.Gone, "s3") && len(w.journalled().Gone()) == 0 }, crashes)
	p.checkVFs()
	w.checkConsistent("s2")
}
