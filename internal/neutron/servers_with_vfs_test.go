//go:build neutron

package neutron

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The agents report the VFs of both NICs of a machine, and no bandwidth, which Neutron reports.
const agentOptions = `report_bandwidth = false
report_network_devices = true
rescan_interval = 5
[pci]
report_in_placement = true
device_spec = {"address":{"domain":".*","bus":"[12]1","slot":".*","function":"[1-4]"},"physical_network":"physnet1"}
`

// interfaces are the PFs of a node and the names of their interfaces. Each has four VFs.
var interfaces = map[string]string{"0000:11:00.0": "ens1", "0000:21:00.0": "ens2"}

// machineWithNICs returns a captured machine whose PFs are network interfaces.
func machineWithNICs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../agent/sysfs/sample.txtar")
	must(t, err)
	return string(text) +
		"\n-- devices/pci0000:10/0000:10:00.0/0000:11:00.0/net/ens1/address --\n00:00:00:00:00:01\n" +
		"-- class/net/ens1/ --\n" +
		"-- devices/pci0000:20/0000:20:00.0/0000:21:00.0/net/ens2/address --\n00:00:00:00:00:02\n" +
		"-- class/net/ens2/ --\n"
}

// agentsOf returns Neutron's agents of a node. Of a guarantee above 5 Mbit/s ens1 has room for one, and ens2 for none.
func agentsOf(node string) []bandwidth.Agent {
	both := func(kbps int) bandwidth.Rates {
		rate := bandwidth.Rate{Set: true, Amount: kbps}
		return bandwidth.Rates{Egress: rate, Ingress: rate}
	}
	ovs := bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: node,
		Mappings:   []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}},
		Bandwidths: map[string]bandwidth.Rates{"br-ex": both(10000)}}
	nic := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: node,
		Mappings:   []bandwidth.Mapping{{Physnet: "physnet1", Device: "ens1"}, {Physnet: "physnet1", Device: "ens2"}},
		Bandwidths: map[string]bandwidth.Rates{"ens1": both(10000), "ens2": both(3000)}}
	list := []bandwidth.Agent{ovs, nic}
	for i, prohibited := range [][]string{{"direct"}, nil} {
		list[i].Defaults, list[i].PacketDefaults = bandwidth.BuiltInDefaults(), bandwidth.BuiltInDefaults()
		list[i].VNICTypes, _ = bandwidth.ParseVNICTypes(list[i].Type, prohibited)
	}
	return list
}

// nicOf returns the provider of the bandwidth of an interface.
func nicOf(node, name string) provider.ID {
	return bandwidth.Name{Hypervisor: node, Agent: bandwidth.NICSwitch, Device: name}.ID()
}

// tree returns the providers of a node.
func (c *serverCloud) tree(t *testing.T, node string) (provider.Tree, error) {
	t.Helper()
	root, err := c.placement.ProviderByName(t.Context(), node)
	if err != nil {
		return provider.Tree{}, err
	}
	return c.placement.Tree(t.Context(), root.ID)
}

// reported waits until Placement has the bandwidth of a node as Neutron reports it, and the VFs of each interface below
// its bandwidth.
func (c *serverCloud) reported(t *testing.T, node string) {
	t.Helper()
	testenv.Until(t, "bandwidth and VFs of "+node+" are in Placement", func() error {
		tree, err := c.tree(t, node)
		if err != nil {
			return err
		}
		root, _ := tree.ByName(node)
		for _, a := range agentsOf(node) {
			for _, d := range a.Providers() {
				got, _ := tree.ByID(d.Provider.ID)
				if err := compare(got, d.Provider, root.ID); err != nil {
					return err
				}
			}
		}
		for pf, name := range interfaces {
			p, _ := tree.ByName(node + "_" + pf)
			if p.Parent != nicOf(node, name) || p.Inventories[pci.PortVF].Total != 4 {
				return fmt.Errorf("the VFs of %s: %+v", name, p)
			}
		}
		return nil
	})
}

// vf is a port of a server, and its guarantee.
type vf struct {
	port string
	kbps int
}

