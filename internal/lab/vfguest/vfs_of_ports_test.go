//go:build lab

package vfguest

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/vfconfig"
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

// TestVFsOfPorts runs servers with ports on the VFs of two igb NICs. This driver supports MAC addresses, VLANs, limits,
// spoof check and trust, and neither guarantees nor link states.
func TestVFsOfPorts(t *testing.T) {
	m := start(t, first, second, third)
	net := m.prepare(first, third)

	// The agent does not run when the server is created: it configures the VF before it builds the guest.
	m.killAgent()
	p1 := m.port(net, map[string]any{"qos_policy_id": m.policy(300, 400)})
	s1 := m.create("one", p1)
	m.startAgent()
	m.tillStatus(s1, "ACTIVE")
	v1 := m.vfOf(p1.ID)
	want := vfconfig.Settings{MAC: p1.MAC, VLAN: 7, MaxRate: 400, SpoofCheck: true}
	if got := m.vf(v1); got != want {
		t.Errorf("the guest runs, and its VF has %+v, want %+v", got, want)
	}
	m.till("a condition for the guarantee", func() bool {
		return strings.Contains(m.conditions(), "VF "+v1) && strings.Contains(m.conditions(), "at least 300")
	})

	// A trusted port.
	p2 := m.port(net, map[string]any{"binding:profile": map[string]any{"trusted": "true"}})
	s2 := m.create("two", p2)
	m.tillStatus(s2, "ACTIVE")
	v2 := m.vfOf(p2.ID)
	two := vfconfig.Settings{MAC: p2.MAC, VLAN: 7, Trusted: true}
	m.tillVF(v2, two)

	// The policy changes.
	_, err := m.network.UpdatePort(t.Context(), p1.ID, map[string]any{"qos_policy_id": m.policy(0, 200)})
	must(t, err)
	want.MaxRate = 200
	m.tillVF(v1, want)
	m.till("no condition", func() bool { return m.conditions() == "" })

	// The VF is changed while the agent does not run.
	m.killAgent()
	changed := want
	changed.VLAN, changed.MaxRate, changed.SpoofCheck = 9, 0, false
	for _, o := range vfconfig.Operations(want, changed) {
		must(t, m.links.Set(m.find(v1), o))
	}
	m.startAgent()
	m.tillVF(v1, want)

	// A link that is down has no rates, and guests keep running.
	_, err = m.network.UpdatePort(t.Context(), p1.ID, map[string]any{"admin_state_up": false})
	must(t, err)
	m.till("a condition for the link", func() bool { return strings.Contains(m.conditions(), "link off") })

	// After its guest is gone the VF is as before, and the other one is unchanged.
	must(t, m.compute.DeleteServer(t.Context(), s1))
	m.tillVF(v1, vfconfig.Unassigned())
	m.till("the VF is free", func() bool { return m.holder(v1) == "" })
	if got := m.vf(v2); got != two {
		t.Errorf("%s has %+v, want %+v", v2, got, two)
	}

	// The next guests have all VFs, also this one, with the configuration of their own ports.
	for _, name := range []string{"three", "four"} {
		p := m.port(net, nil)
		m.tillStatus(m.create(name, p), "ACTIVE")
		if got := m.vf(m.vfOf(p.ID)); got != (vfconfig.Settings{MAC: p.MAC, VLAN: 7, SpoofCheck: true}) {
			t.Errorf("%s has %+v", m.vfOf(p.ID), got)
		}
	}
	must(t, m.compute.DeleteServer(t.Context(), s2))
	m.tillVF(v2, vfconfig.Unassigned())
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
