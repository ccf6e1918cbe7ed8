//go:build neutron

package neutron

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/clienttest"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	host = "cmp1"
	root = provider.ID("11111111-1111-4111-8111-111111111111")
)

// cloud is a Neutron with Berth's Placement and a host with two agents.
type cloud struct {
	*Neutron
	base      *clienttest.Cloud
	network   *network.Client
	placement *placement.Client
	agents    []bandwidth.Agent
	compute   string // address of compute, which is in the catalog
}

// TestNeutron runs Neutron with Berth as its Placement.
func TestNeutron(t *testing.T) {
	c := startCloud(t)
	for _, part := range []struct {
		name string
		run  func(t *testing.T)
	}{{"reports arrive", c.reports}, {"changed reports arrive", c.changedReports},
		{"client of the Networking API", c.clientCalls}, {"requests of Berth alone", c.berthOnly},
		{"bindings of a port", c.bindings}, {"bound port with a guarantee", c.boundPort},
		{"servers", c.servers}} {
		if !t.Run(part.name, part.run) {
			return // the other parts need it
		}
	}
}

// startCloud starts the services, with a provider for the host.
func startCloud(t *testing.T) *cloud {
	t.Helper()
	base := clienttest.Start(t)
	base.StartBerth(t)
	compute := clienttest.Free(t)
	base.Endpoint(t, base.Service(t, "compute"), base.Region, "http://"+compute+"/v2.1")
	c := &cloud{Neutron: Start(t, base), base: base, agents: agents(t), compute: compute}
	token := base.Admin(t)
	c.network = network.NewClient(c.URL, http.DefaultClient, token)
	c.placement = placement.NewClient(base.Placements[clienttest.Berth], http.DefaultClient, token)
	_, err := c.placement.CreateProvider(t.Context(), root, host, "")
	must(t, err)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// agents returns an Open vSwitch agent with two bridges and a packet rate, and an SR-IOV agent with two NICs. Debian's
// Neutron 2023.1 has no bandwidth of tunnelled networks; 2023.2 introduced it.
func agents(t *testing.T) []bandwidth.Agent {
	t.Helper()
	rate := func(n int) bandwidth.Rate { return bandwidth.Rate{Set: true, Amount: n} }
	ovs := bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: host,
		Mappings: []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}, {Physnet: "physnet1", Device: "br-two"}},
		Bandwidths: map[string]bandwidth.Rates{"br-ex": {Egress: rate(10000), Ingress: rate(20000)},
			"br-two": {Ingress: rate(5000)}},
		DirectedRates: map[string]bandwidth.Rates{host: {Egress: rate(700), Ingress: rate(800)}},
		Defaults:      bandwidth.BuiltInDefaults(), PacketDefaults: bandwidth.BuiltInDefaults()}
	nic := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: host,
		Mappings:   []bandwidth.Mapping{{Physnet: "physnet0", Device: "ens1f0"}, {Physnet: "physnet0", Device: "ens1f1"}},
		Bandwidths: map[string]bandwidth.Rates{"ens1f0": {Egress: rate(9000), Ingress: rate(9000)}},
		Defaults:   bandwidth.BuiltInDefaults(), PacketDefaults: bandwidth.BuiltInDefaults()}
	var wrong []error
	ovs.VNICTypes, wrong = bandwidth.ParseVNICTypes(ovs.Type, []string{"direct"})
	nic.VNICTypes, _ = bandwidth.ParseVNICTypes(nic.Type, nil)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return []bandwidth.Agent{ovs, nic}
}

// reports sends the first heartbeats: Placement has exactly the providers that package bandwidth computes, and Neutron
// shows the agents as synced.
func (c *cloud) reports(t *testing.T) {
	for _, a := range c.agents {
		c.Report(t, host, a)
	}
	c.arrives(t)
	testenv.Until(t, "both agents are synced", func() error {
		list, err := c.network.Agents(t.Context(), url.Values{"host": {host}})
		if err == nil && len(list) != 2 {
			err = fmt.Errorf("there are %+v", list)
		}
		for _, a := range list {
			if err == nil && (!a.Alive || a.Synced == nil || !*a.Synced) {
				err = fmt.Errorf("not alive and synced: %+v", a)
			}
		}
		return err
	})
}

// changedReports changes a bandwidth and adds that of a device.
func (c *cloud) changedReports(t *testing.T) {
	nic := &c.agents[1]
	nic.Bandwidths["ens1f0"] = bandwidth.Rates{Egress: bandwidth.Rate{Set: true, Amount: 4000}}
	nic.Bandwidths["ens1f1"] = bandwidth.Rates{Egress: bandwidth.Rate{Set: true, Amount: 4000}}
	c.Report(t, host, *nic)
	c.arrives(t)
}

