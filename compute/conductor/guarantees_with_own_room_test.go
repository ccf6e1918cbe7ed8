package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// rates are amounts of egress and ingress; 0: the class is not requested.
func rates(egress, ingress int) resource.Amounts {
	return resource.Amounts{bandwidth.EgressBandwidth: egress, bandwidth.IngressBandwidth: ingress}.Positive()
}

// withRates makes the port p of a changedCloud one that had some amounts of nic-1 and requests others now. Each NIC has
// 10 Mbit/s of each direction; both are on the physical network.
func (c *attachCloud) withRates(had, now resource.Amounts) {
	for _, n := range []string{"1", "2"} {
		c.placement.SetProvider(provider.Provider{ID: provider.ID("nic-" + n), Name: "nic-" + n, Parent: "agent-a",
			Root: "root-a", Inventories: map[resource.Class]resource.Inventory{
				bandwidth.EgressBandwidth: resource.Whole(10000), bandwidth.IngressBandwidth: resource.Whole(10000)}})
	}
	c.server.Ports[0].Groups[0].Resources = had
	c.network.ports[0].Request = &network.ResourceRequest{Groups: []network.RequestGroup{{ID: "new", Resources: now}}}
	c.holds("web", c.base.Add(resource.Allocation{"nic-1": had}))
}

// What the server holds counts as free for its own new amounts: each request fits on the NIC that serves the port,
// although more than half of it is in use by this port.
func TestOwnAmountsCountAsFree(t *testing.T) {
	for name, test := range map[string]struct{ had, now resource.Amounts }{
		"another direction is added":   {rates(6000, 0), rates(6000, 1)},
		"a direction is removed":       {rates(6000, 6000), rates(6000, 0)},
		"both directions grow":         {rates(6000, 6000), rates(9000, 10000)},
		"the direction changes":        {rates(6000, 0), rates(0, 6000)},
		"the same amounts, other rule": {rates(6000, 0), rates(6000, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			c := changedCloud(t, 1, nil)
			c.withRates(test.had, test.now)
			bound := c.bind()
			want := c.base.Add(resource.Allocation{"nic-1": test.now})
			if held := c.placement.Held("web"); !held.Equal(want) || len(bound.Short) > 0 {
				t.Errorf("Placement has %v, want %v; %v", held, want, bound.Short)
			}
			if at := c.network.ports[0].Allocation()["new"]; at != "nic-1" {
				t.Errorf("the port is on %q", at)
			}
		})
	}
}

// Without room the port keeps what it had, and the server has a fault that names the port and the remedy; also if the
// step is repeated. A port that is released afterwards does not fail because of it.
func TestPortKeepsWhatItHadWithoutRoom(t *testing.T) {
	c := changedCloud(t, 1, nil)
	c.withRates(rates(6000, 0), rates(8000, 1))
	c.holds("other", resource.Allocation{"nic-1": rates(4000, 0)})
	want := c.base.Add(resource.Allocation{"nic-1": rates(6000, 0)})
	for range 2 {
		bound := c.bind()
		if held := c.placement.Held("web"); !held.Equal(want) || !strings.Contains(bound.Short["p"], "nic-1") {
			t.Fatalf("Placement has %v, want %v; %v", held, want, bound.Short)
		}
		next, _ := lifecycle.Next(c.server, bound, c.conductor.Now())
		if next.Refusal == nil || !strings.Contains(next.Refusal.Message, "Port p keeps the guarantee") ||
			!strings.Contains(next.Refusal.Message, "berth heal ports") {
			t.Errorf("fault %+v", next.Refusal)
		}
	}
	c.holds("web", want.Add(resource.Allocation{"nic-1": rates(0, 50)})) // of a port that is released
	if err := c.binder.SetAmounts(t.Context(), c.server, ports.Amounts{Port: "q", Devices: true}); err != nil {
		t.Error(err)
	}
	if held := c.placement.Held("web"); held["nic-1"][bandwidth.EgressBandwidth] != 6000 {
		t.Errorf("Placement has %v", held)
	}
}

// A port whose policy changes while a guest is moved is not bound without its guarantee: the host is refused, and the
// next one is tried.
func TestChangedPolicyWithoutRoomRefusesTheHost(t *testing.T) {
	c := changedCloud(t, 1, nil)
	c.withRates(rates(6000, 0), rates(8000, 0))
	c.holds("other", resource.Allocation{"nic-1": rates(4000, 0)})
	c.server.State = lifecycle.BindingPorts
	event, err := c.binder.Bind(t.Context(), c.server)
	refused, is := event.(lifecycle.PortsNotBound)
	if err != nil || !is || !strings.Contains(refused.Reason, "port p what its policy, which has changed") {
		t.Errorf("%+v %v", event, err)
	}
	if p := c.network.ports[0]; p.Host == "a" {
		t.Errorf("the port is bound: %+v", p)
	}
}

// A server holds less than a port requests on the NIC, because a policy was raised while nothing could be written.
// Healing needs room for the difference only, and stays on the NIC that serves the port although another one is free.
func TestHealingRaisesAnAllocation(t *testing.T) {
	for name, profile := range map[string]map[string]any{
		"its provider is known":      {"allocation": map[string]any{"new": "nic-1"}},
		"its group has another id":   {"allocation": map[string]any{"old": "nic-1"}},
		"the port has no allocation": {},
	} {
		t.Run(name, func(t *testing.T) {
			c := changedCloud(t, 1, nil)
			c.withRates(rates(5500, 0), rates(6000, 0))
			c.network.ports[0].Host, c.network.ports[0].Profile = "a", profile
			got := c.heal()
			want := c.base.Add(resource.Allocation{"nic-1": rates(6000, 0)})
			if held := c.placement.Held("web"); got.State != ports.Healed || !held.Equal(want) {
				t.Errorf("%+v, Placement has %v, want %v", got, held, want)
			}
			if at := c.network.ports[0].Allocation()["new"]; at != "nic-1" {
				t.Errorf("the port is on %q", at)
			}
		})
	}
}
