//go:build lab

package vfguest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// guaranteed is a server with a port that has a guarantee.
type guaranteed struct {
	server, vf string
	port       network.Port
}

// ask returns the request of a port to Placement.
func ask(r *network.ResourceRequest) (all resource.Ask) {
	for _, g := range r.Groups {
		group := resource.Group{Suffix: "_" + g.ID, Resources: g.Resources}
		for _, trait := range g.Required {
			group.Required = append(group.Required, []resource.Trait{resource.Trait(trait)})
		}
		all.Groups = append(all.Groups, group)
	}
	return all
}

// place creates a server with a VF and a port with a policy as compute does: the bandwidth of the port is placed first,
// and is then added to the allocation of the server, whose port is bound to the VF that the agent has selected. reason
// is why it cannot be placed.
func (m *machine) place(name, net, policy string) (g guaranteed, reason string) {
	m.t.Helper()
	ctx := m.t.Context()
	port, err := m.network.CreatePort(ctx, map[string]any{"network_id": net, "qos_policy_id": policy,
		"binding:vnic_type": "direct"})
	must(m.t, err)
	found, err := m.placement.Candidates(ctx, ask(port.Request))
	must(m.t, err)
	if len(found.List) == 0 {
		must(m.t, m.network.DeletePort(ctx, port.ID))
		return g, found.Reason
	}
	g.server = m.create(name)
	if failure := m.tillDone(g.server); failure != "" {
		must(m.t, m.network.DeletePort(ctx, port.ID))
		return g, failure
	}
	group := port.Request.Groups[0]
	at := found.List[0].Mappings["_"+group.ID][0]
	held, err := m.placement.Allocation(ctx, resource.ConsumerID(g.server))
	must(m.t, err)
	held.Allocation[at] = group.Resources
	must(m.t, m.placement.PutAllocation(ctx, resource.ConsumerID(g.server), held))
	for _, address := range []string{first, second, other} {
		if m.holder(address) == g.server {
			g.vf = address
		}
	}
	_, err = m.network.UpdatePort(ctx, port.ID, map[string]any{"device_id": g.server, "device_owner": "compute:nova"})
	must(m.t, err)
	g.port = m.bindTo(port, g.vf, map[string]any{"allocation": map[string]any{group.ID: string(at)}})
	return g, ""
}

// remove deletes a server and its port.
func (m *machine) remove(g guaranteed) {
	m.t.Helper()
	must(m.t, m.compute.DeleteServer(m.t.Context(), g.server))
	must(m.t, m.network.DeletePort(m.t.Context(), g.port.ID))
	m.tillVF(g.vf, vfconfig.Unassigned())
	m.till(g.vf+" is free", func() bool { return m.holder(g.vf) == "" })
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

// TestGuaranteedPorts places ports with guarantees on a NIC with 700 Mbit/s and VFs, which the agent reports from
// Neutron's options. Either the bandwidth or the VFs are exhausted first.
func TestGuaranteedPorts(t *testing.T) {
	nic := (&machine{t: t}).find(first).Interface
	file := filepath.Join(t.TempDir(), "sriov_agent.ini")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf("[SRIOV_NIC]\nphysical_device_mappings = physnet0:%s\n"+
		"resource_provider_bandwidths = %s:700000:700000\n", nic, nic)), 0o600))
	vfs := []string{first, second, other}
	m := start(t, "neutron_config_files = "+file+"\n", vfs...)
	var at provider.ID
	m.till("the bandwidth is reported", func() bool {
		named, err := m.placement.ProviderByName(t.Context(), "lab:NIC Switch agent:"+nic)
		if err != nil {
			return false
		}
		tree, err := m.placement.Tree(t.Context(), named.ID)
		p, _ := tree.ByName(named.Name)
		at = p.ID
		return err == nil && p.Inventories[bandwidth.EgressBandwidth].Total == 700_000
	})
	net := m.prepare(network.AgentDevice{Name: nic, Provider: string(at), PhysicalNetworks: []string{"physnet0"},
		PCISlots: vfs})
	large, small := m.policy(300, 350), m.policy(40, 0)

	// Two fit; the third is rejected while a VF is free.
	var placed []guaranteed
	for _, name := range []string{"one", "two"} {
		g, reason := m.place(name, net, large)
		if reason != "" {
			t.Fatalf("%s: %s", name, reason)
		}
		m.tillVF(g.vf, vfconfig.Settings{MAC: g.port.MAC, VLAN: 7, MaxRate: 350, SpoofCheck: true})
		placed = append(placed, g)
	}
	if _, reason := m.place("three", net, large); !strings.Contains(reason, string(bandwidth.EgressBandwidth)) {
		t.Errorf("the third port: %q", reason)
	}
	if got := m.used(at); got != 600_000 || m.holder(other) != "" {
		t.Errorf("%d kbit/s allocated, %s is held by %q", got, other, m.holder(other))
	}

	// A small one has the last VF; the next one finds bandwidth and no VF.
	g, reason := m.place("small", net, small)
	if reason != "" {
		t.Fatal(reason)
	}
	placed = append(placed, g)
	if _, reason := m.place("smaller", net, small); !strings.Contains(reason, "no free type-VF") {
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
	if got := m.used(at); got != 340_000 {
		t.Errorf("%d kbit/s allocated", got)
	}
	again, reason := m.place("again", net, large)
	if reason != "" {
		t.Fatal(reason)
	}
	m.tillVF(again.vf, vfconfig.Settings{MAC: again.port.MAC, VLAN: 7, MaxRate: 350, SpoofCheck: true})
	for _, g := range append(placed[1:], again) {
		m.remove(g)
	}
	if got := m.used(at); got != 0 {
		t.Errorf("%d kbit/s are still allocated", got)
	}
}
