package operations

import (
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
)

// changingPort is a bound port that gets another policy, another address and another group at once, while Placement
// answers.
type changingPort struct {
	*cloud
	t     *testing.T
	port  store.Port
	sub   store.Subnet
	to    string // the new policy
	group string // the new group
}

const newAddress = "10.0.0.77"

func newChangingPort(t *testing.T) changingPort {
	t.Helper()
	c := changingPort{cloud: newCloud(t), t: t}
	var err error
	c.sub, err = c.CreateSubnet(t.Context(), store.Subnet{Base: store.Base{Project: "demo"}, Network: c.network.ID,
		IPVersion: 4, CIDR: "10.0.0.0/24"}, false)
	must(t, err)
	from := c.policy(t, bwRule("egress", 1000))
	c.to = c.policy(t, bwRule("egress", 2000))
	must(t, c.Store.Write(t.Context(), func(tx *store.Tx) (err error) {
		c.group, err = SecurityGroups{c.Service}.ensureDefault(t.Context(), tx, "demo")
		return err
	}))
	c.port = c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	c.port, err = c.UpdatePort(t.Context(), c.port.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.PortSecurity = true
		return nil, false, nil
	})
	must(t, err)
	return c
}

// update changes the port. meanwhile is called before Placement writes, and returns the error that Placement answers
// instead.
func (c changingPort) update(meanwhile func() error) error {
	c.t.Helper()
	called := false
	c.fail = func(call placementtest.Call) (error, error) {
		if call.Op != "PutAllocations" || called {
			return nil, nil
		}
		called = true
		return meanwhile(), nil
	}
	defer func() { c.fail = nil }()
	_, err := c.UpdatePort(c.t.Context(), c.port.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Policy, p.Groups = c.to, []string{c.group}
		return []store.FixedIP{{Subnet: c.sub.ID, Address: newAddress}}, true, nil
	})
	return err
}

// refused checks the code of a refusal.
func (c changingPort) refused(what string, err error, code string) {
	c.t.Helper()
	if fault.CodeOf(err) != code {
		c.t.Errorf("%s while the port changes: %v, want %s", what, err, code)
	}
}

// inGroup reports whether the group has the port, so that it cannot be deleted.
func (c changingPort) inGroup() (has bool) {
	c.t.Helper()
	must(c.t, c.Store.Read(c.t.Context(), func(tx *store.Tx) error {
		ports, err := tx.PortsOfGroup(c.t.Context(), c.group)
		has = slices.Contains(ports, c.port.ID)
		return err
	}))
	return has
}

// take creates a port with the new address.
func (c changingPort) take() (store.Port, error) {
	return c.CreatePort(c.t.Context(), store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID},
		[]store.FixedIP{{Address: newAddress}})
}

// TestAddressOfChangingPortIsReserved has what a port gets with a new policy and Placement has not confirmed yet: no
// other port gets the address, and its group, subnet and policy stay.
func TestAddressOfChangingPortIsReserved(t *testing.T) {
	c := newChangingPort(t)
	ctx := t.Context()
	must(t, c.update(func() error {
		_, err := c.take()
		c.refused("another port with the address", err, "IpAddressAlreadyAllocated")
		if !c.inGroup() {
			t.Error("the new group of the port can be deleted")
		}
		c.refused("policy", Policies{c.Service}.DeletePolicy(ctx, c.to, NoRevision), pending)
		_, err = Policies{c.Service}.PutRule(ctx, c.to, bwRule("ingress", 5))
		c.refused("rule", err, pending)
		_, err = SetTags[store.Port](ctx, c.Service, c.port.ID, func([]string) ([]string, error) {
			return []string{"lost"}, nil
		})
		c.refused("tags", err, pending)
		return nil
	}))
	p, err := Get[store.Port](ctx, c.Service, c.port.ID)
	must(t, err)
	if p.Policy != c.to || p.FixedIPs[0].Address != newAddress || !slices.Equal(p.Groups, []string{c.group}) {
		t.Errorf("the port is %+v", p)
	}
	other, err := c.CreatePort(ctx, store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID},
		[]store.FixedIP{{Address: c.port.FixedIPs[0].Address}})
	must(t, err)
	must(t, c.DeletePort(ctx, other.ID, NoRevision))
	must(t, c.DeletePort(ctx, p.ID, NoRevision))
	must(t, Policies{c.Service}.DeletePolicy(ctx, c.to, NoRevision))
	must(t, c.DeleteSubnet(ctx, c.sub.ID, NoRevision))
}

