package app

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
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
	return newPortsLabOn(t, "", conf, faulty)
}

// newPortsLabOn is newPortsLabWith on the sample machine with more entries.
func newPortsLabOn(t *testing.T, machine, conf string, faulty *faultyNetwork) *portsLab {
	t.Helper()
	l := &portsLab{lab: newLab(t)}
	l.machine = machine
	faulty.lab = l
	l.up(portsConf + conf)
	l.bridge = bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
	l.until("the bridge is reported", func() bool {
		inv, err := l.cloud.PlacementClient().Inventories(t.Context(), l.bridge)
		return err == nil && inv.Inventories[bandwidth.EgressBandwidth].Total == 10000
	})
	l.root = l.provider("cmp1").ID
	client := l.cloud.NetworkClient()
	if strings.Contains(conf, "[SRIOV_NIC]") {
		l.until("the SR-IOV agent is reported", func() bool {
			agents, err := client.Agents(t.Context(), map[string][]string{"host": {"cmp1"},
				"agent_type": {string(bandwidth.NICSwitch)}})
			return err == nil && len(agents) > 0
		})
	}
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

// changesPort reports whether a port of a server is being attached or detached; then other actions are refused.
func (l *lab) changesPort(server string) bool {
	why, err := l.compute().Why(l.t.Context(), server)
	return err == nil && why.PortChange != "" // a deleted server has no ports
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
		return len(list) == ports && bound && (groups > 0) == (kbps > 0) && l.guaranteed(server) == kbps &&
			!l.changesPort(server)
	})
}

// TestServerWithNetworkAndPorts creates a server with a network and with a port that has a guarantee, resizes, reverts,
// shelves, unshelves and deletes it. After each step the ports are bound as Placement has it; afterwards the port of
// the user is free, and the created one is deleted.
func TestServerWithNetworkAndPorts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
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
	if _, err := l.attach(s.ID, map[string]any{"net_id": l.net.ID, "fixed_ips": []map[string]string{
		{"ip_address": "10.0.0.99"}}}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "already in use") {
		t.Errorf("an address that is in use: %v", err)
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

// TestServerOfNetworkWithPolicy creates servers in a network whose policy guarantees 4 Mbit/s. One of two ports is
// detached, which compute deletes: the other one keeps its guarantee. A third server does not fit on the bridge: it
// fails with the reason, without ports and allocation.
func TestServerOfNetworkWithPolicy(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLab(t)
	defer l.down()
	if _, err := l.cloud.NetworkClient().REST.Do(t.Context(), http.MethodPut, "/v2.0/networks/"+l.net.ID,
		map[string]any{"network": map[string]any{"qos_policy_id": l.policy(4000)}}, nil); err != nil {
		t.Fatal(err)
	}
	list := []map[string]string{{"uuid": l.net.ID}}
	two := l.create("ACTIVE", append(list, list...))
	l.check(two.ID, 2, 8000)
	l.detach(two.ID, l.ports(two.ID)[0].ID)
	l.check(two.ID, 1, 4000)
	l.delete(two.ID)
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
	t.Parallel()
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

// TestBaremetalPortIsRefused requests a port that no server can have: the request fails with the reason, when a server
// is created and when the port is attached, and the port stays unused.
func TestBaremetalPortIsRefused(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLab(t)
	defer l.down()
	const why = "which no server of Berth can have"
	s := l.create("ACTIVE", "none")
	p, err := l.cloud.NetworkClient().CreatePort(t.Context(), map[string]any{"network_id": l.net.ID,
		"project_id": "admin", "binding:vnic_type": "baremetal"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.compute().CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: l.flavor,
		Networks: compute.Networks{List: []compute.NetworkRequest{{Port: p.ID}}}})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), why) {
		t.Errorf("create: %v", err)
	}
	if _, err = l.attach(s.ID, map[string]any{"port_id": p.ID}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("attach: %v", err)
	}
	if p, err = l.cloud.NetworkClient().Port(t.Context(), p.ID); err != nil || p.Device != "" || p.Host != "" {
		t.Errorf("%+v %v", p, err)
	}
}

