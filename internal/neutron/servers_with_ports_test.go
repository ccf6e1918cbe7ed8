//go:build neutron

package neutron

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	hostapi "github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/clienttest"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// nodes are the hosts of Berth's agents.
var nodes = [2]string{"node1", "node2"}

// serverCloud is a cloud with Berth's compute, and an agent for each node. Neutron reports the bandwidth of the nodes.
type serverCloud struct {
	*cloud
	api     *compute.Client
	hosts   hostapi.Client
	flavors [2]string // ids
	dir     string    // the data of the agent of a node is in dir/node/data
}

// servers runs the tests of servers with ports.
func (c *cloud) servers(t *testing.T) {
	s := c.startCompute(t)
	t.Run("guaranteed port", s.guaranteedPort)
	t.Run("guaranteed VFs", s.guaranteedVFs)
	t.Run("security groups", s.securityGroups)
}

// guaranteedPort creates a server with a port that has a guarantee by Berth's compute, changes the policy of the port,
// migrates the server and deletes it. The bandwidth is reported by Neutron, and the port is bound by it.
func (c *serverCloud) guaranteedPort(t *testing.T) {
	ctx := t.Context()
	n := c.vlan(t, "physnet0", "10.2.0.0/24")
	small := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": 3000})
	large := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": 4000})
	port, err := c.network.CreatePort(ctx, map[string]any{"network_id": n.ID, "qos_policy_id": small})
	must(t, err)
	id := c.create(t, port.ID)
	c.reach(t, id, "ACTIVE")
	first := c.bound(t, id, port.ID, 3000)
	_, err = c.network.UpdatePort(ctx, port.ID, map[string]any{"qos_policy_id": large})
	must(t, err)
	c.bound(t, id, port.ID, 4000)
	c.act(t, id, "migrate", nil, "VERIFY_RESIZE")
	second := c.bound(t, id, port.ID, 4000)
	if first == second {
		t.Errorf("the server is still on %s", first)
	}
	c.act(t, id, "confirmResize", nil, "ACTIVE")
	c.bound(t, id, port.ID, 4000)
	c.unused(t, first)
	must(t, c.api.DeleteServer(ctx, id))
	c.free(t, port.ID)
	c.unused(t, second)
}

// securityGroups creates a server with a security group of Neutron, and adds and removes another one.
func (c *serverCloud) securityGroups(t *testing.T) {
	ctx := t.Context()
	n := c.vlan(t, "physnet0", "10.9.0.0/24")
	for _, name := range []string{"web", "db"} {
		_, err := c.network.REST.Do(ctx, http.MethodPost, "/v2.0/security-groups",
			map[string]any{"security_group": map[string]string{"name": name}}, nil)
		must(t, err)
	}
	var made struct{ Server struct{ ID string } }
	_, err := c.api.REST.Do(ctx, http.MethodPost, "/v2.1/servers", map[string]any{"server": map[string]any{
		"name": "grouped", "flavorRef": c.flavors[0], "imageRef": "", "networks": []map[string]string{{"uuid": n.ID}},
		"security_groups": []map[string]string{{"name": "web"}}}}, &made)
	must(t, err)
	id := made.Server.ID
	c.reach(t, id, "ACTIVE")
	for _, step := range []struct{ action, group, want string }{
		{"", "", "[{web}]"}, {"addSecurityGroup", "db", "[{db} {web}]"}, {"removeSecurityGroup", "web", "[{db}]"}} {
		if step.action != "" {
			_, err := c.api.REST.Do(ctx, http.MethodPost, "/v2.1/servers/"+id+"/action",
				map[string]any{step.action: map[string]string{"name": step.group}}, nil)
			must(t, err)
		}
		got, err := c.api.Server(ctx, id)
		must(t, err)
		slices.SortFunc(got.SecurityGroups, func(a, b compute.GroupName) int { return strings.Compare(a.Name, b.Name) })
		if fmt.Sprint(got.SecurityGroups) != step.want {
			t.Errorf("after %s the groups are %v, want %s", step.action, got.SecurityGroups, step.want)
		}
	}
	must(t, c.api.DeleteServer(ctx, id))
}

