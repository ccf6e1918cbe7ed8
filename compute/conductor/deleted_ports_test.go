package conductor

import (
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// A port whose deletion was reported is left out when ports are prepared and bound. One that is only missing is not
// left out before the guest exists, nor one that needs a device: then the host is not used.
func TestDeletedPortsAreLeftOut(t *testing.T) {
	c := newAttachCloud(t, nil)
	c.network.ports = []network.Port{{ID: "p", Network: "n", Device: "web"}}
	s := c.server
	s.PortChange, s.State = nil, lifecycle.BindingPorts
	s.Networks = []lifecycle.NetworkRequest{{Port: "gone"}, {Port: "p"}}
	s.Ports = []lifecycle.Port{{ID: "gone"}, {ID: "p"}}

	if _, refusal, err := c.binder.Prepare(t.Context(), s); refusal == "" || err != nil {
		t.Errorf("a missing port is prepared: %q %v", refusal, err)
	}
	if e, err := c.binder.Bind(t.Context(), s); !isNotBound(e) || err != nil {
		t.Errorf("a missing port is bound: %+v %v", e, err)
	}
	s.DeletedPorts = []string{"gone"}
	all, refusal, err := c.binder.Prepare(t.Context(), s)
	if len(all.List) != 1 || all.List[0].ID != "p" || refusal != "" || err != nil {
		t.Errorf("prepared %+v, %q %v", all.List, refusal, err)
	}
	e, err := c.binder.Bind(t.Context(), s)
	if bound, is := e.(lifecycle.PortsBound); !is || len(bound.Ports) != 1 || bound.Ports[0].ID != "p" || err != nil {
		t.Errorf("bound %+v %v", e, err)
	}
	s.Ports = s.Ports[:1]
	if e, err := c.binder.AddBindings(t.Context(), s); err != nil || isNotBound(e) {
		t.Errorf("added %+v %v", e, err)
	}
	s.Requests = []pci.Request{{ID: "V", Count: 1, Port: &pci.PortNeeds{ID: "gone"}}}
	host, err := c.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	s.Devices = append(s.Devices, schedule.Picked{RequestID: "V", Address: host.Devices[0].Address.String()})
	if e, err := c.binder.Bind(t.Context(), s); !isNotBound(e) || err != nil {
		t.Errorf("a port with a device is left out: %+v %v", e, err)
	}
}

func isNotBound(e lifecycle.Event) bool {
	_, is := e.(lifecycle.PortsNotBound)
	return is
}
