package sim

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
)

// do makes one call of a process of compute.
func (c networkClient) do(effect func() error) error {
	before, after := c.process.fault()
	if before != nil {
		return before
	}
	c.changePolicyDuringStep()
	if err := effect(); err != nil {
		return err
	}
	return after
}

// Ports lists the ports of a device.
func (c networkClient) Ports(_ context.Context, query url.Values) (list []network.Port, err error) {
	device := query.Get("device_id")
	err = c.do(func() error {
		for _, id := range c.ids {
			if c.ports[id].Device == device { // without a copy of each port
				list = append(list, c.ports[id])
			}
		}
		return nil
	})
	return list, err
}

// Port returns a port.
func (c networkClient) Port(_ context.Context, id string) (p network.Port, err error) {
	err = c.do(func() error { p, err = c.port(id); return err })
	c.lastRead = id
	return p, err
}

// CreatePort creates a port of compute.
func (c networkClient) CreatePort(_ context.Context, attributes map[string]any) (p network.Port, err error) {
	err = c.do(func() error {
		kbps := 0
		if attributes["network_id"] == guaranteedNetwork {
			kbps = 100
		}
		p = c.create(attributes["network_id"].(string), "normal", kbps)
		p, err = c.update(p.ID, attributes)
		return err
	})
	return p, err
}

// UpdatePort changes a port.
func (c networkClient) UpdatePort(_ context.Context, id string, attributes map[string]any) (p network.Port, err error) {
	err = c.do(func() error { p, err = c.update(id, attributes); return err })
	return p, err
}

// UpdatePortAt changes a port that has this revision.
func (c networkClient) UpdatePortAt(_ context.Context, id string, revision int, attributes map[string]any) (
	p network.Port, err error) {
	err = c.do(func() error {
		if p, err = c.port(id); err == nil && p.Revision != revision {
			c.report.Happened["port changed while it was bound"]++
			return fault.New(fault.Conflict, "port %s has revision %d", id, p.Revision).WithCode(network.PortChanged)
		}
		p, err = c.update(id, attributes)
		return err
	})
	return p, err
}

// PortBindings lists the bindings of a port.
func (c networkClient) PortBindings(_ context.Context, port string) (list []network.PortBinding, err error) {
	err = c.do(func() error {
		p, err := c.port(port)
		if err != nil {
			return err
		}
		if p.Host != "" {
			list = append(list, network.PortBinding{Host: p.Host, VNIC: p.VNIC, VIF: p.VIF, Profile: p.Profile,
				Status: "ACTIVE"})
		}
		for _, host := range slices.Sorted(maps.Keys(c.inactive[port])) {
			list = append(list, c.inactive[port][host])
		}
		return nil
	})
	return list, err
}

// BindPort adds an inactive binding.
func (c networkClient) BindPort(_ context.Context, port, host, vnic string, profile map[string]any) (
	b network.PortBinding, err error) {
	err = c.do(func() error {
		p, err := c.port(port)
		if err != nil {
			return err
		}
		if _, exists := c.inactive[port][host]; exists || p.Host == host {
			return fault.New(fault.Conflict, "port %s has a binding to %s", port, host)
		}
		p.Host, p.Profile = host, profile
		b = network.PortBinding{Host: host, VNIC: vnic, VIF: c.vif(p), Profile: maps.Clone(profile), Status: "INACTIVE"}
		if b.VIF == "binding_failed" {
			return fault.New(fault.Conflict, "port %s cannot be bound to %s", port, host).WithCode("PortBindingError")
		}
		if c.inactive[port] == nil {
			c.inactive[port] = map[string]network.PortBinding{}
		}
		c.inactive[port][host] = b
		return nil
	})
	return b, err
}

// ActivatePortBinding makes an inactive binding the active one, and the active one inactive.
func (c networkClient) ActivatePortBinding(_ context.Context, port, host string) error {
	return c.do(func() error {
		p, err := c.port(port)
		b, exists := c.inactive[port][host]
		if err != nil || !exists {
			return notFound("inactive binding of port", port)
		}
		delete(c.inactive[port], host)
		if p.Host != "" {
			c.inactive[port][p.Host] = network.PortBinding{Host: p.Host, VNIC: p.VNIC, VIF: p.VIF, Profile: p.Profile,
				Status: "INACTIVE"}
		}
		p.Host, p.VIF, p.Profile = host, b.VIF, b.Profile
		c.ports[port] = p
		return nil
	})
}

// DeletePortBinding removes a binding.
func (c networkClient) DeletePortBinding(_ context.Context, port, host string) error {
	return c.do(func() error {
		if p, exists := c.ports[port]; exists && p.Host == host {
			p.Host, p.VIF = "", "unbound"
			c.ports[port] = p
		}
		delete(c.inactive[port], host)
		return nil
	})
}

// DeletePort deletes a port. What it has of its server's allocation is released.
func (c networkClient) DeletePort(_ context.Context, id string) error {
	return c.do(func() error { c.remove(id); return nil })
}

// Network returns a network.
func (c networkClient) Network(_ context.Context, id string) (out network.Network, err error) {
	err = c.do(func() error {
		if out.ID, out.Name = id, id; id == directNetwork {
			out.PhysicalNetwork = "physnet1"
		}
		return nil
	})
	return out, err
}

// networkClient is the network service as one process of compute uses it.
type networkClient struct {
	*networkModel
	process *process
}
