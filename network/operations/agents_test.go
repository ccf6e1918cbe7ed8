package operations

import (
	"reflect"
	"slices"
	"testing"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
)

// agents reports an agent, and reads the ports of its host as they change.
func agents(t *testing.T, s *Service) {
	ctx, a := t.Context(), Agents{s}
	n, err := s.CreateNetwork(ctx, store.Network{AdminUp: true, Segments: []store.Segment{{Type: "vlan",
		PhysicalNetwork: "physnet0", ID: 7}}})
	must(t, err)
	p, err := s.CreatePort(ctx, store.Port{Network: n.ID, AdminUp: true, PortSecurity: true,
		Binding: store.Binding{Host: host, VNIC: "direct", Profile: map[string]any{"pci_slot": "0000:06:02.0"}}}, nil)
	must(t, err)
	if p.Binding.VIF != "binding_failed" || p.Status != "DOWN" {
		t.Errorf("without agents: %+v", p.Binding)
	}
	synced := true
	report := api.AgentReport{Binary: "berth-agent", Start: "1", Synced: &synced,
		Devices: []api.AgentDevice{{Name: "ens1f0",
			PhysicalNetworks: []string{"physnet0"}}}}
	must(t, a.ReportAgent(ctx, host, "NIC Switch agent", report))
	all, err := a.HostPorts(ctx, host, 0)
	want := api.HostPort{ID: p.ID, Agent: "NIC Switch agent", VIF: "hw_veb", VNIC: "direct", MAC: p.MAC, AdminUp: true,
		MTU: 1500, PhysicalNetwork: "physnet0", NetworkType: "vlan", SegmentationID: 7, PCISlot: "0000:06:02.0",
		SpoofCheck: true, PortIdentity: api.PortIdentity{Network: n.ID, PortSecurity: true,
			Groups: p.Groups}}
	if err != nil || len(all.Ports) != 1 || !reflect.DeepEqual(all.Ports[0], want) {
		t.Errorf("ports %+v, want %+v; %v", all.Ports, want, err)
	}
	quiet, err := a.HostPorts(ctx, host, all.Revision)
	if err != nil || len(quiet.Ports)+len(quiet.Left) != 0 {
		t.Errorf("without a change: %+v %v", quiet, err)
	}
	policies := Policies{s}
	policy, err := policies.CreatePolicy(ctx, store.Policy{})
	must(t, err)
	_, err = policies.PutRule(ctx, policy.ID, bwRule("egress", 100))
	must(t, err)
	_, err = s.UpdateNetwork(ctx, n.ID, NoRevision, func(n *store.Network) error { n.Policy = policy.ID; return nil })
	must(t, err)
	changed, err := a.HostPorts(ctx, host, quiet.Revision)
	if err != nil || len(changed.Ports) != 1 || changed.Ports[0].MinEgress != 100 {
		t.Errorf("a policy of the network: %+v %v", changed, err)
	}
	if !all.Whole || quiet.Whole || changed.Whole {
		t.Errorf("whole: %t, %t, %t", all.Whole, quiet.Whole, changed.Whole)
	}
	must(t, s.DeletePort(ctx, p.ID, NoRevision))
	left, err := a.HostPorts(ctx, host, changed.Revision)
	if err != nil || !slices.Equal(left.Left, []string{p.ID}) {
		t.Errorf("after the removal: %+v %v", left, err)
	}
	s.Store.KeptRemovals = 1
	other, err := s.CreatePort(ctx, store.Port{Network: n.ID, Binding: store.Binding{Host: host, VNIC: "direct"}}, nil)
	must(t, err)
	must(t, s.DeletePort(ctx, other.ID, NoRevision))
	if old, err := a.HostPorts(ctx, host, changed.Revision); err != nil || !old.Whole || slices.Contains(old.Left, p.ID) {
		t.Errorf("after removals were forgotten: %+v %v", old, err)
	}
	bindings(t, a)
}

// bindings binds a host to accounts.
func bindings(t *testing.T, a Agents) {
	t.Helper()
	admit := func(user, strategy, want string) {
		t.Helper()
		if got, err := a.AdmitAgent(t.Context(), host, user, strategy); err != nil || got != want {
			t.Errorf("%s %s: %s %v, want %s", user, strategy, got, err, want)
		}
	}
	admit("one", "keystone", "one")
	admit("two", "keystone", "one")
	admit("two", "http_basic", "two")
	must(t, a.BindHost(t.Context(), host, "three", "keystone"))
	admit("one", "keystone", "three")
	if err := a.DeleteAgent(t.Context(), AgentID(host, "NIC Switch agent")); err != nil {
		t.Error(err)
	}
	if err := a.DeleteAgent(t.Context(), AgentID(host, "NIC Switch agent")); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}