// vfPort creates a port with a VF and a guarantee in kilobits per second.
func (c *serverCloud) vfPort(t *testing.T, net string, kbps int) vf {
	t.Helper()
	policy := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": kbps})
	p, err := c.network.CreatePort(t.Context(), map[string]any{"network_id": net, "qos_policy_id": policy,
		"binding:vnic_type": "direct"})
	must(t, err)
	return vf{p.ID, kbps}
}

// agree waits until Neutron, Placement, compute, the agent and the guest agree about the ports of a server, and returns
// its host.
func (c *serverCloud) agree(t *testing.T, server string, ports ...vf) (node string) {
	t.Helper()
	testenv.Until(t, "port, allocation, server and guest agree", func() (err error) {
		node, err = c.compareServer(t, server, ports)
		return err
	})
	return node
}

// compareServer returns the host of a server, and an error unless all agree about its ports.
func (c *serverCloud) compareServer(t *testing.T, server string, ports []vf) (node string, err error) {
	t.Helper()
	s, err := c.api.Server(t.Context(), server)
	if err != nil || s.Host == nil || s.TaskState != nil {
		return "", errors.Join(err, errors.New("the server has no host or a task"))
	}
	node = *s.Host
	tree, err := c.tree(t, node)
	if err != nil {
		return "", err
	}
	want, addresses := resource.Allocation{}, map[string]string{}
	for _, own := range ports {
		if addresses[own.port], err = c.compareVF(t, server, node, tree, own, want); err != nil {
			return "", err
		}
	}
	held, err := c.placement.Allocation(t.Context(), resource.ConsumerID(server))
	if err != nil {
		return "", err
	}
	root, _ := tree.ByName(node)
	delete(held.Allocation, root.ID) // CPUs and memory
	if !reflect.DeepEqual(held.Allocation, want) {
		return "", fmt.Errorf("the server has %v in Placement, want %v", held.Allocation, want)
	}
	return node, errors.Join(c.compareGuest(node, server, addresses), c.compareCompute(t, server, addresses))
}

// compareVF returns the VF of a port that Neutron has bound to a node, and adds its amounts to those of the server.
func (c *serverCloud) compareVF(t *testing.T, server, node string, tree provider.Tree, own vf,
	amounts resource.Allocation) (address string, err error) {
	t.Helper()
	p, err := c.network.Port(t.Context(), own.port)
	if err != nil {
		return "", err
	}
	bindings, err := c.network.PortBindings(t.Context(), own.port)
	if err != nil {
		return "", err
	}
	address, _ = p.Profile["pci_slot"].(string)
	pf := strings.TrimRight(address, "1234") + "0"
	nic := nicOf(node, interfaces[pf])
	if p.VIF != "hw_veb" || p.Host != node || p.Device != server || len(p.Allocation()) != 1 || !provides(p, nic) ||
		len(bindings) != 1 || bindings[0].Host != node {
		return "", fmt.Errorf("the port of a server on %s: %+v, bindings %+v", node, p, bindings)
	}
	device, _ := tree.ByName(node + "_" + pf)
	for id, add := range map[provider.ID]resource.Amounts{nic: {bandwidth.EgressBandwidth: own.kbps},
		device.ID: {pci.PortVF: 1}} {
		if amounts[id] == nil {
			amounts[id] = resource.Amounts{}
		}
		for class, amount := range add {
			amounts[id][class] += amount
		}
	}
	return address, nil
}

// compareGuest returns an error unless the guest of a server has these VFs by port.
func (c *serverCloud) compareGuest(node, server string, want map[string]string) error {
	text, err := os.ReadFile(filepath.Join(c.dir, node, "data", "agent", "guests", server+".json"))
	if err != nil {
		return err
	}
	var guest struct {
		Interfaces []struct {
			Port   string `json:"port_id"`
			Device string
		}
	}
	if err := json.Unmarshal(text, &guest); err != nil {
		return err
	}
	got := map[string]string{}
	for _, i := range guest.Interfaces {
		got[i.Port] = i.Device
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the guest has %v, want %v", got, want)
	}
	return nil
}