// TestRefusedChangeReleasesItsAddress has a change that Placement refuses: the port keeps its address, and what it
// would have got is free.
func TestRefusedChangeReleasesItsAddress(t *testing.T) {
	c := newChangingPort(t)
	if err := c.update(func() error { return fault.New(fault.Conflict, "no room") }); !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	p, err := Get[store.Port](t.Context(), c.Service, c.port.ID)
	must(t, err)
	if p.FixedIPs[0] != c.port.FixedIPs[0] || p.Policy != c.port.Policy {
		t.Errorf("the port is %+v", p)
	}
	_, err = c.take()
	must(t, err)
	if c.inGroup() {
		t.Error("the port is in the group")
	}
	_, err = c.CreatePort(t.Context(), store.Port{Network: c.network.ID}, []store.FixedIP{c.port.FixedIPs[0]})
	if fault.CodeOf(err) != "IpAddressAlreadyAllocated" {
		t.Errorf("the address of the port: %v", err)
	}
}

// TestNetworkOfRefusedPolicyIsNotShared has a request that shares a network and changes its policy, which Placement
// refuses. Another one ends the sharing, and is refused too.
func TestNetworkOfRefusedPolicyIsNotShared(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 2000))
	set := func(policy string, shared bool) error {
		_, err := c.UpdateNetwork(ctx, c.network.ID, NoRevision, func(n *store.Network) error {
			n.Policy, n.Shared = policy, shared
			return nil
		})
		return err
	}
	must(t, set(from, false))
	c.boundPortOf(t, "normal", "", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	check := func(shared bool) {
		t.Helper()
		with, err := Sharing{c.Service}.With(ctx, "other")
		must(t, err)
		n, err := Get[store.Network](ctx, c.Service, c.network.ID)
		must(t, err)
		all, err := List[store.RBACPolicy](ctx, c.Service, store.Filter{})
		must(t, err)
		if with[n.ID] != shared || n.Shared != shared || shared && len(all) != 1 {
			t.Errorf("shared %v, attribute %v, %d RBAC policies; want %v", with[n.ID], n.Shared, len(all), shared)
		}
	}
	refuse := func(call placementtest.Call) (error, error) {
		if call.Op == "PutAllocations" {
			return fault.New(fault.Conflict, "no room"), nil
		}
		return nil, nil
	}
	for _, shared := range []bool{true, false} {
		c.fail = refuse
		if err := set(to, shared); !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
		check(!shared)
		c.fail = nil
		must(t, set(to, shared))
		check(shared)
		must(t, set(from, shared))
	}
}

// TestSegmentOfChangingNetworkStays has a segment that is added while the policy of its network changes: it is refused,
// because the network is written as it was when the change began.
func TestSegmentOfChangingNetworkStays(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 2000))
	set := func(policy string) {
		_, err := c.UpdateNetwork(ctx, c.network.ID, NoRevision, func(n *store.Network) error {
			n.Policy = policy
			return nil
		})
		must(t, err)
	}
	set(from)
	c.boundPortOf(t, "normal", "", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	var added error
	c.fail = func(call placementtest.Call) (error, error) {
		if call.Op == "PutAllocations" {
			_, added = c.AddSegment(ctx, c.network.ID, store.Segment{Type: "vlan", PhysicalNetwork: "physnet1", ID: 8})
		}
		return nil, nil
	}
	set(to)
	n, err := Get[store.Network](ctx, c.Service, c.network.ID)
	must(t, err)
	if fault.CodeOf(added) != pending && len(n.Segments) != 2 {
		t.Errorf("the segment was added (%v), and the network has %v", added, n.Segments)
	}
}
