package conductor

import (
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
)

// A port that was attached after the backup from which the record of its server was restored is returned to the user
// when the server is deleted, also if the server is in ERROR and holds nothing. A server that does not end keeps it.
func TestPortsAttachedAfterTheBackupAreReturned(t *testing.T) {
	for _, test := range []struct {
		state lifecycle.State
		want  string // device of the port afterwards
	}{{lifecycle.DeletingAllocation, ""}, {lifecycle.Failing, ""}, {lifecycle.Offloading, "web"}} {
		c := newAttachCloud(t, nil)
		c.network.ports = []network.Port{{ID: "q", Network: "n", Device: "web", DeviceOwner: "compute:nova"}}
		s := c.server
		s.State, s.Networks, s.Ports, s.PortChange = test.state, nil, nil, nil
		if err := c.binder.Release(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if p := c.network.ports; len(p) != 1 || p[0].Device != test.want || (p[0].DeviceOwner == "") != (test.want == "") {
			t.Errorf("%s: %+v", test.state, p)
		}
		c.binder.Network = nil
		if err := c.binder.Release(t.Context(), s); err != nil {
			t.Errorf("%s without a network service: %v", test.state, err)
		}
	}
}

// Deleting a server that holds nothing performs Release, which returns its ports, if there is a network service.
func TestDeletedServersWithoutAllocationsReturnPorts(t *testing.T) {
	c := newAttachCloud(t, nil)
	c.network.ports = []network.Port{{ID: "q", Network: "n", Device: "web"}}
	_, err := c.store.Change(t.Context(), "web", func(s lifecycle.Server) lifecycle.Server {
		s.State, s.Host, s.Networks, s.Ports, s.PortChange, s.Choices = lifecycle.Error, "", nil, nil, nil, nil
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	c.conductor.Agents.StopAwaiting()
	if err := c.conductor.Delete(t.Context(), "web", lifecycle.Caller{}); err != nil {
		t.Fatal(err)
	}
	if err := c.conductor.Perform(t.Context(), "web"); err != nil || c.network.ports[0].Device != "" {
		t.Errorf("%v, %+v", err, c.network.ports)
	}
}

// A port of an existing guest that the network service has for another server, or for none, ends the attempts to bind
// it. Before the guest exists, it is a reason not to use the host.
func TestPortsOfOtherDevicesAreNotBound(t *testing.T) {
	for _, device := range []string{"", "other"} {
		c := newAttachCloud(t, nil)
		c.network.ports = []network.Port{{ID: "q", Network: "n", Device: device}, {ID: "p", Network: "n", Device: "web"}}
		s := c.server
		s.State, s.PortChange, s.Ports = lifecycle.Active, nil, []lifecycle.Port{{ID: "q"}, {ID: "p"}}
		e, err := c.binder.Bind(t.Context(), s)
		bound, is := e.(lifecycle.PortsBound)
		if err != nil || !is || len(bound.Ports) != 1 || bound.Ports[0].ID != "p" || bound.Lost["q"] == "" {
			t.Errorf("device %q: %+v %v", device, e, err)
		}
		if p := c.network.ports[0]; p.Device != device || p.Host != "" {
			t.Errorf("device %q: the port is changed: %+v", device, p)
		}
		s.State = lifecycle.BindingPorts
		if e, err := c.binder.Bind(t.Context(), s); err != nil || !isNotBound(e) {
			t.Errorf("device %q: %+v %v", device, e, err)
		}
	}
}