// compareCompute returns an error unless compute has these VFs of a server by port.
func (c *serverCloud) compareCompute(t *testing.T, server string, want map[string]string) error {
	t.Helper()
	list, err := c.api.Interfaces(t.Context(), server)
	if err != nil {
		return err
	}
	for _, i := range list {
		if want[i.Port] == "" {
			return fmt.Errorf("the server still has the port %s", i.Port)
		}
	}
	devices, err := c.hosts.Devices(t.Context())
	if err != nil {
		return err
	}
	var held, addresses []string
	for _, d := range devices {
		if d.Holder == server {
			held = append(held, d.Address)
		}
	}
	for _, address := range want {
		addresses = append(addresses, address)
	}
	slices.Sort(held)
	slices.Sort(addresses)
	if len(list) != len(want) || !slices.Equal(held, addresses) {
		return fmt.Errorf("the server has %d ports and the devices %v, want %v", len(list), held, want)
	}
	return nil
}

// used waits until both nodes together have this usage of egress bandwidth and of VFs in Placement, and guests have the
// same number of VFs.
func (c *serverCloud) used(t *testing.T, kbps, vfs int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("%d kbit/s and %d VFs are used", kbps, vfs), func() error {
		sum, held := resource.Amounts{}, 0
		for _, node := range nodes {
			tree, err := c.tree(t, node)
			if err != nil {
				return err
			}
			for _, p := range tree.Providers {
				amounts, err := c.placement.Usages(t.Context(), p.ID)
				if err != nil {
					return err
				}
				for class, amount := range amounts {
					sum[class] += amount
				}
			}
		}
		devices, err := c.hosts.Devices(t.Context())
		if err != nil {
			return err
		}
		for _, d := range devices {
			if d.Holder != "" {
				held++
			}
		}
		if sum[bandwidth.EgressBandwidth] != kbps || sum[pci.PortVF] != vfs || held != vfs {
			return fmt.Errorf("allocated: %v, VFs of guests: %d", sum, held)
		}
		return nil
	})
}

// guaranteedVFs creates servers with ports of vnic type direct that have guarantees, until one does not fit, and
// changes and moves a server. The VFs are reported by Berth's agents below the bandwidth that Neutron reports. After
// each step all agree about port, allocation and guest, and nothing else is used.
func (c *serverCloud) guaranteedVFs(t *testing.T) {
	net := c.vlan(t, "physnet1", "10.3.0.0/24").ID
	own := c.vfPort(t, net, 6000)
	server := c.create(t, own.port)
	c.reach(t, server, "ACTIVE")
	c.agree(t, server, own)
	c.used(t, 6000, 1)
	for _, part := range []struct {
		name string
		run  func(t *testing.T, net, server string, own vf)
	}{{"until none fits", c.untilFull}, {"attach and detach", c.attachAndDetach}, {"policy", c.policyOfVF},
		{"resize", c.resize}, {"shelve", c.shelve}, {"live migration", c.migrateLive}, {"deletion", c.deletion}} {
		t.Run(part.name, func(t *testing.T) { part.run(t, net, server, own) })
		if part.name == "policy" {
			own.kbps = 7000
		}
	}
	for _, node := range nodes {
		c.reported(t, node)
	}
}

// untilFull creates a second server on the other node, and a third one that does not fit.
func (c *serverCloud) untilFull(t *testing.T, net, first string, own vf) {
	second, third := c.vfPort(t, net, 6000), c.vfPort(t, net, 6000)
	other := c.create(t, second.port)
	c.reach(t, other, "ACTIVE")
	if a, b := c.agree(t, first, own), c.agree(t, other, second); a == b {
		t.Errorf("both servers are on %s", a)
	}
	refused := c.create(t, third.port)
	if s := c.reach(t, refused, "ERROR"); s.Fault == nil ||
		!strings.Contains(s.Fault.Message, string(bandwidth.EgressBandwidth)) {
		t.Errorf("fault %+v", s.Fault)
	}
	c.used(t, 12000, 2)
	for _, id := range []string{refused, other} {
		must(t, c.api.DeleteServer(t.Context(), id))
	}
	c.free(t, second.port)
	c.free(t, third.port)
	c.used(t, 6000, 1)
	c.agree(t, first, own)
}

