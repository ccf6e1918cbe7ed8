package conductor

import (
	"context"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
)

// overtaken is a network service in which another server gets and binds a port right after it was read as free.
type overtaken struct {
	attachNetwork

	reads *int
}

func (n overtaken) Port(ctx context.Context, id string) (network.Port, error) {
	p, err := n.attachNetwork.Port(ctx, id)
	if *n.reads++; *n.reads == 1 && err == nil {
		_, err = n.attachNetwork.UpdatePort(ctx, id, map[string]any{deviceID: "other", hostID: "b"})
	}
	return p, err
}

func (n overtaken) UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (network.Port,
	error) {
	return updateAt(ctx, n.attachNetwork, id, revision, attributes)
}

// TestPortOfAnotherServerIsNotTaken has two servers with one port: while one of them gets it, the other has read it as
// free. The port stays with the server that has it.
func TestPortOfAnotherServerIsNotTaken(t *testing.T) {
	c := newAttachCloud(t, nil)
	c.network.ports[0].Revision = 1
	c.uses(overtaken{attachNetwork{c.network}, new(int)})
	c.binder = c.conductor.Ports
	if e, refused := c.perform().(lifecycle.PortNotAttached); !refused {
		t.Errorf("the event is %+v", e)
	}
	if p := c.network.ports[0]; p.Device != "other" || p.Host != "b" {
		t.Errorf("the port has the device %q on host %q", p.Device, p.Host)
	}
}
