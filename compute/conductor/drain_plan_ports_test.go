package conductor

import (
	"context"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/resource"
)

// A plan reads the ports of a server as its move would have them: it creates none, reserves none, and reports a port
// of another server.
func TestDrainPlanWritesNoPorts(t *testing.T) {
	for name, test := range map[string]struct{ device, to, reason string }{
		"a free port and a port to create": {"", "b", ""},
		"the port of another server":       {"other", "", "port q is in use by device other"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newAttachCloud(t, nil)
			c.addHostB()
			c.network.ports[0].Device = test.device
			c.conductor.Network = readOnly{NetworkReader: attachNetwork{c.network}}
			_, err := c.store.Change(t.Context(), "web", func(s lifecycle.Server) lifecycle.Server {
				s.Requests, s.Networks = nil, []lifecycle.NetworkRequest{{Network: "n"}, {Port: "q"}}
				s.Ask = resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 4}}}}
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := c.conductor.PlanDrain(t.Context(), "a")
			if err != nil || len(plan) != 1 || plan[0].To != test.to || !strings.Contains(plan[0].Reason, test.reason) {
				t.Errorf("%+v %v", plan, err)
			}
			if p := c.network.ports[0]; len(c.network.ports) != 1 || p.Device != test.device {
				t.Errorf("the ports have changed: %+v", c.network.ports)
			}
		})
	}
}

// readOnly is a network service without the methods that write: calling one panics.
type readOnly struct {
	NetworkReader
	writes
}

type writes interface {
	CreatePort(ctx context.Context, attributes map[string]any) (network.Port, error)
	UpdatePort(ctx context.Context, id string, attributes map[string]any) (network.Port, error)
	UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (network.Port, error)
	DeletePort(ctx context.Context, id string) error
	BindPort(ctx context.Context, port, host, vnicType string, profile map[string]any) (network.PortBinding, error)
	ActivatePortBinding(ctx context.Context, port, host string) error
	DeletePortBinding(ctx context.Context, port, host string) error
}
