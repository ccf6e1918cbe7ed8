package conductor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// sibling is a further port of the server, which is bound with a guarantee.
func sibling() network.Port {
	return network.Port{ID: "r", Network: "n", Device: "web", ActiveBinding: network.ActiveBinding{Host: "a",
		VNIC: "normal", Profile: map[string]any{"allocation": map[string]any{"rw": "nic-1"}}},
		Request: &network.ResourceRequest{Groups: []network.RequestGroup{{ID: "rw",
			Resources: resource.Amounts{bandwidth.EgressBandwidth: 1000}}}}}
}

// The attachment of a port ends at each call of Placement, before or after its effect, and the port changes before the
// step is repeated. Placement then has what the server's ports have that are attached, and nothing of the former claim.
func TestInterruptedAttachmentOfAChangedPort(t *testing.T) {
	attached := func(c *attachCloud) resource.Allocation { return c.base }
	device := func(c *attachCloud) resource.Allocation {
		for _, nic := range []string{"1", "2"} {
			with := c.base.Add(resource.Allocation{provider.ID("vf-" + nic): {pci.PortVF: 1}})
			if c.placement.Held("web").Equal(with) {
				return with
			}
		}
		return nil
	}
	for name, test := range map[string]struct {
		vnic   string
		change func(ports *[]network.Port)
		want   func(c *attachCloud) resource.Allocation
	}{
		"deleted":                  {"direct", func(ports *[]network.Port) { *ports = (*ports)[1:] }, attached},
		"of another device":        {"direct", func(ports *[]network.Port) { (*ports)[0].Device = "other" }, attached},
		"without a policy":         {"direct", func(ports *[]network.Port) { (*ports)[0].Request = nil }, device},
		"normal, deleted":          {"normal", func(ports *[]network.Port) { *ports = (*ports)[1:] }, attached},
		"normal, without a policy": {"normal", func(ports *[]network.Port) { (*ports)[0].Request = nil }, attached},
		"normal now": {"direct", func(ports *[]network.Port) {
			(*ports)[0].VNIC, (*ports)[0].Request = "normal", nil
		}, attached},
	} {
		for _, late := range []bool{false, true} {
			for at := 1; ; at++ {
				faults := &trouble{fails: once(at, late)}
				t.Run(fmt.Sprintf("%s, call %d late=%t", name, at, late), func(t *testing.T) {
					c := newAttachCloud(t, faults.failPlacement)
					c.network.ports[0].VNIC = test.vnic
					c.network.ports = append(c.network.ports, sibling())
					c.base = c.base.Add(resource.Allocation{"nic-1": {bandwidth.EgressBandwidth: 1000}})
					c.holds("web", c.base)
					if _, err := c.binder.Change(t.Context(), c.server); err == nil && faults.count() >= at {
						t.Fatal("the fault is not returned")
					}
					faults.rest() // if no call has failed, the event is not stored
					if c.network.ports[0].Host != "" {
						return // bound: the network service changes the amounts with the port
					}
					test.change(&c.network.ports)
					c.perform()
					if held, want := c.placement.Held("web"), test.want(&c); !held.Equal(want) {
						t.Errorf("Placement has %v, want %v", held, want)
					}
				})
				if t.Failed() {
					return
				}
				if faults.count() < at {
					break
				}
			}
		}
	}
}

// The policy of a port changes while the agent picks its device: the port is bound with what it requests then.
func TestPolicyChangesWhileADeviceIsPicked(t *testing.T) {
	for name, request := range map[string]*network.ResourceRequest{
		"none": nil,
		"less": {Groups: []network.RequestGroup{{ID: "less", Resources: resource.Amounts{bandwidth.EgressBandwidth: 2000}}}},
	} {
		c := newAttachCloud(t, nil)
		nic := c.claim()
		slot := map[string]string{"1": slot1, "2": slot2}[nic]
		c.server.Devices = []schedule.Picked{{RequestID: c.server.PortChange.Device.ID, Address: slot,
			Provider: provider.ID("vf-" + nic)}}
		c.network.ports[0].Request = request
		want := c.base.Add(resource.Allocation{provider.ID("vf-" + nic): {pci.PortVF: 1}})
		if request != nil {
			want = want.Add(resource.Allocation{provider.ID("nic-" + nic): request.Groups[0].Resources})
		}
		for range 2 { // the first event is lost
			if e, is := c.perform().(lifecycle.PortAttached); !is || len(e.Port.Groups) != len(want)-2 {
				t.Errorf("%s: %+v", name, e)
			}
			if held := c.placement.Held("web"); !held.Equal(want) {
				t.Errorf("%s: Placement has %v, want %v", name, held, want)
			}
		}
	}
}

// A port that belongs to another device meanwhile is not changed when its attachment is undone.
func TestReturnedPortOfAnotherDevice(t *testing.T) {
	c := newAttachCloud(t, nil)
	c.claim()
	change := *c.server.PortChange
	change.Refused = "no hot plug"
	c.server.PortChange, c.server.Requests = &change, nil
	c.network.ports[0].Device, c.network.ports[0].Host = "other", "b"
	if _, is := c.perform().(lifecycle.PortNotAttached); !is {
		t.Error("the attachment is not undone")
	}
	if p := c.network.ports[0]; p.Device != "other" || p.Host != "b" || !c.placement.Held("web").Equal(c.base) {
		t.Errorf("%+v, Placement has %v", p, c.placement.Held("web"))
	}
}

// Devices that the flavor requests with the class of a port's device stay allocated when a port is detached.
func TestDevicesOfTheFlavorStayWhenAPortIsDetached(t *testing.T) {
	c := newAttachCloud(t, nil)
	own := resource.Allocation{"vf-1": {pci.PortVF: 1}}
	c.server.Choices = slices.Clone(c.server.Choices)
	c.server.Choices[0].Allocation = c.server.Choices[0].Allocation.Add(own)
	c.holds("web", c.base.Add(own))
	c.server.PortChange = &lifecycle.PortChange{ID: "d", Detach: "q", Request: c.server.Networks[0]}
	if _, is := c.perform().(lifecycle.PortDetached); !is || !c.placement.Held("web").Equal(c.base.Add(own)) {
		t.Errorf("Placement has %v", c.placement.Held("web"))
	}
}