// startCompute starts Berth's compute and an agent for each node. It returns after Placement has the bandwidth of the
// nodes and their VFs.
func (c *cloud) startCompute(t *testing.T) *serverCloud {
	t.Helper()
	program, err := bench.Build(t.TempDir())
	must(t, err)
	s := &serverCloud{cloud: c, dir: t.TempDir()}
	account := func(user string) string {
		c.base.User(t, user, "service", "admin", "service")
		return fmt.Sprintf("auth_type = password\nauth_url = %s\nusername = %[2]s\npassword = %[2]s\n"+
			"project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n", c.base.URL, user)
	}
	machine := machineWithNICs(t)
	start := func(name, ready, options string, args ...string) {
		t.Helper()
		home := filepath.Join(s.dir, name)
		must(t, os.Mkdir(home, 0o700))
		clienttest.Write(t, home+"/machine.txtar", machine)
		own := account(name)
		clienttest.Write(t, home+"/berth.conf", "[api]\nauth_strategy = keystone\n[keystone_authtoken]\n"+own+
			"[placement]\n"+own+"[neutron]\n"+own+"[compute]\n"+own+"[oslo_concurrency]\nlock_path = "+home+
			"\n[berth]\nsysfs = "+home+"/machine.txtar\n"+options)
		clienttest.Run(t, home+"/berth.log", ready, append([]string{program}, append(args, "--config-file",
			home+"/berth.conf", "--data-dir", home+"/data", "--placement-url", c.base.Placements[clienttest.Berth])...)...)
	}
	start("compute", c.compute, "", "compute", "--listen", c.compute)
	for _, node := range nodes {
		start(node, "", agentOptions+"[DEFAULT]\nhost = "+node+"\ncompute_driver = fake.FakeDriver\n",
			"agent", "--compute-url", "http://"+c.compute)
		for _, a := range agentsOf(node) {
			c.Report(t, node, a)
		}
	}
	c.vlan(t, "physnet0", "10.4.0.0/24")
	s.api = compute.NewClient("http://"+c.compute, http.DefaultClient, c.base.Admin(t))
	s.hosts = hostapi.Client{REST: s.api.REST}
	for i := range s.flavors {
		f, err := s.api.CreateFlavor(t.Context(), compute.CreateFlavor{Name: fmt.Sprint("f", i), VCPUs: 1 + i, RAM: 64})
		must(t, err)
		s.flavors[i] = f.ID
	}
	for _, node := range nodes {
		s.reported(t, node)
	}
	return s
}

// vlan creates a network in a VLAN with a subnet.
func (c *cloud) vlan(t *testing.T, physnet, cidr string) network.Network {
	t.Helper()
	n, err := c.network.CreateNetwork(t.Context(), map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": physnet})
	must(t, err)
	_, err = c.network.CreateSubnet(t.Context(), map[string]any{"network_id": n.ID, "ip_version": 4, "cidr": cidr})
	must(t, err)
	return n
}

// create requests a server with ports.
func (c *serverCloud) create(t *testing.T, ports ...string) (id string) {
	t.Helper()
	list := []any{}
	for _, port := range ports {
		list = append(list, map[string]any{"port": port})
	}
	answer, err := c.api.REST.Do(t.Context(), http.MethodPost, "/v2.1/servers", map[string]any{"server": map[string]any{
		"name": "web", "flavorRef": c.flavors[0], "networks": list}}, nil)
	must(t, err)
	var made struct{ Server struct{ ID string } }
	must(t, json.Unmarshal(answer.Body, &made))
	return made.Server.ID
}

// act performs an action on a server, and waits until the server has a status.
func (c *serverCloud) act(t *testing.T, id, action string, args map[string]any, status string) {
	t.Helper()
	must(t, c.api.Act(t.Context(), id, action, args))
	c.reach(t, id, status)
}

// bridgeOf returns the provider of a node's bridge.
func bridgeOf(node string) resource.ProviderID {
	return bandwidth.Name{Hypervisor: node, Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
}

// reach waits until a server has a status and no task.
func (c *serverCloud) reach(t *testing.T, id, status string) (s compute.Server) {
	t.Helper()
	testenv.Until(t, "the server is "+status, func() (err error) {
		s, err = c.api.Server(t.Context(), id)
		if err == nil && s.Status == "ERROR" && status != "ERROR" {
			t.Fatalf("the server is in ERROR: %+v", s.Fault)
		}
		if err == nil && (s.Status != status || s.TaskState != nil) {
			err = fmt.Errorf("it is %s", s.Status)
		}
		return err
	})
	return s
}

// free waits until a port has no server, no host and no allocation.
func (c *serverCloud) free(t *testing.T, port string) {
	t.Helper()
	testenv.Until(t, "the port is free", func() error {
		p, err := c.network.Port(t.Context(), port)
		if err == nil && (p.Host != "" || p.Device != "" || len(p.Profile) > 0) {
			err = fmt.Errorf("it is %+v", p)
		}
		return err
	})
}

// bound waits until a server's port is bound to the host from whose bridge the server has this bandwidth, and returns
// the host.
func (c *cloud) bound(t *testing.T, server, port string, kbps int) (node string) {
	t.Helper()
	testenv.Until(t, "port and allocation agree", func() error {
		p, err := c.network.Port(t.Context(), port)
		if err != nil {
			return err
		}
		held, err := c.placement.Allocation(t.Context(), resource.ConsumerID(server))
		if err != nil {
			return err
		}
		node = p.Host
		at := bridgeOf(node)
		if p.VIF != "ovs" || !provides(p, at) || held.Allocation[at][bandwidth.EgressBandwidth] != kbps {
			return fmt.Errorf("the port is %+v, and the server has %v", p, held.Allocation)
		}
		return nil
	})
	return node
}

// provides reports whether all groups of a port have their allocation from a provider.
func provides(p network.Port, at resource.ProviderID) bool {
	for _, of := range p.Allocation() {
		if !strings.EqualFold(of, string(at)) {
			return false
		}
	}
	return len(p.Allocation()) > 0
}

// unused waits until the bridge of a node has no usage.
func (c *cloud) unused(t *testing.T, node string) {
	t.Helper()
	testenv.Until(t, "the bandwidth of "+node+" is free", func() error {
		used, err := c.placement.Usages(t.Context(), bridgeOf(node))
		if err == nil && used[bandwidth.EgressBandwidth] != 0 {
			err = fmt.Errorf("used: %v", used)
		}
		return err
	})
}
