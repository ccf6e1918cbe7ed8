package operations

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// many is more than the candidates that the service requests.
const many = 200

// set creates or replaces a provider with 10000 of each class.
func (c *cloud) set(id, parent, root provider.ID, traits []resource.Trait, classes ...resource.Class) {
	p := provider.Provider{ID: id, Name: string(id), Parent: parent, Root: root, Traits: traits,
		Inventories: map[resource.Class]resource.Inventory{}}
	for _, class := range classes {
		p.Inventories[class] = bandwidth.BuiltInDefaults().Inventory(10000)
	}
	c.placement.SetProvider(p)
}

// fill allocates bandwidth to another server, so that providers of 10000 have room for 1000.
func (c *cloud) fill(t *testing.T, providers ...provider.ID) {
	t.Helper()
	held := placement.ConsumerAllocation{Allocation: resource.Allocation{}, Project: "demo", User: "u",
		ConsumerType: "INSTANCE"}
	for _, id := range providers {
		held.Allocation[id] = resource.Amounts{egr: 9000}
	}
	must(t, c.placement.PutAllocation(t.Context(), "22222222-0000-0000-0000-000000000002", held))
}

func id(group, n int) provider.ID {
	return provider.ID(fmt.Sprintf("00000000-0000-0000-%04d-%012d", group, n))
}

var normalOnPhysnet = []resource.Trait{"CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"}

// TestNewRuleIsPlacedInTheTreeOfTheHost: in a large cloud, a new guarantee of a bound port is placed on its host (row
// C8). Placement returns a part of the candidates only, so the query names the tree.
func TestNewRuleIsPlacedInTheTreeOfTheHost(t *testing.T) {
	c := newCloud(t)
	for n := range many {
		c.set(id(1, n), "", "", nil, "VCPU")
		c.set(id(2, n), id(1, n), id(1, n), normalOnPhysnet, egr)
	}
	p := c.boundPort(t, "normal", "", nil, nil)
	p, err := c.setPolicy(t.Context(), p.ID, c.policy(t, bwRule("egress", 1000)))
	must(t, err)
	c.checkProfile(t, p)
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 1000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}

// TestNewRulesArePlacedInOneSubtree: bandwidth and packet rate of a port come from a bridge and its own agent. The
// other providers of packet rates in the tree do not hide these among the candidates.
func TestNewRulesArePlacedInOneSubtree(t *testing.T) {
	c := newCloud(t)
	for n := range many {
		c.set(id(1, n), root, root, []resource.Trait{"CUSTOM_VNIC_TYPE_NORMAL"}, ppsEgr)
	}
	p := c.boundPort(t, "normal", "", nil, nil)
	p, err := c.setPolicy(t.Context(), p.ID, c.policy(t, bwRule("egress", 1000), ppsRule("egress", 5)))
	must(t, err)
	c.checkProfile(t, p)
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 1000}, ovs: {ppsEgr: 5}}); !reflect.DeepEqual(got,
		want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}

// TestNewRuleNeedsAProviderOfTheBinding: candidates whose providers do not belong to the agent, the VF or the segment
// that the port is bound to are left out. Without another one the policy is refused, and nothing changes.
func TestNewRuleNeedsAProviderOfTheBinding(t *testing.T) {
	vf := map[string]any{"pci_slot": "0000:06:02.0"}
	both := append([]resource.Trait{"CUSTOM_VNIC_TYPE_DIRECT"}, normalOnPhysnet...)
	for _, row := range []struct {
		name    string
		vnic    string
		profile map[string]any
		fill    []provider.ID // these have too little room
		change  func(*cloud)
	}{
		{"the bridge has room, the PFs have not", "direct", vf, []provider.ID{pf0, pf1}, func(c *cloud) {
			c.set(bridge, ovs, root, both, egr)
		}},
		{"the PF of another VF has room", "direct", vf, []provider.ID{pf0}, func(*cloud) {}},
		{"a provider of no agent has room", "normal", nil, []provider.ID{bridge}, func(c *cloud) {
			c.set(id(1, 1), ovs, root, normalOnPhysnet, egr)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCloud(t)
			row.change(c)
			c.fill(t, row.fill...)
			before := c.boundPort(t, row.vnic, "", nil, row.profile)
			_, err := c.setPolicy(t.Context(), before.ID, c.policy(t, bwRule("egress", 2000)))
			c.checkRefused(t, before, err, placementConflict)
		})
	}
}

