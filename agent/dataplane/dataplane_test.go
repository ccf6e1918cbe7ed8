package dataplane

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/dataplane/kerneltest"
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

const (
	vf0 = "0000:12:10.0"
	vf1 = "0000:12:10.2"
	mac = "fa:16:3e:00:00:07"
)

func id(address string) device.ID {
	a, err := pci.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	return device.PCI(a)
}

// service returns the answers in order, and repeats the last one without changes.
type service struct {
	answers []network.HostPorts
	since   []int64
	err     error
}

func (s *service) HostPorts(_ context.Context, host string, since int64) (network.HostPorts, error) {
	if host != "cmp1" {
		return network.HostPorts{}, fault.New(fault.Forbidden, "%s", host)
	}
	if s.err != nil {
		return network.HostPorts{}, s.err
	}
	s.since = append(s.since, since)
	if len(s.answers) == 0 {
		return network.HostPorts{Revision: since}, nil
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer, nil
}

func port(change func(*network.HostPort)) network.HostPort {
	p := network.HostPort{ID: "p1", Device: "s1", VIF: "hw_veb", VNIC: "direct", MAC: mac, AdminUp: true,
		NetworkType:    "vlan",
		SegmentationID: 7, PCISlot: vf0, SpoofCheck: true}
	if change != nil {
		change(&p)
	}
	return p
}

// setUp returns a data plane of a kernel with two VFs and of a service with these ports.
func setUp(t *testing.T, ports ...network.HostPort) (*DataPlane, *kerneltest.Kernel, *service) {
	kernel := kerneltest.New(vf0, vf1)
	s := &service{answers: []network.HostPorts{{Revision: 3, Whole: true, Ports: ports}}}
	return New("cmp1", kernel, s, slog.New(slog.NewTextHandler(t.Output(), nil))), kernel, s
}

func assigned(list ...string) func() []vfconfig.Assigned {
	var out []vfconfig.Assigned
	for i := 0; i < len(list); i += 2 {
		out = append(out, vfconfig.Assigned{Device: id(list[i]), Server: list[i+1]})
	}
	return func() []vfconfig.Assigned { return out }
}

func TestConfigureAndReset(t *testing.T) {
	configured := vfconfig.Settings{MAC: mac, VLAN: 7, SpoofCheck: true}
	for name, c := range map[string]struct {
		change func(*network.HostPort)
		want   vfconfig.Settings
	}{
		"port": {nil, configured},
		"flat network": {func(p *network.HostPort) { p.NetworkType, p.SegmentationID = "flat", 0 },
			vfconfig.Settings{MAC: mac, SpoofCheck: true}},
		"rates": {func(p *network.HostPort) { p.MinEgress, p.MaxEgress = 100, 5000 }, vfconfig.Settings{MAC: mac,
			VLAN: 7, SpoofCheck: true, MinRate: 1, MaxRate: 5}},
		"other server":   {func(p *network.HostPort) { p.Device = "s2" }, vfconfig.Unassigned()},
		"other device":   {func(p *network.HostPort) { p.PCISlot = vf1 }, vfconfig.Unassigned()},
		"other vif type": {func(p *network.HostPort) { p.VIF = "ovs" }, vfconfig.Unassigned()},
		"not bound":      {func(p *network.HostPort) { p.VIF = "binding_failed" }, vfconfig.Unassigned()},
	} {
		d, kernel, _ := setUp(t, port(c.change))
		for range 2 { // repeating it changes nothing
			if err := d.Configure(t.Context(), assigned(vf0, "s1")()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := kernel.Settings(vf0); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		first := len(kernel.Operations())
		for range 2 {
			if err := d.Reset(t.Context(), []device.ID{id(vf0), id("0000:ff:00.1")}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := kernel.Settings(vf0); got != vfconfig.Unassigned() {
			t.Errorf("%s: after the reset %+v", name, got)
		}
		if again := len(kernel.Operations()); again != first {
			t.Errorf("%s: %d operations, and %d to reset", name, first, again)
		}
	}
}

// What a NIC does not support is a condition, except for the MAC address and the VLAN.
func TestUnsupportedAttributes(t *testing.T) {
	all := port(func(p *network.HostPort) { p.MinEgress, p.MaxEgress, p.Trusted, p.AdminUp = 2000, 5000, true, false })
	for _, c := range []struct {
		attribute vfconfig.Attribute
		necessary bool
	}{{vfconfig.MAC, true}, {vfconfig.VLAN, true}, {vfconfig.Rates, false}, {vfconfig.SpoofCheck, false},
		{vfconfig.Trust, false}, {vfconfig.LinkState, false}} {
		d, kernel, _ := setUp(t, all)
		kernel.Unsupported = []vfconfig.Attribute{c.attribute}
		err := d.Configure(t.Context(), assigned(vf0, "s1")())
		if c.necessary && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "port p1 cannot have "+vf0)) ||
			!c.necessary && err != nil {
			t.Errorf("%s: %v", c.attribute, err)
		}
		for range 2 {
			got := texts(d.Compare(t.Context(), assigned(vf0, "s1")))
			if len(got) != 1 || !strings.Contains(got[0], vf0) || !strings.Contains(got[0], "not supported") {
				t.Errorf("%s: conditions %q", c.attribute, got)
			}
		}
		if err := d.Reset(t.Context(), []device.ID{id(vf0)}); err != nil {
			t.Errorf("%s: reset: %v", c.attribute, err)
		}
	}
}

func TestLimitIsSetWithoutGuarantee(t *testing.T) {
	d, kernel, _ := setUp(t, port(func(p *network.HostPort) { p.MinEgress, p.MaxEgress = 2000, 5000 }))
	kernel.NoGuarantee = true
	must(t, d.Configure(t.Context(), assigned(vf0, "s1")()))
	if got := kernel.Settings(vf0); got.MaxRate != 5 || got.MinRate != 0 {
		t.Errorf("%+v", got)
	}
	kernel.Operations()
	got := texts(d.Compare(t.Context(), assigned(vf0, "s1")))
	if len(got) != 1 || !strings.Contains(got[0], "at least 2") {
		t.Errorf("conditions %q", got)
	}
	if again := kernel.Operations(); len(again) > 0 {
		t.Errorf("what is set is set again: %q", again)
	}
}

// A change of a policy reaches the VF of a running guest, and a lost change is corrected.
func TestCompareFollowsThePorts(t *testing.T) {
	d, kernel, s := setUp(t, port(nil))
	if got := texts(d.Compare(t.Context(), assigned())); got != nil || len(s.since) > 0 {
		t.Errorf("without guests: %q, %v", got, s.since)
	}
	s.answers = append(s.answers, network.HostPorts{Revision: 4, Ports: []network.HostPort{
		port(func(p *network.HostPort) { p.MaxEgress = 9000 })}}, network.HostPorts{Revision: 5, Left: []string{"p1"}})
	for i, want := range []int{0, 9} {
		if got := texts(d.Compare(t.Context(), assigned(vf0, "s1", vf1, "s2"))); got != nil {
			t.Errorf("conditions %q", got)
		}
		if got := kernel.Settings(vf0); got.MaxRate != want || got.VLAN != 7 {
			t.Errorf("comparison %d: %+v, want max rate %d", i, got, want)
		}
	}
	d.Compare(t.Context(), assigned(vf0, "s1"))
	if _, found := d.cache.port(assigned(vf0, "s1")()[0]); found {
		t.Error("the port that left is still used")
	}
	if !slices.Equal(s.since, []int64{0, 3, 4}) {
		t.Errorf("requests since %v", s.since)
	}
}

func TestTrustedGuestKeepsItsMAC(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		d, kernel, _ := setUp(t, port(func(p *network.HostPort) { p.Trusted = trusted }))
		must(t, d.Configure(t.Context(), assigned(vf0, "s1")()))
		changed := kernel.Settings(vf0)
		changed.MAC, changed.VLAN = "02:00:00:00:00:01", 9
		kernel.Change(vf0, changed)
		d.Compare(t.Context(), assigned(vf0, "s1"))
		if got := kernel.Settings(vf0); (got.MAC == mac) == trusted || got.VLAN != 7 {
			t.Errorf("trusted %v: %+v", trusted, got)
		}
	}
}

func TestGuaranteesAboveTheLinkSpeed(t *testing.T) {
	second := port(func(p *network.HostPort) { p.ID, p.Device, p.PCISlot, p.MinEgress = "p2", "s2", vf1, 400_001 })
	d, kernel, _ := setUp(t, port(func(p *network.HostPort) { p.MinEgress = 600_000 }), second)
	got := texts(d.Compare(t.Context(), assigned(vf0, "s1", vf1, "s2")))
	if len(got) != 1 || !strings.Contains(got[0], "1001 Mbit/s guaranteed") {
		t.Errorf("conditions %q", got)
	}
	kernel.Speed = 10_000
	if got := texts(d.Compare(t.Context(), assigned(vf0, "s1", vf1, "s2"))); got != nil {
		t.Errorf("conditions %q", got)
	}
}

// Without an answer of the network service no guest gets a VF, and running guests keep theirs. Neutron has no such
// request: its ports are not configured.
func TestServiceWithoutAnswer(t *testing.T) {
	d, kernel, s := setUp(t, port(nil))
	must(t, d.Configure(t.Context(), assigned(vf0, "s1")()))
	s.err = fault.New(fault.Unavailable, "connection refused")
	if err := d.Configure(t.Context(), assigned(vf0, "s1")()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	kernel.Change(vf0, vfconfig.Unassigned())
	got := texts(d.Compare(t.Context(), assigned(vf0, "s1")))
	if len(got) != 1 || !strings.Contains(got[0], "connection refused") || kernel.Settings(vf0).VLAN != 7 {
		t.Errorf("conditions %q, %+v", got, kernel.Settings(vf0))
	}
	s.err = fault.New(fault.NotFound, "no such path")
	if err := d.Configure(t.Context(), assigned(vf1, "s1")()); err != nil {
		t.Error(err)
	}
}

// A port that compute assigned needs no answer about it, as with Neutron. What the service has of it counts.
func TestAssignedPort(t *testing.T) {
	assignment := []vfconfig.Assigned{{Device: id(vf0), Server: "s1",
		Port: vfconfig.Port{ID: "p1", MAC: mac, VLAN: 9, AdminUp: true, SpoofCheck: true}}}
	for name, c := range map[string]struct {
		ports []network.HostPort
		want  vfconfig.Settings
	}{
		"unknown to the service": {nil, vfconfig.Settings{MAC: mac, VLAN: 9, SpoofCheck: true}},
		"known": {[]network.HostPort{port(func(p *network.HostPort) { p.PCISlot, p.MaxEgress = "", 3000 })},
			vfconfig.Settings{MAC: mac, VLAN: 7, MaxRate: 3, SpoofCheck: true}},
		"not yet bound there": {[]network.HostPort{port(func(p *network.HostPort) { p.VIF = "unbound" })},
			vfconfig.Settings{MAC: mac, VLAN: 9, SpoofCheck: true}},
	} {
		d, kernel, _ := setUp(t, c.ports...)
		must(t, d.Configure(t.Context(), assignment))
		if got := kernel.Settings(vf0); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// blocked is a service whose answer waits until the test lets it go.
type blocked struct{ called, answer chan struct{} }

func (b blocked) HostPorts(context.Context, string, int64) (network.HostPorts, error) {
	b.called <- struct{}{}
	<-b.answer
	return network.HostPorts{Whole: true}, nil
}

// A service that does not answer delays no reset, so servers can be deleted meanwhile.
func TestResetDoesNotWaitForTheService(t *testing.T) {
	service := blocked{make(chan struct{}), make(chan struct{})}
	kernel := kerneltest.New(vf0, vf1)
	d := New("cmp1", kernel, service, slog.New(slog.DiscardHandler))
	compared := make(chan []condition.Condition)
	go func() { compared <- d.Compare(t.Context(), assigned(vf1, "s2")) }()
	<-service.called
	kernel.Change(vf0, vfconfig.Settings{MAC: mac, VLAN: 7})
	must(t, d.Reset(t.Context(), []device.ID{id(vf0)}))
	if got := kernel.Settings(vf0); got != vfconfig.Unassigned() {
		t.Errorf("%+v", got)
	}
	close(service.answer)
	if got := <-compared; got != nil {
		t.Errorf("conditions %+v", got)
	}
}

func TestFaultsOfTheKernel(t *testing.T) {
	d, kernel, _ := setUp(t, port(nil))
	must(t, d.Configure(t.Context(), assigned(vf0, "s1")()))
	for kind, waits := range map[fault.Kind]bool{fault.Unavailable: true, fault.Internal: true, fault.Forbidden: false,
		fault.Invalid: false} {
		kernel.SetErr(fault.New(kind, "broken"))
		if err := d.Reset(t.Context(), []device.ID{id(vf0)}); fault.Is(err, kind) != waits || err != nil && !waits {
			t.Errorf("reset: %s: %v", kind, err)
		}
	}
	kernel.SetErr(fault.New(fault.Forbidden, "broken"))
	kernel.Change(vf0, vfconfig.Unassigned())
	if got := texts(d.Compare(t.Context(), assigned(vf0, "s1"))); len(got) != 1 || !strings.Contains(got[0], "broken") {
		t.Errorf("%q", got)
	}
	kernel.SetErr(fault.New(fault.NotFound, "gone"))
	if err := d.Reset(t.Context(), []device.ID{id(vf0)}); err != nil {
		t.Errorf("a VF that disappeared is not reset: %v", err)
	}
	must(t, d.Configure(t.Context(), assigned("0000:ff:00.1", "s3")()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// texts returns the texts of conditions, which all have the address of a VF or the name of an interface as the subject,
// unless they concern all ports.
func texts(list []condition.Condition) (all []string) {
	for _, c := range list {
		all = append(all, c.Text)
		if c.Kind != condition.Network || (c.Subject == "") != strings.Contains(c.Text, "the ports of this host") ||
			!strings.Contains(c.Text, c.Subject) {
			all = append(all, "wrong subject "+c.Subject)
		}
	}
	return all
}