// arrives waits until the tree of the host in Placement is what package bandwidth computes.
func (c *cloud) arrives(t *testing.T) {
	t.Helper()
	want := map[provider.ID]provider.Provider{}
	for _, a := range c.agents {
		for _, d := range a.Providers() {
			want[d.Provider.ID] = d.Provider
		}
	}
	testenv.Until(t, "Neutron's reports are in Placement", func() error {
		tree, err := c.placement.Tree(t.Context(), root)
		if err != nil {
			return err
		}
		if len(tree.Providers) != len(want)+1 {
			return fmt.Errorf("there are %d providers, want %d: %+v", len(tree.Providers), len(want)+1, tree.Providers)
		}
		for _, p := range tree.Providers {
			if p.ID == root {
				continue
			}
			if err := compare(p, want[p.ID], root); err != nil {
				return err
			}
		}
		return nil
	})
}

// compare returns an error unless a provider in Placement is what package bandwidth computes for a root.
func compare(got, want provider.Provider, root provider.ID) error {
	if want.Parent == "" {
		want.Parent = root
	}
	slices.Sort(got.Traits)
	if got.Name != want.Name || got.Parent != want.Parent || !slices.Equal(got.Traits, want.Traits) ||
		!reflect.DeepEqual(got.Inventories, want.Inventories) {
		return fmt.Errorf("Neutron reports\n%+v, and package bandwidth\n%+v", got, want)
	}
	return nil
}

// clientCalls uses the calls of api/network that Neutron has.
func (c *cloud) clientCalls(t *testing.T) {
	ctx := t.Context()
	n, err := c.network.CreateNetwork(ctx, map[string]any{"name": "n", "provider:network_type": "vlan",
		"provider:physical_network": "physnet1", "provider:segmentation_id": 150})
	must(t, err)
	if n.NetworkType != "vlan" || n.PhysicalNetwork != "physnet1" || n.SegmentationID != 150 {
		t.Errorf("the network: %+v", n)
	}
	s, err := c.network.CreateSubnet(ctx, map[string]any{"network_id": n.ID, "ip_version": 4, "cidr": "10.1.0.0/24"})
	must(t, err)
	policy := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "ingress", "min_kbps": 100})
	p, err := c.network.CreatePort(ctx, map[string]any{"network_id": n.ID, "name": "p", "qos_policy_id": policy,
		"fixed_ips": []any{map[string]any{"subnet_id": s.ID, "ip_address": "10.1.0.9"}}})
	must(t, err)
	if len(p.FixedIPs) != 1 || p.FixedIPs[0].Address != "10.1.0.9" || p.VIF != "unbound" || p.Policy != policy {
		t.Errorf("the port: %+v", p)
	}
	ports, err := c.network.Ports(ctx, url.Values{"network_id": {n.ID}})
	must(t, err)
	segments, err := c.network.Segments(ctx, url.Values{"network_id": {n.ID}})
	must(t, err)
	if len(ports) != 1 || len(segments) != 1 || segments[0].PhysicalNetwork != "physnet1" {
		t.Errorf("ports %+v, segments %+v", ports, segments)
	}
	extensions, err := c.network.Extensions(ctx)
	must(t, err)
	for _, alias := range []string{"binding-extended", "port-resource-request-groups", "agent-resources-synced"} {
		if !slices.Contains(extensions, alias) {
			t.Errorf("no extension %s", alias)
		}
	}
	if quota, err := c.network.Quota(ctx, n.Project); err != nil || quota["port"] == 0 {
		t.Errorf("the quota: %v %v", quota, err)
	}
	policies, err := c.network.Policies(ctx, url.Values{"id": {policy}})
	if err != nil || len(policies) != 1 || len(policies[0].Rules) != 1 || policies[0].Rules[0].MinKbps != 100 {
		t.Errorf("the policies: %+v %v", policies, err)
	}
	must(t, c.network.DeletePort(ctx, p.ID))
	must(t, c.network.DeletePort(ctx, p.ID))
}

// berthOnly sends the requests that only `berth network` has. The agent continues without them after NotFound.
func (c *cloud) berthOnly(t *testing.T) {
	err := c.network.ReportAgent(t.Context(), host, string(bandwidth.OpenVSwitch), network.AgentReport{})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("a report of Berth's agent: %v", err)
	}
	if _, err := c.network.HostPorts(t.Context(), host, 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("the ports of a host: %v", err)
	}
}

