package conductor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// addHostB adds a host b with a free VF and 10 Mbit/s on a NIC, as those of host a.
func (c *attachCloud) addHostB() {
	c.t.Helper()
	traits := []resource.Trait{"CUSTOM_PHYSNET_PHYSNET1", "CUSTOM_VNIC_TYPE_DIRECT"}
	for _, p := range []provider.Provider{
		{ID: "root-b", Name: "b", Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)}},
		{ID: "nic-b", Name: "nic-b", Parent: "root-b", Root: "root-b",
			Inventories: map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(10000)}},
		{ID: "vf-b", Name: "vf-b", Parent: "nic-b", Root: "root-b", Traits: traits,
			Inventories: map[resource.Class]resource.Inventory{pci.PortVF: resource.Whole(1)}},
	} {
		c.placement.SetProvider(p)
	}
	address, err := pci.ParseAddress(slot1)
	if err != nil {
		c.t.Fatal(err)
	}
	physnet := "physnet1"
	report := schedule.Host{Name: "b", Instance: "agent-b", Start: "start", Provider: "root-b", InPlacement: true,
		Seen: time.Now(), Devices: []pci.Offered{{Device: pci.Device{Address: address, Type: pci.Virtual},
			ResourceClass: pci.PortVF, Provider: "vf-b", State: pci.Available, ForPorts: true,
			PortTags: pci.PortTags{PhysicalNetwork: &physnet}}}}
	c.put(report)
	c.conductor.Agents.Reported(report)
}

// A port is attached on the host of its server only: if that has no room, the free bandwidth and the free VF of another
// host are not claimed (row N7).
func TestPortIsNotAttachedFromAnotherHost(t *testing.T) {
	for _, vnic := range []string{"normal", "direct"} {
		t.Run(vnic, func(t *testing.T) {
			c := newAttachCloud(t, nil)
			c.network.ports[0].VNIC = vnic
			c.addHostB()
			c.holds("other", resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 5000},
				"nic-2": {bandwidth.EgressBandwidth: 5000}})
			refused, is := c.perform().(lifecycle.PortNotAttached)
			if held := c.placement.Held("web"); !is || !held.Equal(c.base) || c.network.ports[0].Device != "" {
				t.Errorf("%+v, Placement has %v, port %+v", refused, held, c.network.ports[0])
			}
		})
	}
}

// If Placement refuses the first candidate, because another server has taken its room, the next one is claimed. If it
// refuses all, the port is not attached.
func TestEachCandidateOfAPortIsTried(t *testing.T) {
	for _, vnic := range []string{"normal", "direct"} {
		for refusals := range 3 {
			t.Run(vnic, func(t *testing.T) {
				writes := 0
				c := newAttachCloud(t, func(call placementtest.Call) (before, after error) {
					if call.Op == "PutAllocations" {
						if writes++; writes <= refusals {
							before = fault.New(fault.Conflict, "no room")
						}
					}
					return before, nil
				})
				c.network.ports[0].VNIC = vnic
				event := c.perform()
				held := c.placement.Held("web")
				_, isRefused := event.(lifecycle.PortNotAttached)
				if on := len(held.Excess(c.base)); isRefused != (refusals == 2) || isRefused != (on == 0) {
					t.Errorf("%d candidates refused: %+v, Placement has %v", refusals, event, held)
				}
			})
		}
	}
}

// Placement refuses ten writes in a row because the allocation of the server changes, at each point of an attachment.
// The step is repeated: it ends, and Placement has the port once.
func TestConflictsWhileAPortIsAttached(t *testing.T) {
	for first := 1; first <= 2; first++ {
		t.Run(fmt.Sprintf("from write %d", first), func(t *testing.T) {
			writes := 0
			c := newAttachCloud(t, func(call placementtest.Call) (before, after error) {
				if call.Op == "PutAllocations" {
					if writes++; writes >= first && writes < first+10 {
						before = fault.New(fault.Conflict, "generation").WithCode(placement.CodeConcurrentUpdate)
					}
				}
				return before, nil
			})
			c.binder = c.conductor.Ports
			if first == 1 {
				for range 2 { // each attempt of the step gives up after some conflicts, and leaves nothing
					if _, err := c.binder.Change(t.Context(), c.server); !fault.Is(err, fault.Unavailable) ||
						!strings.Contains(err.Error(), "changes too often") {
						t.Errorf("the step returns %v", err)
					}
					if held := c.placement.Held("web"); !held.Equal(c.base) || c.network.ports[0].Host != "" {
						t.Errorf("Placement has %v, port %+v", held, c.network.ports[0])
					}
				}
			}
			c.claim()
			c.server.PortChange.Refused, c.server.Requests = "no hot plug", nil
			if _, is := c.perform().(lifecycle.PortNotAttached); !is || !c.placement.Held("web").Equal(c.base) {
				t.Errorf("Placement has %v", c.placement.Held("web"))
			}
			if want := 12; writes != want {
				t.Errorf("%d writes, want %d", writes, want)
			}
		})
	}
}

// noBindings is a network service that lists no bindings of ports without a host, as Neutron.
type noBindings struct {
	attachNetwork
	t *testing.T
}

func (n noBindings) PortBindings(_ context.Context, id string) ([]network.PortBinding, error) {
	n.t.Errorf("the bindings of port %s are listed", id)
	return nil, fault.New(fault.Invalid, "Bad port request: Operation only valid on compute ports.")
}

// A port is attached to a server whose last move was live.
func TestPortIsAttachedAfterALiveMigration(t *testing.T) {
	c := newAttachCloud(t, nil)
	c.network.ports[0].VNIC = "normal"
	c.server.Migration = &lifecycle.Migration{Kind: lifecycle.LiveMigration}
	c.uses(noBindings{attachNetwork{c.network}, t})
	if event := c.perform(); c.network.ports[0].Host == "" {
		t.Errorf("%+v, port %+v", event, c.network.ports[0])
	}
}
