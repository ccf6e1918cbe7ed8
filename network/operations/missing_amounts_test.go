package operations

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// has replaces the allocation of a consumer.
func (c *cloud) has(t *testing.T, consumer resource.ConsumerID, kind string, a resource.Allocation) {
	t.Helper()
	held, err := c.placement.Allocation(t.Context(), consumer)
	must(t, err)
	held.Allocation, held.Project, held.User, held.ConsumerType = a, "demo", "u", kind
	must(t, c.placement.PutAllocations(t.Context(), map[resource.ConsumerID]placement.ConsumerAllocation{consumer: held}))
}

// unchanged checks that a port has not changed, and the code of the fault.
func (c *cloud) unchanged(t *testing.T, before store.Port, err error, code string) {
	t.Helper()
	after, readErr := Get[store.Port](t.Context(), c.Service, before.ID)
	must(t, readErr)
	if fault.CodeOf(err) != code || !reflect.DeepEqual(after, before) {
		t.Errorf("%v, want code %q; policy %q, was %q", err, code, after.Policy, before.Policy)
	}
}

// otherHost adds a host with a provider of bandwidth.
func (c *cloud) otherHost() (vcpus, bandwidths provider.ID) {
	c.placement.SetProvider(provider.Provider{ID: "root-2", Name: "cmp2",
		Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)}})
	c.placement.SetProvider(provider.Provider{ID: "bridge-2", Name: "cmp2:br", Parent: "root-2", Root: "root-2",
		Inventories: map[resource.Class]resource.Inventory{egr: resource.Whole(10000)}})
	return "root-2", "bridge-2"
}

// TestAllocationOfAnotherProvider has row A6: a server has nothing, or less than its port, where the port has its
// guarantee. Only the difference of a policy would be allocated, also on a host that the server is not on. It is
// refused, with the provider and what to do, and nothing changes. A policy of at most what is there is accepted.
func TestAllocationOfAnotherProvider(t *testing.T) {
	vcpu, more := resource.Amounts{"VCPU": 1}, []store.Rule{bwRule("egress", 3000)}
	elsewhere := resource.Allocation{root: vcpu, pf0: {egr: 1000}}
	less := resource.Allocation{root: vcpu, bridge: {egr: 999}}
	for name, test := range map[string]struct {
		now  resource.Allocation // of the server
		to   []store.Rule        // policies after that of 1000
		made int                 // what is allocated then; 0: the policy is refused
	}{
		"raised, nothing there":        {resource.Allocation{root: vcpu}, more, 0},
		"raised, on another provider":  {elsewhere, more, 0},
		"removed, on another provider": {elsewhere, nil, 0},
		"a direction is added": {resource.Allocation{root: vcpu}, []store.Rule{bwRule("egress", 1000),
			bwRule("ingress", 5)}, 0},
		"raised, less there":            {less, more, 0},
		"lowered to less than is there": {less, []store.Rule{bwRule("egress", 900)}, 900},
		"raised, on another host":       {resource.Allocation{"root-2": vcpu, "bridge-2": {egr: 1000}}, more, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.otherHost()
			p := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 1000)), map[string]provider.ID{
				"minimum_bandwidth": bridge}, nil)
			c.has(t, server, "INSTANCE", test.now)
			_, err := c.setPolicy(t.Context(), p.ID, c.policy(t, test.to...))
			if test.made > 0 {
				if got := c.shares(); err != nil || got[bridge][egr] != test.made {
					t.Errorf("%v; allocation %v", err, got)
				}
				return
			}
			c.unchanged(t, p, err, "PlacementAllocationRpNotExists")
			if got := c.placement.Held(server); !fault.Is(err, fault.Invalid) || !got.Equal(test.now) ||
				!strings.Contains(err.Error(), "berth heal ports") || !strings.Contains(err.Error(), string(bridge)) {
				t.Errorf("%v; allocation %v", err, got)
			}
		})
	}
}

// TestPolicyWhileTheServerMoves changes a policy while compute moves the server: a migration has the allocation of the
// host that the port is still bound to, and the server has nothing, or that of the destination. The change is refused
// with 409 to try again, in whatever way, and nothing changes.
func TestPolicyWhileTheServerMoves(t *testing.T) {
	for name, own := range map[string]resource.Allocation{
		"the allocation is moved":    {},
		"the destination is claimed": {"root-2": {"VCPU": 1}, "bridge-2": {egr: 1000}},
	} {
		for change, rules := range map[string][2][]store.Rule{
			"raised":  {{bwRule("egress", 1000)}, {bwRule("egress", 3000)}},
			"lowered": {{bwRule("egress", 1000)}, {bwRule("egress", 500)}},
			"removed": {{bwRule("egress", 1000)}, nil},
			"first":   {nil, {bwRule("egress", 500)}},
		} {
			if len(own) == 0 && change == "first" {
				continue // nothing is allocated; the destination is chosen with the new policy
			}
			t.Run(name+", "+change, func(t *testing.T) {
				c := newCloud(t)
				c.otherHost()
				from, to := c.policy(t, rules[0]...), c.policy(t, rules[1]...)
				p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
				c.has(t, "migration", "MIGRATION", c.placement.Held(server))
				c.has(t, server, "INSTANCE", own)
				_, err := c.setPolicy(t.Context(), p.ID, to)
				c.unchanged(t, p, err, serverMoves)
				if got := c.placement.Held(server); !fault.Is(err, fault.Conflict) || !got.Equal(own) ||
					!strings.Contains(err.Error(), "try again") {
					t.Errorf("%v; allocation %v", err, got)
				}
			})
		}
	}
}

