package conductor

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/resource"
)

// A plan reads the ports of a server as its move would have them: it creates none, reserves none, and reports a port
// of another server.
func TestDrainPlanWritesNoPorts(t *testing.T) {
	for name, test := range map[string]struct{ device, to, reason string }{
		"a free port and a port to create": {"", "b", "a port will be created on network n"},
		"the port of another server":       {"other", "", "port q is in use by device other"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newAttachCloud(t, nil)
			c.addHostB()
			c.network.ports[0].Device = test.device
			c.uses(readOnly{NetworkReader: attachNetwork{c.network}})
			_, err := c.store.Change(t.Context(), "web", func(s lifecycle.Server) lifecycle.Server {
				s.Requests, s.Networks = nil, []lifecycle.NetworkRequest{{Network: "n"}, {Port: "q"}}
				s.Ask = resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 4}}}}
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := c.conductor.Scheduler.PlanDrain(t.Context(), "a", nil)
			if err != nil || len(plan) != 1 || plan[0].To != test.to ||
				!strings.Contains(plan[0].Reason+plan[0].Note, test.reason) {
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
	ports.NetworkReader
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

// callRecorder is a network service that records the names of the calls.
type callRecorder struct {
	readOnly
	calls *[]string
}

func (r callRecorder) Ports(ctx context.Context, query url.Values) ([]network.Port, error) {
	*r.calls = append(*r.calls, "GET ports")
	return r.NetworkReader.Ports(ctx, query)
}

func (r callRecorder) Port(ctx context.Context, id string) (network.Port, error) {
	*r.calls = append(*r.calls, "GET port")
	return r.NetworkReader.Port(ctx, id)
}

func (r callRecorder) PortBindings(ctx context.Context, port string) ([]network.PortBinding, error) {
	*r.calls = append(*r.calls, "GET bindings")
	return r.NetworkReader.PortBindings(ctx, port)
}

func (r callRecorder) Network(ctx context.Context, id string) (network.Network, error) {
	*r.calls = append(*r.calls, "GET network")
	return r.NetworkReader.Network(ctx, id)
}

func (r callRecorder) CreatePort(context.Context, map[string]any) (network.Port, error) {
	*r.calls = append(*r.calls, "POST ports")
	return network.Port{}, nil
}

func (r callRecorder) UpdatePort(context.Context, string, map[string]any) (network.Port, error) {
	*r.calls = append(*r.calls, "PUT port")
	return network.Port{}, nil
}

// The port that compute has created for a server was deleted in the network service. The plan of a drain reads what is
// there, and has the sentence that the move will create another one.
func TestDrainPlanOfAServerWithADeletedPortOnlyReads(t *testing.T) {
	c := newAttachCloud(t, nil)
	c.addHostB()
	c.network.ports = nil
	var calls []string
	c.uses(callRecorder{readOnly{NetworkReader: attachNetwork{c.network}}, &calls})
	_, err := c.store.Change(t.Context(), "web", func(s lifecycle.Server) lifecycle.Server {
		s.Requests, s.Networks = nil, []lifecycle.NetworkRequest{{Network: "n"}}
		s.Ports = []lifecycle.Port{{ID: "deleted", Network: "n", Created: true}}
		s.Ask = resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 4}}}}
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.conductor.Scheduler.PlanDrain(t.Context(), "a", nil)
	if err != nil || len(plan) != 1 || plan[0].To != "b" ||
		!strings.Contains(plan[0].Note, "a port will be created on network n") {
		t.Errorf("%+v %v", plan, err)
	}
	if len(calls) == 0 || slices.ContainsFunc(calls, func(c string) bool { return !strings.HasPrefix(c, "GET ") }) {
		t.Errorf("the calls are %q", calls)
	}
}
