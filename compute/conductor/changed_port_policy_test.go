package conductor

import (
	"context"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// changedCloud is an attachCloud whose server is back on its host after a move, with the amounts that its port p had
// before: 1 Mbit/s. The policy of the port has changed meanwhile: it requests kbps now.
func changedCloud(t *testing.T, kbps int, fail failFunc) attachCloud {
	t.Helper()
	c := newAttachCloud(t, fail)
	egress := func(n int) resource.Amounts { return resource.Amounts{bandwidth.EgressBandwidth: n} }
	c.server.PortChange, c.server.State = nil, lifecycle.Active
	c.server.Ports = []lifecycle.Port{{ID: "p", VNIC: "normal", Groups: []resource.Group{{Suffix: "old",
		Resources: egress(1000)}}, Allocation: map[string]provider.ID{"old": "nic-1"}}}
	c.network.ports = []network.Port{{ID: "p", Network: "n", Device: "web", ActiveBinding: network.ActiveBinding{
		Host: "b", VNIC: "normal", Profile: map[string]any{"allocation": map[string]any{"new": "nic-b"}}},
		Request: &network.ResourceRequest{Groups: []network.RequestGroup{{ID: "new", Resources: egress(kbps)}}}}}
	if kbps == 1000 {
		c.network.ports[0].Request.Groups[0].ID = "old"
	}
	c.holds("web", c.base.Add(resource.Allocation{"nic-1": egress(1000)}))
	return c
}

// bind binds the ports of the server until it succeeds.
func (c attachCloud) bind() lifecycle.PortsBound {
	c.t.Helper()
	event, err := c.binder.Bind(c.t.Context(), c.server)
	bound, is := event.(lifecycle.PortsBound)
	if err != nil || !is || len(bound.Ports) != 1 {
		c.t.Fatalf("%+v %v", event, err)
	}
	return bound
}

// A move restores the amounts that a port had when it began. When the port is bound again, the server gets what the
// policy of the port requests now, on the provider of the port; also if the step is repeated.
func TestAmountsFollowAPolicyThatChangedDuringAMove(t *testing.T) {
	for _, kbps := range []int{400, 2000} {
		c := changedCloud(t, kbps, nil)
		want := c.base.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: kbps}})
		for range 2 {
			bound := c.bind()
			if held := c.placement.Held("web"); !held.Equal(want) {
				t.Errorf("Placement has %v, want %v", held, want)
			}
			if p := c.network.ports[0]; bound.Ports[0].Allocation["new"] != "nic-1" || p.Allocation()["new"] != "nic-1" {
				t.Errorf("port %+v, in the network service %+v", bound.Ports[0], p)
			}
		}
	}
}

// If the host has no room for the changed policy, the former amounts stay, and the ports are bound: the guest exists.
func TestFormerAmountsStayWithoutRoomForAChangedPolicy(t *testing.T) {
	c := changedCloud(t, 2000, nil)
	c.holds("other", resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 8500}})
	want := c.placement.Held("web")
	if c.bind(); !c.placement.Held("web").Equal(want) {
		t.Errorf("Placement has %v, want %v", c.placement.Held("web"), want)
	}
}

// Ports with the policy of the record are bound with one read of Placement.
func TestUnchangedPolicyReadsTheAllocationOnly(t *testing.T) {
	var calls []string
	c := changedCloud(t, 1000, func(call placementtest.Call) (before, after error) {
		calls = append(calls, call.Op)
		return nil, nil
	})
	if c.bind(); len(calls) != 1 || calls[0] != "Allocation" {
		t.Errorf("calls %v", calls)
	}
}

// An attempt to bind a port has set the amounts of a changed policy, and was interrupted before the port was written.
// Then the policy is as before: the amounts follow.
func TestPolicyThatIsAsBeforeAfterAnInterruptedBinding(t *testing.T) {
	for _, kbps := range []int{400, 2000, 0} {
		c := changedCloud(t, 1000, nil)
		want := c.placement.Held("web")
		c.binder = c.conductor.Ports
		c.holds("web", c.base.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: kbps}}))
		if c.bind(); !c.placement.Held("web").Equal(want) {
			t.Errorf("Placement has %v, want %v", c.placement.Held("web"), want)
		}
	}
}

// The policy of a port that is bound already changes between the reading of the port and the writing of its amounts.
// The amounts follow, although the port itself needs no update, which would show the change.
func TestPolicyOfABoundPortThatChangesBeforeItsAmounts(t *testing.T) {
	var change func()
	c := changedCloud(t, 400, func(call placementtest.Call) (before, after error) {
		if change != nil && call.Op == "Allocation" {
			change()
		}
		return nil, nil
	})
	c.binder = c.conductor.Ports
	c.bind()
	reads := 0
	change = func() {
		if reads++; reads == 2 { // the first is before the port is read
			c.network.ports[0].Request = &network.ResourceRequest{Groups: []network.RequestGroup{{ID: "new",
				Resources: resource.Amounts{bandwidth.EgressBandwidth: 900}}}}
			c.network.ports[0].Revision++
		}
	}
	want := c.base.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 900}})
	if c.bind(); reads < 2 || !c.placement.Held("web").Equal(want) {
		t.Errorf("after %d reads Placement has %v, want %v", reads, c.placement.Held("web"), want)
	}
}

// flippingNetwork changes the policy of its port back before compute writes the port for the first time.
type flippingNetwork struct {
	attachNetwork
	back *network.ResourceRequest
}

func (n *flippingNetwork) UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (
	network.Port, error) {
	if n.back != nil {
		n.ports[0].Request, n.back = n.back, nil
		n.ports[0].Revision++
	}
	return updateAt(ctx, n, id, revision, attributes)
}

// The policy of a port changes back between the amounts and the port. Compute binds the port as it is then, and the
// amounts follow.
func TestPolicyChangesBackWhileThePortIsBound(t *testing.T) {
	c := changedCloud(t, 2000, nil)
	want := c.placement.Held("web")
	c.uses(&flippingNetwork{attachNetwork{c.network}, &network.ResourceRequest{
		Groups: []network.RequestGroup{{ID: "old", Resources: resource.Amounts{bandwidth.EgressBandwidth: 1000}}}}})
	c.binder = c.conductor.Ports
	if c.bind(); !c.placement.Held("web").Equal(want) || c.network.ports[0].Allocation()["old"] != "nic-1" {
		t.Errorf("Placement has %v, want %v; port %+v", c.placement.Held("web"), want, c.network.ports[0])
	}
}

// The policy of a port has changed, and Placement does not have the providers of the host: that is not taken for the
// end of the port, which the guest uses.
func TestPortIsNotLostWithoutProvidersOfItsHost(t *testing.T) {
	c := changedCloud(t, 2000, func(call placementtest.Call) (before, after error) {
		if call.Op == "Tree" {
			before = fault.New(fault.NotFound, "no such provider")
		}
		return before, nil
	})
	c.server.Ports[0].Groups, c.server.Ports[0].Allocation = nil, nil
	if event, err := c.binder.Bind(c.t.Context(), c.server); err == nil {
		t.Errorf("%+v", event)
	}
}