// checkRefused checks that a change of the port's policy has a code and has changed nothing.
func (c *cloud) checkRefused(t *testing.T, before store.Port, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("%v, want code %q", err, code)
	}
	after, readErr := Get[store.Port](t.Context(), c.Service, before.ID)
	must(t, readErr)
	if got := c.shares(); len(got) != len(before.Allocated) || !reflect.DeepEqual(after, before) {
		t.Errorf("allocation %v, port %+v, was %+v", got, after, before)
	}
	if left, err := List[store.Change](t.Context(), c.Service, store.Filter{}); err != nil || len(left) > 0 {
		t.Errorf("unfinished changes: %v %v", left, err)
	}
}

// TestNewRuleStaysOnTheSegmentOfTheBinding: a network has two segments with a bridge each, and the port is bound to the
// first one. The bridge of the second one is not used for its bandwidth.
func TestNewRuleStaysOnTheSegmentOfTheBinding(t *testing.T) {
	c := newCloud(t)
	second := id(1, 1)
	c.set(second, ovs, root, []resource.Trait{"CUSTOM_PHYSNET_PHYSNET1", "CUSTOM_VNIC_TYPE_NORMAL"}, egr)
	must(t, Agents{c.Service}.ReportAgent(t.Context(), host, string(bandwidth.OpenVSwitch), network.AgentReport{
		Provider: string(ovs), Root: string(root), Devices: []network.AgentDevice{
			{Name: "br-ex", Provider: string(bridge), PhysicalNetworks: []string{"physnet0"}},
			{Name: "br-2", Provider: string(second), PhysicalNetworks: []string{"physnet1"}}}}))
	var err error
	c.network, err = c.CreateNetwork(t.Context(), store.Network{Base: store.Base{Project: "demo"}, AdminUp: true,
		Segments: []store.Segment{{Type: "vlan", PhysicalNetwork: "physnet0", ID: 101},
			{Type: "vlan", PhysicalNetwork: "physnet1", ID: 101}}})
	must(t, err)
	c.fill(t, bridge)
	before := c.boundPort(t, "normal", "", nil, nil)
	_, err = c.setPolicy(t.Context(), before.ID, c.policy(t, bwRule("egress", 2000)))
	c.checkRefused(t, before, err, placementConflict)
	_, err = c.setPolicy(t.Context(), before.ID, c.policy(t, bwRule("egress", 1000)))
	must(t, err)
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 1000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}

// TestNewRuleNeedsTheAgentOfTheBinding: a port that an earlier version has bound by another agent gets no provider of
// the agent that would bind it now.
func TestNewRuleNeedsTheAgentOfTheBinding(t *testing.T) {
	c := newCloud(t)
	before := c.boundPort(t, "direct", "", nil, map[string]any{"pci_slot": "0000:06:02.0"})
	before.Binding.Agent, before.Binding.VIF = string(bandwidth.OpenVSwitch), "ovs"
	must(t, c.Store.Write(t.Context(), func(tx *store.Tx) error { return tx.PutPort(t.Context(), &before) }))
	before, err := Get[store.Port](t.Context(), c.Service, before.ID)
	must(t, err)
	_, err = c.setPolicy(t.Context(), before.ID, c.policy(t, bwRule("egress", 1000)))
	c.checkRefused(t, before, err, placementConflict)
}

