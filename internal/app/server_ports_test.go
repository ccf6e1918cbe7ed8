package app

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
)

// portsConf is a host with a bridge of 10 Mbit/s on physnet0.
const portsConf = `
[DEFAULT]
allow_resize_to_same_host = true
[ovs]
bridge_mappings = physnet0:br-ex
resource_provider_bandwidths = br-ex:10000:10000
`

// portsLab is a lab with a network on physnet0 that has a subnet.
type portsLab struct {
	*lab
	net    network.Network
	bridge provider.ID
	root   provider.ID
	flavor string // id of one with 1 VCPU
}

func newPortsLab(t *testing.T) *portsLab { return newPortsLabWith(t, "", &faultyNetwork{}) }

// newPortsLabWith is newPortsLab with more configuration, and a network service that needs the lab.
func newPortsLabWith(t *testing.T, conf string, faulty *faultyNetwork) *portsLab {
	t.Helper()
	l := &portsLab{lab: newLab(t)}
	faulty.lab = l
	l.up(portsConf + conf)
	l.bridge = bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
	l.until("the bridge is reported", func() bool {
		inv, err := l.cloud.PlacementClient().Inventories(t.Context(), l.bridge)
		return err == nil && inv.Inventories[bandwidth.EgressBandwidth].Total == 10000
	})
	l.root = l.provider("cmp1").ID
	client := l.cloud.NetworkClient()
	err := client.ReportAgent(t.Context(), "cmp1", string(bandwidth.OpenVSwitch), network.AgentReport{Binary: "test",
		Start: "s", Root: string(l.root), Devices: []network.AgentDevice{{Name: "br-ex", Provider: string(l.bridge),
			PhysicalNetworks: []string{"physnet0"}}}})
	if err == nil {
		l.net, err = client.CreateNetwork(t.Context(), map[string]any{"name": "lan", "project_id": "admin",
			"provider:network_type": "vlan", "provider:physical_network": "physnet0", "provider:segmentation_id": 7})
	}
	if err == nil {
		_, err = client.CreateSubnet(t.Context(), map[string]any{"network_id": l.net.ID, "ip_version": 4,
			"cidr": "10.0.0.0/24", "project_id": "admin"})
	}
	if err == nil {
		var f compute.Flavor
		f, err = l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64, Disk: 1})
		l.flavor = f.ID
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// policy creates a policy that guarantees egress bandwidth in kilobits per second.
func (l *portsLab) policy(kbps int) string {
	l.t.Helper()
	p, err := l.cloud.NetworkClient().CreatePolicy(l.t.Context(), map[string]any{"name": "p", "project_id": "admin"})
	if err == nil {
		_, err = l.cloud.NetworkClient().CreateRule(l.t.Context(), p.ID, "minimum_bandwidth",
			map[string]any{"min_kbps": kbps, "direction": "egress"})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return p.ID
}

// port creates a port with a policy.
func (l *portsLab) port(policy string) network.Port {
	l.t.Helper()
	p, err := l.cloud.NetworkClient().CreatePort(l.t.Context(), map[string]any{"network_id": l.net.ID,
		"project_id": "admin", "qos_policy_id": policy})
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// create creates a server with these networks and waits for the status.
func (l *portsLab) create(status string, networks any) compute.Server {
	l.t.Helper()
	answer, err := l.compute().REST.Do(l.t.Context(), http.MethodPost, "/v2.1/servers",
		map[string]any{"server": map[string]any{
			"name": "web", "flavorRef": l.flavor, "networks": networks}}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	var made struct{ Server struct{ ID string } }
	if err := json.Unmarshal(answer.Body, &made); err != nil {
		l.t.Fatal(err)
	}
	return l.reach(made.Server.ID, status)
}

// reach waits until a server has a status and no task.
func (l *portsLab) reach(id, status string) (server compute.Server) {
	l.t.Helper()
	l.until("the server is "+status, func() bool {
		var err error
		server, err = l.compute().Server(l.t.Context(), id)
		return err == nil && server.Status == status && server.TaskState == nil
	})
	return server
}

func (l *portsLab) act(id, action, status string, args map[string]any) {
	l.t.Helper()
	if err := l.compute().Act(l.t.Context(), id, action, args); err != nil {
		l.t.Fatalf("%s: %v", action, err)
	}
	l.reach(id, status)
}

// ports returns the ports of a server in the network service.
func (l *portsLab) ports(server string) []network.Port {
	l.t.Helper()
	ports, err := l.cloud.NetworkClient().Ports(l.t.Context(), url.Values{"device_id": {server}})
	if err != nil {
		l.t.Fatal(err)
	}
	return ports
}

// guaranteed returns the egress bandwidth that a consumer has on the bridge.
func (l *portsLab) guaranteed(consumer string) int {
	return l.allocation(consumer)[l.bridge][bandwidth.EgressBandwidth]
}

// check waits until the ports of a server are bound to cmp1 with an allocation of this bandwidth at the bridge.
func (l *portsLab) check(server string, ports, kbps int) {
	l.t.Helper()
	l.until("ports and allocation agree", func() bool {
		list := l.ports(server)
		bound := !slices.ContainsFunc(list, func(p network.Port) bool { return p.Host != "cmp1" || p.VIF != "ovs" })
		groups := 0
		for _, p := range list {
			for _, at := range p.Allocation() {
				if at == string(l.bridge) {
					groups++
				}
			}
		}
		return len(list) == ports && bound && (groups > 0) == (kbps > 0) && l.guaranteed(server) == kbps
	})
}

// TestServerWithNetworkAndPorts creates a server with a network and with a port that has a guarantee, resizes, reverts,
// shelves, unshelves and deletes it. After each step the ports are bound as Placement has it; afterwards the port of
// the user is free, and the created one is deleted.
func TestServerWithNetworkAndPorts(t *testing.T) {
	testenv.Long(t)
	l := newPortsLab(t)
	defer l.down()
	own := l.port(l.policy(4000))
	s := l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID, "fixed_ip": "10.0.0.99"}, {"port": own.ID}})
	l.check(s.ID, 2, 4000)
	if names := slices.Collect(maps.Keys(s.Addresses)); !slices.Equal(names, []string{"lan"}) {
		t.Errorf("addresses %v", s.Addresses)
	}
	for _, p := range l.ports(s.ID) {
		if p.DeviceOwner != "compute:nova" {
			t.Errorf("owner %q", p.DeviceOwner)
		}
	}
	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	l.check(s.ID, 2, 4000)
	l.act(s.ID, "revertResize", "ACTIVE", nil)
	l.check(s.ID, 2, 4000)
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	l.act(s.ID, "confirmResize", "ACTIVE", nil)
	l.check(s.ID, 2, 4000)
	l.act(s.ID, "shelve", "SHELVED_OFFLOADED", nil)
	if len(l.allocation(s.ID)) != 0 {
		t.Errorf("a shelved server holds %v", l.allocation(s.ID))
	}
	for _, p := range l.ports(s.ID) {
		if p.Host != "" || len(p.Allocation()) > 0 {
			t.Errorf("port of a shelved server: %+v", p)
		}
	}
	l.act(s.ID, "unshelve", "ACTIVE", nil)
	l.check(s.ID, 2, 4000)
	l.delete(s.ID)
	l.until("the ports are released", func() bool { return len(l.ports(s.ID)) == 0 })
	p, err := l.cloud.NetworkClient().Port(t.Context(), own.ID)
	if err != nil || p.Device != "" || p.DeviceOwner != "" || p.Host != "" || len(p.Profile) != 0 {
		t.Errorf("the user's port: %+v %v", p, err)
	}
}

