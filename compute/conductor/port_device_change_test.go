package conductor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// attachNetwork is a network service with ports of one network on physnet1.
type attachNetwork struct{ *fakePorts }

func (f attachNetwork) Port(_ context.Context, id string) (network.Port, error) {
	at := slices.IndexFunc(f.ports, func(p network.Port) bool { return p.ID == id })
	if at < 0 {
		return network.Port{}, fault.New(fault.NotFound, "Port %s could not be found.", id)
	}
	return f.ports[at], nil
}

func (f attachNetwork) UpdatePort(_ context.Context, id string, attributes map[string]any) (network.Port, error) {
	p := &f.ports[slices.IndexFunc(f.ports, func(p network.Port) bool { return p.ID == id })]
	if to, has := attributes[deviceID]; has {
		p.Device = to.(string)
	}
	if to, has := attributes[deviceOwner]; has {
		p.DeviceOwner = to.(string)
	}
	if to, has := attributes[hostID]; has {
		p.Host = to.(string)
	}
	if to, has := attributes[profile]; has {
		p.Profile = to.(map[string]any)
	}
	p.VIF = "hw_veb"
	p.Revision++
	return *p, nil
}

func (f attachNetwork) UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (
	network.Port, error) {
	return updateAt(ctx, f, id, revision, attributes)
}

// updateAt changes a port of a network service if it has this revision.
func updateAt(ctx context.Context, n ports.Network, id string, revision int, attributes map[string]any) (network.Port,
	error) {
	if p, err := n.Port(ctx, id); err != nil || p.Revision != revision {
		return p, cmp.Or(err, error(fault.New(fault.Conflict, "revision %d", p.Revision).WithCode(network.PortChanged)))
	}
	return n.UpdatePort(ctx, id, attributes)
}

func (f attachNetwork) Network(context.Context, string) (network.Network, error) {
	return network.Network{ID: "n", PhysicalNetwork: "physnet1"}, nil
}

// attachCloud is a nicCloud whose VFs are free and whose server attaches the port q: a VF with 6 Mbit/s.
type attachCloud struct {
	nicCloud
	binder *ports.Binder
	base   resource.Allocation
	server lifecycle.Server
}

func newAttachCloud(t *testing.T, fail failFunc) attachCloud {
	t.Helper()
	c := attachCloud{nicCloud: newNICCloud(t, fail)}
	c.uses(attachNetwork{c.network})
	traits := []resource.Trait{"CUSTOM_PHYSNET_PHYSNET1", "CUSTOM_VNIC_TYPE_DIRECT"}
	for _, n := range []string{"1", "2"} {
		c.placement.SetProvider(provider.Provider{ID: provider.ID("vf-" + n), Name: "vf-" + n, Traits: traits,
			Parent: provider.ID("nic-" + n), Root: "root-a",
			Inventories: map[resource.Class]resource.Inventory{pci.PortVF: resource.Whole(1)}})
	}
	host, err := c.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	physnet := "physnet1"
	host.Devices = slices.Clone(host.Devices)
	for i := range host.Devices {
		host.Devices[i].State, host.Devices[i].PhysicalNetwork = pci.Available, &physnet
	}
	host.Seen = time.Now()
	c.put(host)
	c.conductor.Agents.Reported(host)
	c.binder = c.conductor.Ports
	c.base = resource.Allocation{"root-a": {"VCPU": 4}}
	c.server, err = c.store.Read(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	c.network.ports = []network.Port{{ID: "q", Network: "n", ActiveBinding: network.ActiveBinding{VNIC: "direct"},
		Request: &network.ResourceRequest{SameSubtree: []string{"bw"}, Groups: []network.RequestGroup{{ID: "bw",
			Resources: resource.Amounts{bandwidth.EgressBandwidth: 6000}}}}}}
	c.server.Networks = []lifecycle.NetworkRequest{{Port: "q"}}
	c.server.PortChange = &lifecycle.PortChange{ID: "w", Request: c.server.Networks[0]}
	return c
}

// perform performs the step until it returns an event.
func (c attachCloud) perform() lifecycle.Event {
	c.t.Helper()
	for range 5 {
		if e, err := c.binder.Change(c.t.Context(), c.server); err == nil {
			return e
		}
	}
	c.t.Fatal("the step is not done")
	return nil
}

// claim performs the first part of the step, and checks that VF and bandwidth are claimed on one NIC.
func (c *attachCloud) claim() (nic string) {
	c.t.Helper()
	event := c.perform()
	claimed, is := event.(lifecycle.PortClaimed)
	if !is || len(claimed.Device.Providers) != 1 {
		c.t.Fatalf("%+v", event)
	}
	nic = string(claimed.Device.Providers[0][len("vf-"):])
	want := c.base.Add(resource.Allocation{provider.ID("vf-" + nic): {pci.PortVF: 1},
		provider.ID("nic-" + nic): {bandwidth.EgressBandwidth: 6000}})

	if held := c.placement.Held("web"); !held.Equal(want) || claimed.Port.Allocation["bw"] != provider.ID("nic-"+nic) {
		c.t.Errorf("Placement has %v, want %v; %+v", held, want, claimed.Port)
	}
	c.server.PortChange.Port, c.server.PortChange.Device = &claimed.Port, &claimed.Device
	c.server.Requests = append(slices.Clone(c.server.Requests), claimed.Device)
	return nic
}

// Whichever call of Placement fails, before or after its effect: a port is claimed, bound with the picked device and
// released again, and Placement has exactly that after each part.
func TestFaultAtEachCallWhileAPortWithADeviceIsAttached(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			faults := &trouble{fails: once(at, late)}
			t.Run(fmt.Sprintf("call %d late=%t", at, late), func(t *testing.T) { attachAndRelease(t, faults.failPlacement) })
			if t.Failed() {
				return
			}
			if faults.count() < at {
				break
			}
		}
	}
}

