package operations

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a service on a database, with a Placement.
func open(t testing.TB, url string, p Placement) *Service {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	st, err := store.Open(t.Context(), db)
	must(t, err)
	s := New(st, p)
	s.Log = slog.New(slog.DiscardHandler)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	host   = "cmp1"
	server = resource.ConsumerID("11111111-0000-0000-0000-000000000001")
	root   = provider.ID("aaaaaaaa-0000-0000-0000-000000000001")
)

// The providers of the host: those of an Open vSwitch agent with one bridge, and of an SR-IOV agent with two PFs.
var (
	ovs    = bandwidth.Name{Hypervisor: host, Agent: bandwidth.OpenVSwitch}.ID()
	bridge = bandwidth.Name{Hypervisor: host, Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
	nic    = bandwidth.Name{Hypervisor: host, Agent: bandwidth.NICSwitch}.ID()
	pf0    = bandwidth.Name{Hypervisor: host, Agent: bandwidth.NICSwitch, Device: "ens1f0"}.ID()
	pf1    = bandwidth.Name{Hypervisor: host, Agent: bandwidth.NICSwitch, Device: "ens1f1"}.ID()
)

// cloud is a service with a host whose agents have reported, and a network on physnet0.
type cloud struct {
	*Service
	placement *placementtest.Placement
	fail      func(placementtest.Call) (before, after error)
	network   store.Network
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	return newCloudOn(t, databases.SQLite(t))
}

// newCloudOn is newCloud on a database.
func newCloudOn(t testing.TB, url string) *cloud {
	t.Helper()
	c := &cloud{placement: placementtest.New(nil)}
	c.Service = open(t, url, c.placement.Client(func(call placementtest.Call) (error, error) {
		if c.fail == nil {
			return nil, nil
		}
		return c.fail(call)
	}))
	c.providers(t)
	c.reportAgents(t)
	var err error
	c.network, err = c.CreateNetwork(t.Context(), store.Network{Base: store.Base{Project: "demo"}, AdminUp: true,
		Segments: []store.Segment{{Type: "vlan", PhysicalNetwork: "physnet0", ID: 100}}})
	must(t, err)
	return c
}

// reportAgents has the agents of the host report, which then count as alive for AgentDownTime.
func (c *cloud) reportAgents(t testing.TB) {
	t.Helper()
	ctx, agents := t.Context(), Agents{c.Service}
	must(t, agents.ReportAgent(ctx, host, string(bandwidth.OpenVSwitch), network.AgentReport{Provider: string(ovs),
		Root: string(root), Devices: []network.AgentDevice{{Name: "br-ex", Provider: string(bridge),
			PhysicalNetworks: []string{"physnet0"}}}}))
	must(t, agents.ReportAgent(ctx, host, string(bandwidth.NICSwitch), network.AgentReport{Provider: string(nic),
		Root: string(root), Devices: []network.AgentDevice{
			{Name: "ens1f0", Provider: string(pf0), PhysicalNetworks: []string{"physnet0"}, PCISlots: []string{"0000:06:02.0"}},
			{Name: "ens1f1", Provider: string(pf1), PhysicalNetworks: []string{"physnet0"}, PCISlots: []string{"0000:07:02.0"}},
		}}))
}

// providers creates the tree of the host: 10000 kilobits per second each, and 5000 kilopackets per second.
func (c *cloud) providers(t testing.TB) {
	t.Helper()
	rate := func(total int, classes ...resource.Class) map[resource.Class]resource.Inventory {
		all := map[resource.Class]resource.Inventory{}
		for _, class := range classes {
			all[class] = bandwidth.BuiltInDefaults().Inventory(total)
		}
		return all
	}
	bw := rate(10000, bandwidth.EgressBandwidth, bandwidth.IngressBandwidth)
	normal, direct := []resource.Trait{"CUSTOM_VNIC_TYPE_NORMAL"}, []resource.Trait{"CUSTOM_VNIC_TYPE_DIRECT"}
	onPhysnet := func(vnic []resource.Trait) []resource.Trait {
		return append([]resource.Trait{"CUSTOM_PHYSNET_PHYSNET0"}, vnic...)
	}
	vcpus := resource.Inventory{Total: 8, MaxUnit: 8, MinUnit: 1, StepSize: 1, AllocationRatio: 1}
	for _, p := range []provider.Provider{
		{ID: root, Name: host, Inventories: map[resource.Class]resource.Inventory{"VCPU": vcpus}},
		{ID: ovs, Name: "ovs", Parent: root, Root: root, Traits: normal,
			Inventories: rate(5000, bandwidth.EgressPacketRate, bandwidth.IngressPacketRate, bandwidth.PacketRate)},
		{ID: bridge, Name: "br", Parent: ovs, Root: root, Inventories: bw, Traits: onPhysnet(normal)},
		{ID: nic, Name: "nic", Parent: root, Root: root, Traits: direct},
		{ID: pf0, Name: "pf0", Parent: nic, Root: root, Inventories: bw, Traits: onPhysnet(direct)},
		{ID: pf1, Name: "pf1", Parent: nic, Root: root, Inventories: bw, Traits: onPhysnet(direct)},
	} {
		c.placement.SetProvider(p)
	}
}

// policy creates a policy with rules. Rules have the form of store.Rule.
func (c *cloud) policy(t testing.TB, rules ...store.Rule) string {
	t.Helper()
	if len(rules) == 0 {
		return ""
	}
	policies := Policies{c.Service}
	p, err := policies.CreatePolicy(t.Context(), store.Policy{Base: store.Base{Project: "demo"}})
	must(t, err)
	for _, r := range rules {
		_, err := policies.PutRule(t.Context(), p.ID, r)
		must(t, err)
	}
	return p.ID
}

// boundPort creates a port of the server with a policy, allocates what the policy requests on the providers by type of
// rule, and binds the port. Amounts of several ports add up.
func (c *cloud) boundPort(t testing.TB, vnic, policy string, on map[string]provider.ID,
	profile map[string]any) store.Port {
	t.Helper()
	return c.boundPortOf(t, vnic, policy, policy, on, profile)
}

// boundPortOf is boundPort for a port whose effective policy may be that of the network.
func (c *cloud) boundPortOf(t testing.TB, vnic, own, effective string, on map[string]provider.ID,
	profile map[string]any) store.Port {
	t.Helper()
	ctx := t.Context()
	p, err := c.CreatePort(ctx, store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID, Policy: own,
		Owner: "compute:nova", Device: string(server), Binding: store.Binding{VNIC: vnic}}, nil)
	must(t, err)
	held, err := c.placement.Allocation(ctx, server)
	must(t, err)
	if held.Allocation == nil {
		held.Allocation = resource.Allocation{}
	}
	held.Project, held.User, held.ConsumerType = "demo", "u", "INSTANCE"
	if held.Allocation[root] == nil {
		held.Allocation[root] = resource.Amounts{"VCPU": 1}
	}
	allocation := map[string]any{}
	if effective != "" {
		found, err := Get[store.Policy](ctx, c.Service, effective)
		must(t, err)
		for _, g := range Groups(p, c.network, found) {
			at := on[string(g.Type)]
			allocation[g.ID] = string(at)
			if held.Allocation[at] == nil {
				held.Allocation[at] = resource.Amounts{}
			}
			for class, n := range g.Resources {
				held.Allocation[at][class] += n
			}
		}
	}
	must(t, c.placement.PutAllocation(ctx, server, held))
	p, err = c.UpdatePort(ctx, p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Binding.Host, p.Binding.Profile = host, map[string]any{}
		for key, value := range profile {
			p.Binding.Profile[key] = value
		}
		if len(allocation) > 0 {
			p.Binding.Profile["allocation"] = allocation
		}
		return nil, false, nil
	})
	must(t, err)
	if p.Binding.VIF == "binding_failed" || p.Binding.VIF == "unbound" {
		t.Fatalf("port not bound: %+v", p.Binding)
	}
	p, err = Get[store.Port](ctx, c.Service, p.ID) // as it is stored
	must(t, err)
	return p
}

// setPolicy changes the policy of a port.
func (c *cloud) setPolicy(ctx context.Context, port, policy string) (store.Port, error) {
	return c.UpdatePort(ctx, port, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Policy = policy
		return nil, false, nil
	})
}

// shares returns the allocation of the server without that of its root provider.
func (c *cloud) shares() resource.Allocation {
	out := resource.Allocation{}
	for id, amounts := range c.placement.Held(server) {
		if id != root {
			out[id] = amounts
		}
	}
	return out
}

func bwRule(direction string, min int) store.Rule {
	return store.Rule{Type: "minimum_bandwidth", Direction: direction, Min: min}
}

func ppsRule(direction string, min int) store.Rule {
	return store.Rule{Type: "minimum_packet_rate", Direction: direction, Min: min}
}

var _ Placement = (*placementtest.Placement)(nil)

// clock is the time of a test.
func clock(s *Service, now time.Time) { s.Now = func() time.Time { return now } }