// bindLater binds a port that a client has prepared: the server has what the policies request, on the bridge.
func (c *cloud) bindLater(t *testing.T, p store.Port, policy string) {
	t.Helper()
	found, err := Get[store.Policy](context.Background(), c.Service, policy)
	must(t, err)
	allocation := map[string]any{}
	for _, g := range Groups(p, c.network, found) {
		allocation[g.ID] = string(bridge)
	}
	_, err = c.UpdatePort(context.Background(), p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Owner, p.Binding.Host = "compute:nova", host
		p.Binding.Profile = map[string]any{"allocation": allocation}
		return nil, false, nil
	})
	must(t, err)
}

// TestPolicyOfAPortThatIsBoundMeanwhile: a port is bound after the change of its policy was planned, when it had
// nothing in Placement. The change is planned again: the port and Placement have the new policy.
func TestPolicyOfAPortThatIsBoundMeanwhile(t *testing.T) {
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000))
	p, err := c.CreatePort(t.Context(), store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID, Policy: from,
		Device: string(server), Binding: store.Binding{VNIC: "normal"}}, nil)
	must(t, err)
	c.has(t, server, "INSTANCE", resource.Allocation{root: {"VCPU": 1}, bridge: {egr: 1000}})
	calls := 0
	p, err = c.UpdatePort(t.Context(), p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		if calls++; calls == 2 { // the first is in a transaction, which finds that the change must be planned
			c.bindLater(t, *p, from)
		}
		p.Policy = to
		return nil, false, nil
	})
	must(t, err)
	if got := c.shares(); p.Policy != to || !reflect.DeepEqual(got, resource.Allocation{bridge: {egr: 3000}}) {
		t.Errorf("allocation %v, port %+v", got, p)
	}
	c.checkProfile(t, p)
}

// TestNetworkPolicyOfAPortThatIsBoundMeanwhile is the same for the policy of a network, which is planned for a port
// that is bound already. The revisions of both ports change, so a client that binds one of them reads it again.
func TestNetworkPolicyOfAPortThatIsBoundMeanwhile(t *testing.T) {
	for _, bind := range []bool{true, false} {
		c := newCloud(t)
		from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000))
		set := func(policy string) error {
			_, err := c.UpdateNetwork(t.Context(), c.network.ID, NoRevision, func(n *store.Network) error {
				n.Policy = policy
				return nil
			})
			return err
		}
		must(t, set(from))
		c.boundPortOf(t, "normal", "", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
		p, err := c.CreatePort(t.Context(), store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID,
			Device: string(server), Binding: store.Binding{VNIC: "normal"}}, nil)
		must(t, err)
		c.has(t, server, "INSTANCE", resource.Allocation{root: {"VCPU": 1}, bridge: {egr: 2000}})
		want, done := 6000, !bind
		if !bind {
			want = 4000
		}
		c.fail = func(call placementtest.Call) (error, error) {
			if !done && call.Op == "Allocation" {
				done = true
				c.bindLater(t, p, from)
			}
			return nil, nil
		}
		must(t, set(to))
		c.fail = nil
		now, err := Get[store.Port](t.Context(), c.Service, p.ID)
		must(t, err)
		if got := c.shares(); !reflect.DeepEqual(got, resource.Allocation{bridge: {egr: want}}) || now.Number <= p.Number {
			t.Errorf("bound %t: allocation %v, want %d; port %+v", bind, got, want, now)
		}
		if bind {
			c.checkProfile(t, now)
		}
	}
}

// TestRulesOfAReservedPort: compute reserves a port before it is bound. Its rules do not change from then on.
func TestRulesOfAReservedPort(t *testing.T) {
	c := newCloud(t)
	policy := c.policy(t, bwRule("egress", 1000))
	_, err := c.CreatePort(t.Context(), store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID,
		Policy: policy, Device: string(server), Binding: store.Binding{VNIC: "normal"}}, nil)
	must(t, err)
	if _, err := (Policies{c.Service}).PutRule(t.Context(), policy, bwRule("ingress", 5)); fault.CodeOf(err) != RuleInUse {
		t.Errorf("%v, want code %s", err, RuleInUse)
	}
}
