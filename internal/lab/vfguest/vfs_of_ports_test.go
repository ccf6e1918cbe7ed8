//go:build lab

package vfguest

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// policy creates a policy with a guarantee and a limit of what a guest sends, in megabits per second; 0: none.
func (m *machine) policy(guarantee, limit int) (id string) {
	m.t.Helper()
	p, err := m.network.CreatePolicy(m.t.Context(), map[string]any{})
	must(m.t, err)
	if guarantee > 0 {
		_, err = m.network.CreateRule(m.t.Context(), p.ID, "minimum_bandwidth", map[string]any{"min_kbps": guarantee * 1000})
		must(m.t, err)
	}
	if limit > 0 {
		_, err = m.network.CreateRule(m.t.Context(), p.ID, "bandwidth_limit", map[string]any{"max_kbps": limit * 1000,
			"direction": "egress"})
		must(m.t, err)
	}
	return p.ID
}

// bind creates a port of a server and binds it to a VF, as compute does.
func (m *machine) bind(net, server, vf string, attributes map[string]any, profile map[string]any) network.Port {
	m.t.Helper()
	all := map[string]any{"network_id": net, "device_id": server, "device_owner": "compute:nova",
		"binding:vnic_type": "direct"}
	for name, value := range attributes {
		all[name] = value
	}
	port, err := m.network.CreatePort(m.t.Context(), all)
	must(m.t, err)
	return m.bindTo(port, vf, profile)
}

// bindTo binds a port to a VF.
func (m *machine) bindTo(port network.Port, vf string, profile map[string]any) network.Port {
	m.t.Helper()
	full := map[string]any{"pci_slot": vf, "pci_vendor_info": "8086:10ca", "physical_network": "physnet0"}
	for name, value := range profile {
		full[name] = value
	}
	port, err := m.network.UpdatePort(m.t.Context(), port.ID, map[string]any{"binding:host_id": "lab",
		"binding:profile": full})
	must(m.t, err)
	if port.VIF != "hw_veb" {
		m.t.Fatalf("not bound: %+v", port)
	}
	return port
}

// prepare creates the flavor and a network with a VLAN, and reports the NIC to the network service.
func (m *machine) prepare(nic network.AgentDevice) (net string) {
	m.t.Helper()
	ctx := m.t.Context()
	_, err := m.compute.CreateFlavor(ctx, compute.CreateFlavor{ID: "vf", Name: "vf", VCPUs: 1, RAM: 32})
	must(m.t, err)
	must(m.t, m.compute.SetExtraSpecs(ctx, "vf", map[string]string{"pci_passthrough:alias": "vf:1"}))
	must(m.t, m.network.ReportAgent(ctx, "lab", "NIC Switch agent", network.AgentReport{Binary: "berth-agent",
		Devices: []network.AgentDevice{nic}}))
	n, err := m.network.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": "physnet0", "provider:segmentation_id": 7})
	must(m.t, err)
	return n.ID
}

// VFs: third is one of the second PF.
const (
	first  = "0000:12:10.0"
	second = "0000:12:10.2"
	third  = "0000:23:10.0"
	other  = "0000:12:10.4"
)

