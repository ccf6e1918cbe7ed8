//go:build lab

package vfguest

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
)

// guaranteed is a server with a port that has a guarantee.
type guaranteed struct {
	server, vf string
	port       network.Port
}

// place creates a server with a port with a policy. reason is why it cannot be placed.
func (m *machine) place(name, net, policy string) (g guaranteed, reason string) {
	m.t.Helper()
	g.port = m.port(net, map[string]any{"qos_policy_id": policy})
	g.server = m.create(name, g.port)
	if reason = m.tillDone(g.server); reason == "" {
		g.vf = m.vfOf(g.port.ID)
	}
	return g, reason
}

// remove deletes a server and its port.
func (m *machine) remove(g guaranteed) {
	m.t.Helper()
	must(m.t, m.compute.DeleteServer(m.t.Context(), g.server))
	m.tillVF(g.vf, vfconfig.Unassigned())
	m.till(g.vf+" is free", func() bool { return m.holder(g.vf) == "" })
	must(m.t, m.network.DeletePort(m.t.Context(), g.port.ID))
}

// used returns the allocated egress bandwidth of a provider.
func (m *machine) used(id provider.ID) (kbps int) {
	all, err := m.placement.ProviderAllocations(m.t.Context(), id)
	must(m.t, err)
	for _, amounts := range all {
		kbps += amounts[bandwidth.EgressBandwidth]
	}
	return kbps
}

// TestGuaranteedPorts places servers with guaranteed ports on a NIC with 700 Mbit/s and three VFs. Either the bandwidth
// or the VFs are exhausted first.
func TestGuaranteedPorts(t *testing.T) {
	m := start(t, first, second, other)
	at := bandwidth.Name{Hypervisor: "lab", Agent: bandwidth.NICSwitch, Device: m.find(first).Interface}.ID()
	net := m.prepare(first)
	large, small := m.policy(300, 350), m.policy(40, 0)

	// Two fit; the third is rejected while a VF is free.
	var placed []guaranteed
	for _, name := range []string{"one", "two"} {
		g, reason := m.place(name, net, large)
		if reason != "" {
			t.Fatalf("%s: %s", name, reason)
		}
		if got, want := m.vf(g.vf), (vfconfig.Settings{MAC: g.port.MAC, VLAN: 7, MaxRate: 350,
			SpoofCheck: true}); got != want {
			t.Errorf("the guest runs, and its VF has %+v, want %+v", got, want)
		}
		placed = append(placed, g)
	}
	if _, reason := m.place("three", net, large); !strings.Contains(reason, string(bandwidth.EgressBandwidth)) {
		t.Errorf("the third port: %q", reason)
	}
	if got := m.used(at); got != 600_000 {
		t.Errorf("%d kbit/s allocated", got)
	}

	// A small one has the last VF; the next one finds bandwidth and no VF.
	g, reason := m.place("small", net, small)
	if reason != "" {
		t.Fatal(reason)
	}
	placed = append(placed, g)
	if _, reason := m.place("smaller", net, small); !strings.Contains(reason, "SRIOV_NET_VF") {
		t.Errorf("no VF is free: %q", reason)
	}

	// The agent is killed and starts again: all is as before.
	m.killAgent()
	m.startAgent()
	for _, g := range placed {
		if got := m.vf(g.vf); got.MAC != g.port.MAC || m.holder(g.vf) != g.server {
			t.Errorf("%s has %+v and is held by %q", g.vf, got, m.holder(g.vf))
		}
	}
	if got := m.used(at); got != 640_000 {
		t.Errorf("%d kbit/s allocated", got)
	}

	// What is released can be placed again.
	m.remove(placed[0])
	m.till("its bandwidth is released", func() bool { return m.used(at) == 340_000 })
	again, reason := m.place("again", net, large)
	if reason != "" {
		t.Fatal(reason)
	}
	m.tillVF(again.vf, vfconfig.Settings{MAC: again.port.MAC, VLAN: 7, MaxRate: 350, SpoofCheck: true})
	for _, g := range append(placed[1:], again) {
		m.remove(g)
	}
	m.till("no bandwidth is allocated", func() bool { return m.used(at) == 0 })
}