// TestServerOfNetworkWithPolicy creates servers in a network whose policy guarantees 4 Mbit/s. The third one does not
// fit on the bridge: it fails with the reason, without ports and allocation.
func TestServerOfNetworkWithPolicy(t *testing.T) {
	testenv.Long(t)
	l := newPortsLab(t)
	defer l.down()
	if _, err := l.cloud.NetworkClient().REST.Do(t.Context(), http.MethodPut, "/v2.0/networks/"+l.net.ID,
		map[string]any{"network": map[string]any{"qos_policy_id": l.policy(4000)}}, nil); err != nil {
		t.Fatal(err)
	}
	list := []map[string]string{{"uuid": l.net.ID}}
	for range 2 {
		l.check(l.create("ACTIVE", list).ID, 1, 4000)
	}
	failed := l.create("ERROR", list)
	if failed.Fault == nil || failed.Fault.Message == "" {
		t.Errorf("fault %+v", failed.Fault)
	}
	l.until("nothing is left of it", func() bool { return len(l.ports(failed.ID))+len(l.allocation(failed.ID)) == 0 })
	l.delete(failed.ID)
}

// TestPortThatCannotBeBound creates a server with a port on a physical network that no agent serves: the server fails
// with the reason, and holds nothing.
func TestPortThatCannotBeBound(t *testing.T) {
	testenv.Long(t)
	l := newPortsLab(t)
	defer l.down()
	client := l.cloud.NetworkClient()
	other, err := client.CreateNetwork(t.Context(), map[string]any{"name": "far", "project_id": "admin",
		"provider:network_type": "vlan", "provider:physical_network": "physnet9", "provider:segmentation_id": 7})
	if err == nil {
		_, err = client.CreateSubnet(t.Context(), map[string]any{"network_id": other.ID, "ip_version": 4,
			"cidr": "10.9.0.0/24", "project_id": "admin"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := l.create("ERROR", []map[string]string{{"uuid": other.ID}})
	if s.Fault == nil || !strings.Contains(s.Fault.Message, "cannot be bound to host cmp1") {
		t.Errorf("fault %+v", s.Fault)
	}
	if n := len(l.ports(s.ID)) + len(l.allocation(s.ID)); n != 0 {
		t.Errorf("%d ports and providers are left", n)
	}
}
