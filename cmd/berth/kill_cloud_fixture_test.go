package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// killCloud is a cloud of processes on two hosts whose requests pass a gate. Each host has 10 Mbit/s at a bridge on
// physnet0, and as much at a PF with four VFs on physnet1.
type killCloud struct {
	*portFleet
	gate   *requestGate
	links  map[string]string // URLs of links
	bridge string            // id of a network on physnet0
	user   *api.Client       // of the network service, through the gate
	server string            // id of the server of the test

	// clients for requests that run while a process is started again, at the same address
	ofCompute *compute.Client
	ofNetwork *api.Client

	database *databases.Server // of the network service; nil: SQLite

	arm    func(n int, after bool) // kills at the n-th request from now on
	disarm func()
	fired  string // the process that was killed in this operation
}

// newKillCloud starts the processes. The network service uses the database at the URL; "": SQLite.
func newKillCloud(t *testing.T, database string) *killCloud {
	t.Helper()
	f := &portFleet{fleet: &fleet{t: t, dir: testenv.MemoryDir(t), agents: map[string]*daemon{}},
		files: map[string]string{}}
	c := &killCloud{portFleet: f, gate: newRequestGate(), links: map[string]string{}}
	f.placement = start(t, []string{"placement"}, "placement", "--config-file", f.file("placement", ""), "--data-dir",
		f.path("placement"), "--listen", "127.0.0.1:0")
	conf := ""
	if database != "" {
		conf = "[network_database]\nconnection = " + database + "\n"
	}
	f.file("network", conf)
	placement := f.placement.urls["placement"]
	c.links["network placement"] = c.gate.link(t, "network", "placement", placement)
	c.startProcess("network")
	network := f.network.urls["network"]
	f.file("compute", "[neutron]\nendpoint_override = "+c.gate.link(t, "compute", "network", network)+"\n")
	c.links["compute placement"] = c.gate.link(t, "compute", "placement", placement)
	c.startProcess("compute")
	c.user = api.NewClient(c.gate.link(t, "user", "network", network), nil, "admin")
	for _, name := range []string{"cmp1", "cmp2"} {
		files := neutron{t, t.TempDir()}
		files.write("bridge_mappings = physnet0:br-ex\nresource_provider_bandwidths = br-ex:10000:10000\n",
			"physical_device_mappings = physnet1:ens3\nresource_provider_bandwidths = ens3:10000:10000\n")
		f.file(name, "[DEFAULT]\nhost = "+name+"\ncompute_driver = fake.FakeDriver\n"+
			"[oslo_concurrency]\nlock_path = "+f.path("locks")+
			"\n[berth]\nsysfs = "+nics(t)+"\n"+files.option()+"report_network_devices = true\n[neutron]\n"+
			"endpoint_override = "+c.gate.link(t, name, "network", network)+"\n"+
			"[pci]\nreport_in_placement = true\ndevice_spec = {\"address\": {\"domain\": \".*\", \"bus\": \"81\", "+
			"\"slot\": \"03\", \"function\": \"[1-4]\"}, \"physical_network\": \"physnet1\"}\n")
		c.links[name+" placement"] = c.gate.link(t, name, "placement", placement)
		c.links[name+" compute"] = c.gate.link(t, name, "compute", f.compute.urls["compute"])
		c.startProcess(name)
	}
	testenv.Until(t, "the agents have reported bandwidth and devices", func() (bool, error) {
		agents, err := f.network.network().Agents(t.Context(), nil)
		synced := !slices.ContainsFunc(agents, func(a api.Agent) bool { return a.Synced == nil || !*a.Synced })
		p1, _ := f.tree("cmp1").ByName("cmp1_0000:81:03.0")
		p2, _ := f.tree("cmp2").ByName("cmp2_0000:81:03.0")
		return len(agents) == 4 && synced && p1.Inventories[pci.PortVF].Total+p2.Inventories[pci.PortVF].Total == 8,
			fmt.Errorf("%+v %v", agents, err)
	})
	c.net, c.bridge = c.newNetwork("physnet1", "10.1.0.0/24"), c.newNetwork("physnet0", "10.0.0.0/24")
	c.ofCompute, c.ofNetwork = c.compute.compute(), c.network.network()
	return c
}

