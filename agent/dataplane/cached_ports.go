package dataplane

import (
	"context"
	"sync"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
)

// cache has the ports of the host as the network service had them at a revision. Reading it does not wait for the
// service.
type cache struct {
	service Ports
	calls   sync.Mutex // held during a call, so that older changes are not applied after newer ones

	mu       sync.Mutex
	revision int64
	ports    map[string]network.HostPort // by id
}

// refresh reads the changes since the last revision. A service without the request, such as Neutron, has no ports for
// this host.
func (c *cache) refresh(ctx context.Context, host string) error {
	c.calls.Lock()
	defer c.calls.Unlock()
	changes, err := c.service.HostPorts(ctx, host, c.revision)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.ports, c.revision = nil, 0
		return nil
	}
	if changes.Whole || c.ports == nil {
		c.ports = map[string]network.HostPort{}
	}
	for _, id := range changes.Left {
		delete(c.ports, id)
	}
	for _, p := range changes.Ports {
		c.ports[p.ID] = p
	}
	c.revision = changes.Revision
	return nil
}

// port returns the port that has a VF. If compute assigned one, it is that port, with what the network service has of
// it; without an answer of the service about it, only MAC address and VLAN are known. Otherwise it is the port that is
// bound to the VF and to this server: the PCI address of a port may be outdated, because it is that of its last
// binding.
func (c *cache) port(a vfconfig.Assigned) (port vfconfig.Port, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Port.ID != "" {
		if p, known := c.ports[a.Port.ID]; known && p.VIF == hardwareBridge {
			return convert(p), true
		}
		return a.Port, true
	}
	for _, p := range c.ports {
		if p.Device == a.Server && p.PCISlot == a.Device.String() && p.VIF == hardwareBridge {
			return convert(p), true
		}
	}
	return port, false
}

// hardwareBridge is the vif_type of ports that the NIC's own bridge connects, so that their VF is configured through
// its PF.
const hardwareBridge = "hw_veb"

// convert converts a port of the contract.
func convert(p network.HostPort) vfconfig.Port {
	out := vfconfig.Port{ID: p.ID, MAC: p.MAC, AdminUp: p.AdminUp, Trusted: p.Trusted, SpoofCheck: p.SpoofCheck,
		MinEgress: p.MinEgress, MaxEgress: p.MaxEgress, MaxIngress: p.MaxIngress}
	if p.NetworkType == "vlan" {
		out.VLAN = p.SegmentationID
	}
	return out
}