// attachAndDetach attaches a second port to a server, refuses one that does not fit, and detaches the second port.
func (c *serverCloud) attachAndDetach(t *testing.T, net, server string, own vf) {
	second, large := c.vfPort(t, net, 2000), c.vfPort(t, net, 6000)
	c.attach(t, server, second)
	c.agree(t, server, own, second)
	c.used(t, 8000, 2)
	_, err := c.api.AttachInterface(t.Context(), server, compute.AttachInterface{Port: large.port})
	if err == nil || !strings.Contains(err.Error(), string(bandwidth.EgressBandwidth)) {
		t.Errorf("a port that does not fit: %v", err)
	}
	c.free(t, large.port)
	c.agree(t, server, own, second)
	must(t, c.api.DetachInterface(t.Context(), server, second.port))
	c.free(t, second.port)
	c.agree(t, server, own)
	c.used(t, 6000, 1)
}

// attach attaches a port to a server. The service answers 503 when it has not finished in time, and continues.
func (c *serverCloud) attach(t *testing.T, server string, port vf) {
	t.Helper()
	_, err := c.api.AttachInterface(t.Context(), server, compute.AttachInterface{Port: port.port})
	if err != nil && !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
}

// policyOfVF gives a bound port a larger guarantee, which Neutron allocates. One that the NIC does not have is refused.
func (c *serverCloud) policyOfVF(t *testing.T, _, server string, own vf) {
	for _, kbps := range []int{7000, 11000} {
		policy := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": kbps})
		_, err := c.network.UpdatePort(t.Context(), own.port, map[string]any{"qos_policy_id": policy})
		if (err == nil) != (kbps == 7000) {
			t.Errorf("a guarantee of %d: %v", kbps, err)
		}
	}
	own.kbps = 7000
	c.agree(t, server, own)
	c.used(t, own.kbps, 1)
}

// resize resizes a server to the other node, reverts that, and resizes it again.
func (c *serverCloud) resize(t *testing.T, _, server string, own vf) {
	first := c.agree(t, server, own)
	for _, end := range []string{"revertResize", "confirmResize"} {
		c.act(t, server, "resize", map[string]any{"flavorRef": c.flavors[1]}, "VERIFY_RESIZE")
		if now := c.agree(t, server, own); now == first {
			t.Errorf("the server is still on %s", now)
		}
		c.used(t, 2*own.kbps, 2)
		c.act(t, server, end, nil, "ACTIVE")
		if now := c.agree(t, server, own); (now == first) != (end == "revertResize") {
			t.Errorf("after %s the server is on %s, before on %s", end, now, first)
		}
		c.used(t, own.kbps, 1)
	}
}

// shelve shelves a server, which frees everything, and unshelves it.
func (c *serverCloud) shelve(t *testing.T, _, server string, own vf) {
	c.act(t, server, "shelve", nil, "SHELVED_OFFLOADED")
	p, err := c.network.Port(t.Context(), own.port)
	if err != nil || p.Device != server || p.Host != "" || len(p.Profile) > 0 {
		t.Errorf("the port of a shelved server: %+v %v", p, err)
	}
	c.used(t, 0, 0)
	c.act(t, server, "unshelve", nil, "ACTIVE")
	c.agree(t, server, own)
	c.used(t, own.kbps, 1)
}

// migrateLive migrates a server live, there and back. Until it is there, Neutron has a second binding.
func (c *serverCloud) migrateLive(t *testing.T, _, server string, own vf) {
	for range 2 {
		was := c.agree(t, server, own)
		must(t, c.api.Act(t.Context(), server, "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"}))
		testenv.Until(t, "the server has left "+was, func() error {
			s, err := c.api.Server(t.Context(), server)
			if err == nil && (s.Host == nil || *s.Host == was || s.Status != "ACTIVE" || s.TaskState != nil) {
				err = fmt.Errorf("it is %s on %v", s.Status, s.Host)
			}
			return err
		})
		if now := c.agree(t, server, own); now == was {
			t.Errorf("the server is on %s again", was)
		}
		c.used(t, own.kbps, 1)
	}
}

// deletion deletes a bound port of a running server, of which Neutron reports that to compute, and then the server with
// another bound port.
func (c *serverCloud) deletion(t *testing.T, net, server string, own vf) {
	other := c.vfPort(t, net, 2000)
	c.attach(t, server, other)
	c.agree(t, server, own, other)
	must(t, c.network.DeletePort(t.Context(), own.port))
	c.agree(t, server, other)
	c.used(t, 2000, 1)
	must(t, c.api.DeleteServer(t.Context(), server))
	c.free(t, other.port)
	c.used(t, 0, 0)
}
