package demo

import (
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// The network of the tour: a bridge with a guaranteed bandwidth in kbit/s, of which each port requests some.
const (
	physicalNetwork = "physnet0"
	bridge          = "br-demo"
	bridgeKbps      = 10000
	portKbps        = 6000
)

// bridgeID returns the id of the bridge's provider.
func (t *tour) bridgeID() provider.ID {
	return bandwidth.Name{Hypervisor: t.Host, Agent: bandwidth.OpenVSwitch, Device: bridge}.ID()
}

// bandwidthReported reports whether Placement has the bandwidth of the bridge.
func (t *tour) bandwidthReported() (bool, error) {
	inv, err := t.Placement.Inventories(t.ctx, t.bridgeID())
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && inv.Inventories[bandwidth.EgressBandwidth].Total == bridgeKbps, err
}

// ports creates a server with a guaranteed port, and one whose guarantee does not fit on the bridge, and deletes both.
func (t *tour) ports() error {
	t.title("A port has a guaranteed bandwidth: %d of the %d kbit/s of bridge %s. A second one does not fit.", portKbps,
		bridgeKbps, bridge)
	flavor, err := t.Compute.CreateFlavor(t.ctx, compute.CreateFlavor{Name: "without-a-device", VCPUs: 1, RAM: 64})
	if err != nil {
		return err
	}
	ports, err := t.guaranteedPorts("guaranteed", "too-much")
	if err != nil {
		return err
	}
	var servers []compute.Server
	for _, p := range ports {
		s, err := t.serverWithPort(p, flavor.ID)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	first, second := servers[0], servers[1]
	if first.Status != "ACTIVE" || second.Status != "ERROR" {
		return fail("the servers should be ACTIVE and ERROR, but are %s (%s) and %s", first.Status, faultText(first),
			second.Status)
	}
	bound, err := t.Network.Port(t.ctx, ports[0].ID)
	if err != nil {
		return err
	}
	used, err := t.Placement.Usages(t.ctx, t.bridgeID())
	if err != nil {
		return err
	}
	t.say("%s is %s; its port is bound to %s, and %d of %d kbit/s are used in Placement.", first.Name, first.Status,
		bound.Host, used[bandwidth.EgressBandwidth], bridgeKbps)
	t.say("%s is %s: %s", second.Name, second.Status, faultText(second))
	if bound.Host != t.Host || used[bandwidth.EgressBandwidth] != portKbps {
		return fail("port %s should be bound to %s and use %d kbit/s, but is bound to %q, and %d are used", bound.ID, t.Host,
			portKbps, bound.Host, used[bandwidth.EgressBandwidth])
	}
	if !strings.Contains(faultText(second), string(bandwidth.EgressBandwidth)) {
		return fail("%s failed without naming the bandwidth", second.Name)
	}
	if err := t.deleteServers(servers); err != nil {
		return err
	}
	for _, p := range ports {
		if err := t.Network.DeletePort(t.ctx, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// guaranteedPorts creates a network and ports in it with a guaranteed bandwidth.
func (t *tour) guaranteedPorts(names ...string) (ports []network.Port, err error) {
	n, err := t.Network.CreateNetwork(t.ctx, map[string]any{"name": "lan", "provider:network_type": "flat",
		"provider:physical_network": physicalNetwork})
	if err != nil {
		return nil, err
	}
	if _, err := t.Network.CreateSubnet(t.ctx, map[string]any{"network_id": n.ID, "ip_version": 4,
		"cidr": "192.0.2.0/24"}); err != nil {
		return nil, err
	}
	policy, err := t.Network.CreatePolicy(t.ctx, map[string]any{"name": "guarantee"})
	if err != nil {
		return nil, err
	}
	if _, err := t.Network.CreateRule(t.ctx, policy.ID, "minimum_bandwidth", map[string]any{"min_kbps": portKbps,
		"direction": "egress"}); err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := t.Network.CreatePort(t.ctx, map[string]any{"name": name, "network_id": n.ID, "qos_policy_id": policy.ID})
		if err != nil {
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// serverWithPort creates a server with the name of its port, and waits until it is ACTIVE or in ERROR.
func (t *tour) serverWithPort(p network.Port, flavor string) (s compute.Server, err error) {
	err = t.until("the network service to see the agent", func() (bool, error) {
		agents, err := t.Network.Agents(t.ctx, nil)
		return err == nil && len(agents) > 0 && agents[0].Alive, err
	})
	if err != nil {
		return s, err
	}
	made, err := t.Compute.CreateServer(t.ctx, compute.CreateServer{Name: p.Name, Flavor: flavor,
		Networks: compute.Networks{List: []compute.NetworkRequest{{Port: p.ID}}}})
	if err != nil {
		return s, err
	}
	return t.settled(made.ID)
}