func attachAndRelease(t *testing.T, fail failFunc) {
	c := newAttachCloud(t, fail)
	nic := c.claim()
	slot := map[string]string{"1": slot1, "2": slot2}[nic]
	c.server.Devices = []schedule.Picked{{RequestID: c.server.PortChange.Device.ID, Address: slot,
		Provider: provider.ID("vf-" + nic)}}
	attached, is := c.perform().(lifecycle.PortAttached)
	p := c.network.ports[0]
	if !is || attached.Port.Device != slot || p.Host != "a" || p.Profile["pci_slot"] != slot || p.Device != "web" {
		t.Fatalf("%+v %+v", attached, p)
	}
	for _, undo := range []lifecycle.PortChange{{Refused: "no hot plug"}, {Detach: "q"}} {
		change := *c.server.PortChange
		change.Refused, change.Detach = undo.Refused, undo.Detach
		c.server.PortChange, c.server.Requests = &change, nil
		switch e := c.perform().(type) {
		case lifecycle.PortNotAttached, lifecycle.PortDetached:
		default:
			t.Errorf("%T", e)
		}
		p := c.network.ports[0]
		if held := c.placement.Held("web"); !held.Equal(c.base) || p.Device != "" || p.Host != "" || len(p.Profile) > 0 {
			t.Errorf("Placement has %v, port %+v", held, p)
		}
	}
}

// A NIC whose VF is not free by the report of the host is not claimed, although Placement has room there. Without any,
// the port is not attached, and nothing is left.
func TestPortIsAttachedToANICWithAFreeDevice(t *testing.T) {
	c := newAttachCloud(t, nil)
	host, err := c.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	take := func(slot string) {
		host.Devices = slices.Clone(host.Devices)
		for i := range host.Devices {
			if host.Devices[i].Address.String() == slot {
				host.Devices[i].State = pci.Claimed
			}
		}
		c.put(host)
	}
	take(slot1)
	if nic := c.claim(); nic != "2" {
		t.Errorf("NIC %s", nic)
	}
	c.server.PortChange, c.server.Requests = &lifecycle.PortChange{ID: "w", Request: c.server.Networks[0]}, nil
	take(slot2)
	refused, is := c.perform().(lifecycle.PortNotAttached)
	if held := c.placement.Held("web"); !is || !held.Equal(c.base) || c.network.ports[0].Device != "" {
		t.Errorf("%+v, Placement has %v", refused, held)
	}
}