// TestNewRuleIsPlacedInTheTreeOfTheAgent: the agents of a host may report below different hypervisors. The tree is that
// of the agent which has bound the port.
func TestNewRuleIsPlacedInTheTreeOfTheAgent(t *testing.T) {
	c := newCloud(t)
	other := id(1, 1)
	c.set(other, "", "", nil, "VCPU")
	c.set(nic, other, other, []resource.Trait{"CUSTOM_VNIC_TYPE_DIRECT"})
	p := c.boundPort(t, "normal", "", nil, nil)
	_, err := c.setPolicy(t.Context(), p.ID, c.policy(t, bwRule("egress", 1000)))
	must(t, err)
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 1000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}

// TestConflictsOfAllocationWrites: Placement refuses writes because the server's allocation changes. The write is tried
// ten times; then the request fails with a clear error, and port and allocation are as before. The next request
// succeeds.
func TestConflictsOfAllocationWrites(t *testing.T) {
	for _, conflicts := range []int{1, attempts - 1, attempts} {
		t.Run(fmt.Sprint(conflicts), func(t *testing.T) {
			c := newCloud(t)
			from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000))
			before := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
			writes := 0
			c.fail = func(call placementtest.Call) (error, error) {
				if call.Op == "PutAllocations" {
					if writes++; writes <= conflicts {
						return fault.New(fault.Conflict, "generation").WithCode(placement.CodeConcurrentUpdate), nil
					}
				}
				return nil, nil
			}
			_, err := c.setPolicy(t.Context(), before.ID, to)
			if conflicts == attempts {
				if c.checkRefused(t, before, err, "PlacementAllocationGenerationConflict"); !fault.Is(err, fault.Conflict) {
					t.Errorf("kind of %v", err)
				}
				if got, want := c.shares(), (resource.Allocation{bridge: {egr: 1000}}); !reflect.DeepEqual(got, want) {
					t.Errorf("allocation %v, want %v", got, want)
				}
				_, err = c.setPolicy(t.Context(), before.ID, to)
			}
			must(t, err)
			if got, want := c.shares(), (resource.Allocation{bridge: {egr: 3000}}); !reflect.DeepEqual(got, want) ||
				writes != conflicts+1 {
				t.Errorf("allocation %v, want %v; %d writes", got, want, writes)
			}
		})
	}
}

// TestPolicyOfABoundPortWithoutAllocation has row C11: a port that was bound without an allocation, although its policy
// has a guarantee, gets a new policy. What it requests then is placed on its host, if the server has allocations;
// otherwise nothing is allocated, and the policy is set.
func TestPolicyOfABoundPortWithoutAllocation(t *testing.T) {
	for _, hasAllocation := range []bool{true, false} {
		c := newCloud(t)
		from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000))
		p := c.boundPortOf(t, "normal", from, "", nil, nil)
		want := resource.Allocation{bridge: {egr: 3000}}
		if !hasAllocation {
			must(t, c.placement.DeleteAllocation(t.Context(), server))
			want = resource.Allocation{}
		}
		p, err := c.setPolicy(t.Context(), p.ID, to)
		must(t, err)
		if got := c.shares(); p.Policy != to || !reflect.DeepEqual(got, want) || len(p.Allocated) != len(want) {
			t.Errorf("allocation %v, want %v; port %+v", got, want, p)
		}
	}
}

// TestRefusedAllocationWriteIsNotRepeated has row A9.
func TestRefusedAllocationWriteIsNotRepeated(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Conflict, fault.Invalid, fault.NotFound} {
		c := newCloud(t)
		p := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 1000)), map[string]provider.ID{
			"minimum_bandwidth": bridge}, nil)
		writes := 0
		c.fail = func(call placementtest.Call) (error, error) {
			if call.Op == "PutAllocations" {
				writes++
				return fault.New(kind, "refused by the test"), nil
			}
			return nil, nil
		}
		_, err := c.setPolicy(t.Context(), p.ID, c.policy(t, bwRule("egress", 2000)))
		c.checkRefused(t, p, err, placementConflict)
		if writes != 1 || !strings.Contains(err.Error(), "refused by the test") {
			t.Errorf("%v, %d writes", err, writes)
		}
	}
}