// bindings binds a port to a second host, as for a live migration.
func (c *cloud) bindings(t *testing.T) {
	ctx := t.Context()
	const second = "cmp2"
	c.Report(t, second, bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: second,
		Mappings: []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}}})
	testenv.Until(t, "the agent of the second host is alive", func() error {
		list, err := c.network.Agents(ctx, url.Values{"host": {second}})
		if err == nil && (len(list) != 1 || !list[0].Alive) {
			err = fmt.Errorf("there are %+v", list)
		}
		return err
	})
	n, err := c.network.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": "physnet0"})
	must(t, err)
	p, err := c.network.CreatePort(ctx, map[string]any{"network_id": n.ID, "device_id": "s",
		"device_owner": "compute:nova", "binding:host_id": host})
	must(t, err)
	b, err := c.network.BindPort(ctx, p.ID, second, "normal", map[string]any{})
	must(t, err)
	if b.Host != second || b.Status != "INACTIVE" || b.VIF != "ovs" {
		t.Errorf("the second binding: %+v", b)
	}
	_, err = c.network.BindPort(ctx, p.ID, second, "normal", map[string]any{})
	if fault.CodeOf(err) != "PortBindingAlreadyExists" {
		t.Errorf("a binding that exists: %v", err)
	}
	must(t, c.network.ActivatePortBinding(ctx, p.ID, second))
	err = c.network.ActivatePortBinding(ctx, p.ID, second)
	if fault.CodeOf(err) != "PortBindingAlreadyActive" {
		t.Errorf("an active binding: %v", err)
	}
	must(t, c.network.DeletePortBinding(ctx, p.ID, host))
	all, err := c.network.PortBindings(ctx, p.ID)
	if err != nil || len(all) != 1 || all[0].Host != second || all[0].Status != "ACTIVE" {
		t.Errorf("the bindings: %+v %v", all, err)
	}
	must(t, c.network.DeletePort(ctx, p.ID))
}

// policy creates a policy with one rule.
func (c *cloud) policy(t *testing.T, kind string, rule map[string]any) string {
	t.Helper()
	p, err := c.network.CreatePolicy(t.Context(), map[string]any{"name": "p"})
	must(t, err)
	_, err = c.network.CreateRule(t.Context(), p.ID, kind, rule)
	must(t, err)
	return p.ID
}

// boundPort allocates the request of a port as compute does, binds the port, and changes its policy.
func (c *cloud) boundPort(t *testing.T) {
	ctx := t.Context()
	n, err := c.network.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": "physnet0"})
	must(t, err)
	small := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": 3000})
	big := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": 8000})
	tooBig := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": 20000})
	const server = resource.ConsumerID("22222222-2222-4222-8222-222222222222")
	p, err := c.network.CreatePort(ctx, map[string]any{"network_id": n.ID, "qos_policy_id": small,
		"device_id": server, "device_owner": "compute:nova"})
	must(t, err)
	if p.Request == nil || len(p.Request.Groups) != 1 {
		t.Fatalf("the request: %+v", p.Request)
	}
	group := p.Request.Groups[0]
	bridge := bandwidth.Name{Hypervisor: host, Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
	must(t, c.placement.PutAllocation(ctx, server, placement.ConsumerAllocation{Project: p.Project, User: "u",
		ConsumerType: "INSTANCE", Allocation: resource.Allocation{bridge: group.Resources}}))
	p, err = c.network.UpdatePort(ctx, p.ID, map[string]any{"binding:host_id": host,
		"binding:profile": map[string]any{"allocation": map[string]any{group.ID: bridge}}})
	must(t, err)
	if p.VIF != "ovs" || p.Host != host || p.Allocation()[group.ID] != string(bridge) {
		t.Errorf("the bound port: %+v", p)
	}
	_, err = c.network.UpdatePort(ctx, p.ID, map[string]any{"qos_policy_id": big})
	must(t, err)
	c.holds(t, server, bridge, 8000)
	if _, err = c.network.UpdatePort(ctx, p.ID, map[string]any{"qos_policy_id": tooBig}); err == nil {
		t.Error("a policy above the bandwidth of the bridge is accepted")
	}
	c.holds(t, server, bridge, 8000)
}

// holds checks the egress bandwidth that a server has on a provider.
func (c *cloud) holds(t *testing.T, server resource.ConsumerID, at provider.ID, want int) {
	t.Helper()
	held, err := c.placement.Allocation(t.Context(), server)
	if err != nil || held.Allocation[at][bandwidth.EgressBandwidth] != want {
		t.Errorf("the server has %v of %d (%v)", held.Allocation, want, err)
	}
}
