package conductor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// rebinding is a network service whose updates of ports fail as fails says: with an error, or with this vif_type.
type rebinding struct {
	attachNetwork
	fails map[string]error
	vif   map[string]string
}

func (n rebinding) UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (
	network.Port, error) {
	return updateAt(ctx, n, id, revision, attributes)
}

func (n rebinding) UpdatePort(ctx context.Context, id string, attributes map[string]any) (network.Port, error) {
	if err := n.fails[id]; err != nil {
		return network.Port{}, err
	}
	p, err := n.attachNetwork.UpdatePort(ctx, id, attributes)
	if vif := n.vif[id]; vif != "" && p.Host != "" {
		p.VIF = vif
	}
	return p, err
}

// lostBinding returns a server with the direct port p, whose guarantee and VF are allocated on the second NIC, and
// whose binding is lost: of the binding the network service has nothing.
func lostBinding(t *testing.T, change func(*lifecycle.Server)) (nicCloud, rebinding, resource.Allocation) {
	t.Helper()
	c := newNICCloud(t, nil)
	amounts := resource.Amounts{bandwidth.EgressBandwidth: 6000}
	_, err := c.store.Change(t.Context(), "web", func(s lifecycle.Server) lifecycle.Server {
		s.Ports = []lifecycle.Port{{ID: "p", VNIC: "direct", Host: "a", Device: slot2, SameSubtree: []string{"bw"},
			Groups:     []resource.Group{{Suffix: "bw", Resources: amounts}},
			Allocation: map[string]provider.ID{"bw": "nic-2"}}}
		if change != nil {
			change(&s)
		}
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	held := resource.Allocation{"root-a": {"VCPU": 4}, "nic-2": amounts, "vf-2": {pci.PortVF: 1}}
	c.holds("web", held)
	c.network.ports = []network.Port{{ID: "p", ActiveBinding: network.ActiveBinding{VNIC: "direct",
		Profile: map[string]any{"trusted": true}}, Request: &network.ResourceRequest{Groups: []network.RequestGroup{
		{ID: "bw", Resources: amounts}}}}}
	n := rebinding{attachNetwork{c.network}, map[string]error{}, map[string]string{}}
	c.uses(n)
	return c, n, held
}

// A port that lost its binding, and its device, is bound again with what the record of the server has. Nothing changes
// in Placement. It is the same for a server that waits for the confirmation of its resize.
func TestHealingBindsAPortAgain(t *testing.T) {
	for name, change := range map[string]func(*lifecycle.Server){
		"active": nil,
		"resized": func(s *lifecycle.Server) {
			s.State, s.Move = lifecycle.Moving, &lifecycle.Move{Phase: lifecycle.Resized, Kind: lifecycle.Resizing}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, held := lostBinding(t, change)
			planned, err := c.conductor.Ports.HealPorts(t.Context(), "", nil, false)
			if err != nil || len(planned) != 1 || !planned[0].Ports[0].Bind || planned[0].State != ports.NeedHealing ||
				c.network.ports[0].Host != "" {
				t.Fatalf("%+v %v", planned, err)
			}
			if got := c.heal(); got.State != ports.Healed || len(got.Adds)+len(got.Removes) > 0 {
				t.Errorf("%+v", got)
			}
			p := c.network.ports[0]
			if p.Host != "a" || p.Device != "web" || p.DeviceOwner != "compute:nova" || p.Profile["pci_slot"] != slot2 ||
				fmt.Sprint(p.Profile["allocation"]) != "map[bw:nic-2]" || p.Profile["trusted"] != true {
				t.Errorf("%+v", p)
			}
			if now := c.placement.Held("web"); !now.Equal(held) {
				t.Errorf("Placement has %v, want %v", now, held)
			}
			if again := c.heal(); again.State != "" {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

// A port that cannot be bound again stays as it is, with all other ports of the server, and the reason is returned.
func TestHealingNamesPortsThatCannotBeBound(t *testing.T) {
	for reason, test := range map[string]struct {
		state  ports.State
		change func(c nicCloud, n rebinding)
	}{
		"it does not exist any more": {ports.NotAllocated, func(c nicCloud, _ rebinding) { c.network.ports = nil }},
		"its device is other": {ports.NotAllocated, func(c nicCloud, _ rebinding) {
			c.network.ports[0].Device = "other"
		}},
		"does not report its device": {ports.NotAllocated, func(c nicCloud, _ rebinding) { c.withoutDevices() }},
		"No quota": {ports.NotWritten, func(_ nicCloud, n rebinding) {
			n.fails["p"] = fault.New(fault.Conflict, "No quota")
		}},
		"no agent or mechanism of the": {ports.NotWritten, func(_ nicCloud, n rebinding) { n.vif["p"] = "binding_failed" }},
	} {
		t.Run(reason, func(t *testing.T) {
			c, n, held := lostBinding(t, nil)
			test.change(c, n)
			before := slices.Clone(c.network.ports)
			got := c.heal()
			if got.State != test.state || !strings.Contains(got.Reason, reason) || len(got.Ports) != 1 {
				t.Errorf("%+v", got)
			}
			if len(before) > 0 {
				p := c.network.ports[0]
				if p.Host != "" || p.Device != before[0].Device || fmt.Sprint(p.Profile) != "map[trusted:true]" {
					t.Errorf("the port has changed: %+v", p)
				}
			}
			if now := c.placement.Held("web"); !now.Equal(held) {
				t.Errorf("Placement has %v, want %v", now, held)
			}
		})
	}
}

// withoutDevices makes host a report no devices.
func (c nicCloud) withoutDevices() {
	c.t.Helper()
	host, err := c.store.Host(c.t.Context(), "a")
	if err != nil {
		c.t.Fatal(err)
	}
	host.Devices = nil
	c.put(host)
}

// A server with ports that is being built or moved is named as busy. One that is being deleted, and one without ports,
// is not.
func TestHealingNamesServersThatAreChanged(t *testing.T) {
	for want, change := range map[ports.State]func(*lifecycle.Server){
		ports.Busy: func(s *lifecycle.Server) { s.State = lifecycle.Spawning },
		"":         func(s *lifecycle.Server) { s.State = lifecycle.DeletingGuest },
	} {
		c, _, _ := lostBinding(t, change)
		found, err := c.conductor.Ports.HealPorts(t.Context(), "", nil, false)
		if err != nil || (len(found) == 0) != (want == "") || len(found) == 1 && found[0].State != want {
			t.Errorf("%q: %+v %v", want, found, err)
		}
	}
}