// startProcess starts a process, or starts it again at the same address after it was killed.
func (c *killCloud) startProcess(name string) {
	c.t.Helper()
	args := []string{"--config-file", c.path(name + ".conf"), "--data-dir", c.path(name), "--placement-url",
		c.links[name+" placement"]}
	service := func(old *daemon) *daemon {
		listen := "127.0.0.1:0"
		if old != nil {
			listen = strings.TrimPrefix(old.urls[name], "http://")
		}
		return start(c.t, []string{name}, append([]string{name, "--listen", listen}, args...)...)
	}
	switch name {
	case "network":
		c.network = service(c.network)
	case "compute":
		c.compute = service(c.compute)
	default:
		c.agents[name] = start(c.t, nil, append([]string{"agent", "--compute-url", c.links[name+" compute"]}, args...)...)
	}
}

// killProcess kills a process and starts it again.
func (c *killCloud) killProcess(name string) {
	c.t.Helper()
	switch name {
	case "database":
		c.database.Kill(c.t)
		c.database.Restart(c.t)
		return
	case "network":
		c.network.kill()
	case "compute":
		c.compute.kill()
	default:
		c.agents[name].kill()
	}
	c.startProcess(name)
}

// newNetwork creates a network with a subnet on a physical network.
func (c *killCloud) newNetwork(physical, cidr string) (id string) {
	c.t.Helper()
	client, ctx := c.network.network(), c.t.Context()
	n, err := client.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan", "project_id": "admin",
		"provider:physical_network": physical, "provider:segmentation_id": 8})
	must(c.t, err)
	_, err = client.CreateSubnet(ctx, map[string]any{"network_id": n.ID, "ip_version": 4, "cidr": cidr,
		"project_id": "admin"})
	must(c.t, err)
	return n.ID
}

// policy creates a policy with a guarantee in kilobits per second.
func (c *killCloud) policy(kbps int) (id string) {
	c.t.Helper()
	p, err := c.network.network().CreatePolicy(c.t.Context(), map[string]any{"name": "p", "project_id": "admin"})
	must(c.t, err)
	_, err = c.network.network().CreateRule(c.t.Context(), p.ID, "minimum_bandwidth", map[string]any{"min_kbps": kbps})
	must(c.t, err)
	return p.ID
}

// portOn creates a port with a guarantee in a network.
func (c *killCloud) portOn(network, vnic string, kbps int) api.Port {
	c.t.Helper()
	p, err := c.network.network().CreatePort(c.t.Context(), map[string]any{"network_id": network, "project_id": "admin",
		"binding:vnic_type": vnic, "qos_policy_id": c.policy(kbps)})
	must(c.t, err)
	return p
}

// repeat makes a request until it succeeds, as a user does whose request was not answered. A request that fails
// although no process was killed is an error, unless compute still records the end of a change of ports: ports and
// guest agree before that.
func (c *killCloud) repeat(what string, request func() error) {
	c.t.Helper()
	testenv.Until(c.t, what+" is accepted", func() (bool, error) {
		done := make(chan error, 1)
		go func() { done <- request() }()
		for {
			select {
			case s := <-c.gate.reached:
				c.kill(s)
			case err := <-done:
				recording := err != nil && strings.Contains(err.Error(), "while its ports are being changed")
				if err != nil && c.fired == "" && !recording {
					c.t.Fatalf("%s fails without a kill: %v", what, err)
				}
				return err == nil, err
			}
		}
	})
}

// kill kills the process of a stopped request and starts it again.
func (c *killCloud) kill(s stopped) {
	c.t.Helper()
	c.fired = s.victim
	c.killProcess(s.victim)
	close(s.resume)
}

// agree waits until the server has the status, and exactly these ports with these guarantees: in the network service,
// in its allocation, and in the guest on its host. Nothing else is allocated for ports.
func (c *killCloud) agree(what, status string, want map[string]int) {
	c.t.Helper()
	testenv.Until(c.t, fmt.Sprintf("after %s and a kill of %s ports, allocation and guest agree", what, c.fired),
		func() (bool, error) {
			select {
			case s := <-c.gate.reached:
				c.kill(s)
			default:
			}
			if status != "" {
				if err := c.serverDiffers(status, want); err != nil {
					return false, err
				}
			}
			err := c.totalDiffers(status, want)
			return err == nil, err
		})
}