// attach attaches a port or a network to a server, and returns its port.
func (l *portsLab) attach(server string, body map[string]any) (port string, err error) {
	l.t.Helper()
	answer, err := l.compute().REST.Do(l.t.Context(), http.MethodPost, "/v2.1/servers/"+server+"/os-interface",
		map[string]any{"interfaceAttachment": body}, nil)
	if err != nil {
		return "", err
	}
	var made struct{ InterfaceAttachment compute.Interface }
	if err := json.Unmarshal(answer.Body, &made); err != nil {
		l.t.Fatal(err)
	}
	return made.InterfaceAttachment.Port, nil
}

// detach detaches a port of a server.
func (l *portsLab) detach(server, port string) {
	l.t.Helper()
	if _, err := l.compute().REST.Do(l.t.Context(), http.MethodDelete, "/v2.1/servers/"+server+"/os-interface/"+port, nil,
		nil); err != nil {
		l.t.Fatal(err)
	}
}

// interfaces returns the ports of the interfaces that the hypervisor has stored for a guest.
func (l *portsLab) interfaces(server string) (ports []string) {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.dir, "*", "*", "*"+server+"*"))
	if err != nil {
		l.t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(l.dir, "*", "*"+server+"*"))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, name := range append(files, more...) {
		var guest struct {
			Interfaces []struct {
				Port string `json:"port_id"`
			} `json:"interfaces"`
		}
		if data, err := os.ReadFile(name); err == nil && json.Unmarshal(data, &guest) == nil {
			for _, i := range guest.Interfaces {
				ports = append(ports, i.Port)
			}
		}
	}
	return ports
}

// TestPortsAreAttachedAndDetached attaches ports with a guarantee, a port of a network, and one that does not fit, to
// a running server, and detaches them. Placement has the sum of the guarantees each time.
func TestPortsAreAttachedAndDetached(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLab(t)
	defer l.down()
	policy := l.policy(4000)
	first, second, third := l.port(policy), l.port(policy), l.port(policy)
	s := l.create("ACTIVE", "none")
	for i, p := range []network.Port{first, second} {
		if port, err := l.attach(s.ID, map[string]any{"port_id": p.ID}); err != nil || port != p.ID {
			t.Fatalf("%s: %v", port, err)
		}
		l.check(s.ID, i+1, (i+1)*4000)
	}
	l.until("the guest has both interfaces", func() bool {
		return slices.Equal(l.interfaces(s.ID), []string{first.ID, second.ID})
	})
	if port, err := l.attach(s.ID, map[string]any{"port_id": third.ID}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "no room") {
		t.Errorf("a third port on a bridge with room for two: %s %v", port, err)
	}
	p, err := l.cloud.NetworkClient().Port(t.Context(), third.ID)
	if err != nil || p.Device != "" || p.Host != "" {
		t.Errorf("the refused port: %+v %v", p, err)
	}
	l.check(s.ID, 2, 8000)
	l.detach(s.ID, first.ID)
	l.check(s.ID, 1, 4000)
	plain, err := l.attach(s.ID, map[string]any{"net_id": l.net.ID})
	if err != nil {
		t.Fatal(err)
	}
	l.check(s.ID, 2, 4000)
	l.detach(s.ID, plain)
	l.check(s.ID, 1, 4000)
	if _, err := l.cloud.NetworkClient().Port(t.Context(), plain); !fault.Is(err, fault.NotFound) {
		t.Errorf("the port that compute has created: %v", err)
	}
	l.until("the guest has one interface", func() bool { return slices.Equal(l.interfaces(s.ID), []string{second.ID}) })
	l.delete(s.ID)
	l.until("no port is left", func() bool { return len(l.ports(s.ID)) == 0 })
}