// TestVFsOfPorts runs servers with ports on the VFs of two igb NICs. This driver supports MAC addresses, VLANs, limits,
// spoof check and trust, and neither guarantees nor link states.
func TestVFsOfPorts(t *testing.T) {
	m := start(t, "", first, second, third)
	net := m.prepare(network.AgentDevice{Name: m.find(first).Interface, PhysicalNetworks: []string{"physnet0"}})

	// The port is bound while the agent does not run: the agent configures the VF before it builds the guest.
	m.killAgent()
	s1 := m.create("one")
	p1 := m.bind(net, s1, first, map[string]any{"qos_policy_id": m.policy(300, 400)}, nil)
	m.startAgent()
	m.tillStatus(s1, "ACTIVE")
	want := vfconfig.Settings{MAC: p1.MAC, VLAN: 7, MaxRate: 400, SpoofCheck: true}
	if got := m.vf(first); got != want {
		t.Errorf("the guest runs, and its VF has %+v, want %+v", got, want)
	}
	m.till("a condition for the guarantee", func() bool {
		return strings.Contains(m.conditions(), "VF "+first) && strings.Contains(m.conditions(), "at least 300")
	})

	// A port that is bound to the VF of a running guest. It is trusted.
	s2 := m.create("two")
	m.tillStatus(s2, "ACTIVE")
	p2 := m.bind(net, s2, second, nil, map[string]any{"trusted": "true"})
	two := vfconfig.Settings{MAC: p2.MAC, VLAN: 7, Trusted: true}
	m.tillVF(second, two)

	// The policy changes.
	_, err := m.network.UpdatePort(t.Context(), p1.ID, map[string]any{"qos_policy_id": m.policy(0, 200)})
	must(t, err)
	want.MaxRate = 200
	m.tillVF(first, want)
	m.till("no condition", func() bool { return m.conditions() == "" })

	// The VF is changed while the agent does not run.
	m.killAgent()
	changed := want
	changed.VLAN, changed.MaxRate, changed.SpoofCheck = 9, 0, false
	for _, o := range vfconfig.Operations(want, changed) {
		must(t, m.links.Set(m.find(first), o))
	}
	m.startAgent()
	m.tillVF(first, want)

	// A link that is down has no rates, and guests keep running.
	_, err = m.network.UpdatePort(t.Context(), p1.ID, map[string]any{"admin_state_up": false})
	must(t, err)
	m.till("a condition for the link", func() bool { return strings.Contains(m.conditions(), "link off") })

	// After its guest is gone the VF is as before, and the other one is unchanged.
	must(t, m.compute.DeleteServer(t.Context(), s1))
	m.tillVF(first, vfconfig.Unassigned())
	m.till("the VF is free", func() bool { return m.holder(first) == "" })
	if got := m.vf(second); got != two {
		t.Errorf("%s has %+v, want %+v", second, got, two)
	}

	// The next guest gets the same VF, without a port: the configuration of the former one is gone.
	s3 := m.create("three")
	m.tillStatus(s3, "ACTIVE")
	if got := m.holder(first); got != s3 {
		t.Errorf("%s is held by %q", first, got)
	}
	if got := m.vf(first); got != vfconfig.Unassigned() {
		t.Errorf("%s has %+v", first, got)
	}
	must(t, m.compute.DeleteServer(t.Context(), s2))
	m.tillVF(second, vfconfig.Unassigned())
}

// holder returns the holder of a device according to compute.
func (m *machine) holder(address string) string {
	all, err := m.hosts.Devices(m.t.Context())
	if err != nil {
		return "unknown"
	}
	for _, d := range all {
		if d.Address == address {
			return d.Holder
		}
	}
	return "no device"
}

// TestKernelRefusals checks the kinds of faults for what igb does not support.
func TestKernelRefusals(t *testing.T) {
	m := &machine{t: t}
	vf := m.find(third)
	for _, o := range []vfconfig.Operation{
		{Attribute: vfconfig.Rates, Settings: vfconfig.Settings{MinRate: 5, MaxRate: 10}},
		{Attribute: vfconfig.LinkState, Settings: vfconfig.Settings{Disabled: true}},
		{Attribute: vfconfig.MAC, Settings: vfconfig.Settings{MAC: "01:00:00:00:00:01"}},
	} {
		checkKind(t, m.links.Set(vf, o), fault.Invalid, o.String())
	}
	vf.Index = 100
	_, err := m.links.Read(vf)
	checkKind(t, err, fault.NotFound, "VF 100")
	a, err := pci.ParseAddress("0000:11:00.1")
	must(t, err)
	_, err = m.links.Find(a)
	checkKind(t, err, fault.NotFound, "a VF of a PF without interface")
}
