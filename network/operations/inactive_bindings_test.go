package operations

import (
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	host2   = "cmp2"
	bridge2 = provider.ID("bbbbbbbb-0000-0000-0000-000000000002")
)

// migrating returns a bound port with a guarantee of 3000, whose server migrates to a second host: the allocation of
// the server is that of the destination, and the port has an inactive binding there.
func migrating(t *testing.T) (*cloud, store.Port) {
	t.Helper()
	c := newCloud(t)
	port := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 3000)),
		map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	must(t, Agents{c.Service}.ReportAgent(t.Context(), host2, string(bandwidth.OpenVSwitch),
		network.AgentReport{Devices: []network.AgentDevice{{Name: "br-ex", Provider: string(bridge2),
			PhysicalNetworks: []string{"physnet0"}}}}))
	c.placement.SetProvider(provider.Provider{ID: bridge2, Name: "br2",
		Inventories: map[resource.Class]resource.Inventory{
			bandwidth.EgressBandwidth: bandwidth.BuiltInDefaults().Inventory(10000)}})
	held, err := c.placement.Allocation(t.Context(), server)
	must(t, err)
	held.Allocation = resource.Allocation{bridge2: {bandwidth.EgressBandwidth: 3000}}
	must(t, c.placement.PutAllocation(t.Context(), server, held))
	added, err := Bindings{c.Service}.Add(t.Context(), port.ID, store.Binding{Host: host2, VNIC: "normal",
		Profile: toBridge2(port)})
	must(t, err)
	if b, _ := bindingOn(added, host2); b.VIF != "ovs" {
		t.Fatalf("the inactive binding: %+v", b)
	}
	return c, port
}

// toBridge2 returns the profile of a port whose bandwidth comes from the bridge of the second host.
func toBridge2(port store.Port) map[string]any {
	allocation := map[string]any{}
	for id := range port.Allocated {
		allocation[id] = string(bridge2)
	}
	return map[string]any{"allocation": allocation}
}

// TestLiveMigrationOfABoundPort adds, activates and deletes bindings; the port has the shares of its active binding.
func TestLiveMigrationOfABoundPort(t *testing.T) {
	c, port := migrating(t)
	ctx := t.Context()
	if now, err := Get[store.Port](ctx, c.Service, port.ID); err != nil || now.Binding.Host != host ||
		len(now.Inactive) != 1 || providerOfShare(now) != string(bridge) {
		t.Fatalf("before the activation: %+v %v", now, err)
	}
	if _, err := c.setPolicy(ctx, port.ID, c.policy(t, bwRule("egress", 1))); fault.CodeOf(err) != placementConflict {
		t.Errorf("policy change during a migration: %v", err)
	}
	_, err := Bindings{c.Service}.Activate(ctx, port.ID, host2)
	must(t, err)
	now, err := Get[store.Port](ctx, c.Service, port.ID)
	must(t, err)
	if now.Binding.Host != host2 || now.Status != active || providerOfShare(now) != string(bridge2) {
		t.Errorf("after the activation: %+v", now)
	}
	if len(now.Inactive) != 1 || now.Inactive[0].Host != host || now.Inactive[0].VIF != "unbound" ||
		len(now.Inactive[0].Allocated) > 0 {
		t.Errorf("the former binding: %+v", now.Inactive)
	}
	if ports, err := (Agents{c.Service}).HostPorts(ctx, host, 1); err != nil || len(ports.Left) != 1 {
		t.Errorf("the source does not receive that the port has left it: %+v %v", ports, err)
	}
	must(t, Bindings{c.Service}.Delete(ctx, port.ID, host))
	must(t, c.DeletePort(ctx, port.ID, NoRevision))
	if shares := c.shares(); len(shares) > 0 {
		t.Errorf("the allocation is leaked: %v", shares)
	}
}

func providerOfShare(p store.Port) string {
	for _, a := range p.Allocated {
		return a.Provider
	}
	return ""
}

// TestPortDeletedDuringAMigration releases the allocation of the inactive binding.
func TestPortDeletedDuringAMigration(t *testing.T) {
	c, port := migrating(t)
	must(t, c.DeletePort(t.Context(), port.ID, NoRevision))
	if shares := c.shares(); len(shares) > 0 {
		t.Errorf("the allocation is leaked: %v", shares)
	}
}

// TestRefusedBindings has the faults of Neutron. A refused binding changes nothing.
func TestRefusedBindings(t *testing.T) {
	c, port := migrating(t)
	ctx := t.Context()
	free, err := c.CreatePort(ctx, store.Port{Network: c.network.ID, Binding: store.Binding{VNIC: "normal"}}, nil)
	must(t, err)
	add := func(id, host string) error {
		_, err := Bindings{c.Service}.Add(ctx, id, store.Binding{Host: host, VNIC: "normal"})
		return err
	}
	activate := func(host string) error { _, err := Bindings{c.Service}.Activate(ctx, port.ID, host); return err }
	for _, one := range []struct {
		name, code string
		err        error
	}{
		{"port without a server", "InvalidInput", add(free.ID, host2)},
		{"active binding exists", "PortBindingAlreadyExists", add(port.ID, host)},
		{"inactive binding exists", "PortBindingAlreadyExists", add(port.ID, host2)},
		{"host without an agent", "PortBindingError", add(port.ID, "cmp3")},
		{"unknown port", "PortNotFound", add("none", host2)},
		{"activate the active one", "PortBindingAlreadyActive", activate(host)},
		{"activate none", "PortBindingNotFound", activate("cmp3")},
		{"delete none", "PortBindingNotFound", Bindings{c.Service}.Delete(ctx, port.ID, "cmp3")},
	} {
		if fault.CodeOf(one.err) != one.code {
			t.Errorf("%s: %v, want %s", one.name, one.err, one.code)
		}
	}
	if now, err := Get[store.Port](ctx, c.Service, port.ID); err != nil || len(now.Inactive) != 1 {
		t.Errorf("%+v %v", now.Inactive, err)
	}
}

// TestUnboundPortHasNoBindings removes the inactive bindings with the host of a port.
func TestUnboundPortHasNoBindings(t *testing.T) {
	c, port := migrating(t)
	bindTo := func(host string) store.Port {
		p, err := c.UpdatePort(t.Context(), port.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
			p.Binding.Host = host
			return nil, false, nil
		})
		must(t, err)
		return p
	}
	if p := bindTo(host2); len(p.Inactive) > 0 {
		t.Errorf("the host has an active and an inactive binding: %+v", p.Inactive)
	}
	if p := bindTo(""); len(p.Inactive) > 0 || p.Binding.VIF != "unbound" {
		t.Errorf("%+v", p)
	}
}