// serverDiffers returns how the server, its ports, its allocation or its guest differ from what they must be.
func (c *killCloud) serverDiffers(status string, want map[string]int) error {
	s, err := c.compute.compute().Server(c.t.Context(), c.server)
	if err != nil {
		return err
	}
	if s.Status != status || s.TaskState != nil || s.Place == nil || s.Host == nil {
		return fmt.Errorf("the server is %s: %+v", s.Status, s.Fault)
	}
	ports, err := c.network.network().Ports(c.t.Context(), url.Values{"device_id": {c.server}})
	if err != nil {
		return err
	}
	has, err := c.placement.placement().Allocation(c.t.Context(), resource.ConsumerID(c.server))
	if err != nil {
		return err
	}
	expected, allocated := map[string]int{}, map[string]int{}
	var interfaces []string
	for _, p := range ports {
		if p.Host != *s.Host || !slices.Contains([]string{"ovs", "hw_veb"}, p.VIF) || len(p.Allocation()) == 0 {
			return fmt.Errorf("port %+v of a server on %s", p, *s.Host)
		}
		for _, provider := range p.Allocation() {
			expected[provider] += want[p.ID]
		}
		vf, _ := p.Profile["pci_slot"].(string)
		if held := c.held(*s.Host, c.server); vf != "" && held != vf {
			return fmt.Errorf("the port has VF %s, the server %s", vf, held)
		}
		interfaces = append(interfaces, strings.TrimSpace(p.ID+" "+vf))
	}
	for id, amounts := range has.Allocation {
		if kbps := amounts[bandwidth.EgressBandwidth]; kbps > 0 {
			allocated[string(id)] = kbps
		} else if amounts[pci.PortVF] > 0 {
			expected[string(id)], allocated[string(id)] = 0, 0
		}
	}
	if len(ports) != len(want) || !maps.Equal(expected, allocated) {
		return fmt.Errorf("%d ports with %v, the allocation has %v", len(ports), expected, allocated)
	}
	slices.Sort(interfaces)
	if guest, err := c.guestInterfaces(*s.Host); err != nil || !slices.Equal(guest, interfaces) {
		return fmt.Errorf("the guest has %v, the server %v: %w", guest, interfaces, err)
	}
	return nil
}

// guestInterfaces returns the ports and the VFs of the server's guest on a host, sorted.
func (c *killCloud) guestInterfaces(host string) (all []string, err error) {
	var guest struct {
		Interfaces []struct {
			Port   string `json:"port_id"`
			Device string
		}
	}
	text, err := os.ReadFile(filepath.Join(c.path(host), "agent", "guests", c.server+".json"))
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &guest)
	for _, i := range guest.Interfaces {
		all = append(all, strings.TrimSpace(i.Port+" "+i.Device))
	}
	slices.Sort(all)
	return all, err
}

// totalDiffers returns how the amounts that are allocated of all hosts differ from those of the ports. While a move is
// not confirmed, source and destination have them.
func (c *killCloud) totalDiffers(status string, want map[string]int) error {
	kbps, vfs := 0, 0
	for _, amount := range want {
		kbps += amount
	}
	if status != "" {
		vfs = 1
	}
	if status == "VERIFY_RESIZE" {
		kbps, vfs = 2*kbps, 2*vfs
	}
	for _, host := range []string{"cmp1", "cmp2"} {
		for _, p := range c.tree(host).Providers {
			used, err := c.placement.placement().Usages(c.t.Context(), p.ID)
			if err != nil {
				return err
			}
			kbps, vfs = kbps-used[bandwidth.EgressBandwidth], vfs-used[pci.PortVF]
		}
	}
	if kbps != 0 || vfs != 0 {
		return fmt.Errorf("%d kbit/s and %d VFs of %s more must be allocated for ports", kbps, vfs, c.server)
	}
	return nil
}

// deleteServer requests the deletion of the server, unless it is deleted.
func (c *killCloud) deleteServer() error {
	if err := c.ofCompute.DeleteServer(c.t.Context(), c.server); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}
