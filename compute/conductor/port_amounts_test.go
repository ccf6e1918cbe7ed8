package conductor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// policyChange is a change of the policy of a server's port from 1 to 2 Mbit/s by the network service, between two
// calls of compute: the allocation at one call, and the port at the same or a later one.
type policyChange struct {
	cloud               *attachCloud
	allocates, finishes int // calls
	calls               int
}

// call counts a call of compute to Placement or to the network service.
func (c *policyChange) call() {
	c.calls++
	if c.calls == c.allocates {
		held := c.cloud.placement.Held("web")
		c.cloud.placement.SetAllocation("web", held.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 1000}}))
	}
	if c.calls == c.finishes {
		group := c.cloud.network.ports[1].Request.Groups[0]
		group.Resources = resource.Amounts{bandwidth.EgressBandwidth: 2000}
		c.cloud.network.ports[1].Request = &network.ResourceRequest{Groups: []network.RequestGroup{group}}
	}
}

// changingNetwork is a network service that changes a policy.
type changingNetwork struct {
	attachNetwork
	change *policyChange
}

func (n changingNetwork) Ports(ctx context.Context, query url.Values) ([]network.Port, error) {
	n.change.call()
	return n.attachNetwork.Ports(ctx, query)
}

// leavingNetwork lists the ports of the server web, without those that were returned.
type leavingNetwork struct{ changingNetwork }

func (n leavingNetwork) Ports(ctx context.Context, query url.Values) ([]network.Port, error) {
	all, err := n.changingNetwork.Ports(ctx, query)
	return slices.DeleteFunc(slices.Clone(all), func(p network.Port) bool { return p.Device != "web" }), err
}

// newChangingCloud returns a cloud whose server has a bound port with a guarantee beside the port q, whose policy
// changes.
func newChangingCloud(t *testing.T, change *policyChange) *attachCloud {
	t.Helper()
	c := newAttachCloud(t, func(placementtest.Call) (before, after error) {
		change.call()
		return nil, nil
	})
	change.cloud = &c
	c.network.ports = append(c.network.ports, sibling())
	c.uses(changingNetwork{attachNetwork{c.network}, change})
	c.binder = c.conductor.Ports
	c.base = c.base.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 1000}})
	c.holds("web", c.base)
	return &c
}

// The network service changes the policy of one port of a server while compute attaches another one to it, or detaches
// it. Whatever the order of their calls is, Placement has the amounts of both ports afterwards.
func TestPolicyChangesWhileAnotherPortIsAttachedOrDetached(t *testing.T) {
	q := resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 6000}, "vf-1": {pci.PortVF: 1}}
	for name, detached := range map[string]bool{"attached": false, "detached": true} {
		for from := 1; ; from++ {
			more := false
			for until := from; until < from+8; until++ {
				t.Run(fmt.Sprintf("%s, calls %d to %d", name, from, until), func(t *testing.T) {
					change := &policyChange{allocates: from, finishes: until}
					c := newChangingCloud(t, change)
					want := c.base.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 1000}})
					if detached {
						c.detachesQ(c.base.Add(q))
						c.perform()
					} else {
						nic := c.performClaim()
						want = want.Add(resource.Allocation{provider.ID("nic-" + nic): {bandwidth.EgressBandwidth: 6000},
							provider.ID("vf-" + nic): {pci.PortVF: 1}})

					}
					more = more || change.calls >= from
					for change.calls < until {
						change.call()
					}
					if held := c.placement.Held("web"); !held.Equal(want) {
						t.Errorf("Placement has %v, want %v", held, want)
					}
				})
			}
			if t.Failed() || !more {
				break
			}
		}
	}
}

// performClaim performs the first part of the step, and returns the NIC that has been claimed.
func (c *attachCloud) performClaim() string {
	c.t.Helper()
	event := c.perform()
	claimed, is := event.(lifecycle.PortClaimed)
	if !is {
		c.t.Fatalf("%+v", event)
	}
	return string(claimed.Device.Providers[0][len("vf-"):])
}

// detachesQ makes the server one that has the port q with this allocation, and detaches it.
func (c *attachCloud) detachesQ(held resource.Allocation) {
	q := &c.network.ports[0]
	q.Device, q.Host = "web", "a"
	q.Profile = map[string]any{"allocation": map[string]any{"bw": "nic-1"}, "pci_slot": slot1}
	c.holds("web", held)
	c.uses(leavingNetwork{c.at.networkService.(changingNetwork)})
	c.binder = c.conductor.Ports
	c.server.PortChange = &lifecycle.PortChange{ID: "d", Detach: "q", Request: c.server.Networks[0]}
}

// The network service has ended between the allocation and the port. Compute waits for the port, and then sets the
// amounts of the ports as they are.
func TestUnexplainedAmountsAreRemoved(t *testing.T) {
	change := &policyChange{allocates: 1} // the port is never written
	c := newChangingCloud(t, change)
	c.detachesQ(c.base.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 6000}, "vf-1": {pci.PortVF: 1}}))
	c.perform()
	if held := c.placement.Held("web"); !held.Equal(c.base) {
		t.Errorf("Placement has %v, want %v", held, c.base)
	}
	if change.calls < 2*ports.SettleTries {
		t.Errorf("%d calls: compute did not wait for the port", change.calls)
	}
}
