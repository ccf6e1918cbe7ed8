//go:build neutron

package neutron

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/clienttest"
	"github.com/openberth/berth/resource"
)

// nodes are the hosts of Berth's agents.
var nodes = [2]string{"node1", "node2"}

// servers creates a server with a port that has a guarantee by Berth's compute, changes the policy of the port,
// migrates the server and deletes it. The bandwidth is reported by Neutron, and the port is bound by it.
func (c *cloud) servers(t *testing.T) {
	ctx := t.Context()
	n, err := c.network.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": "physnet0"})
	must(t, err)
	_, err = c.network.CreateSubnet(ctx, map[string]any{"network_id": n.ID, "ip_version": 4, "cidr": "10.2.0.0/24"})
	must(t, err)
	small := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": 3000})
	large := c.policy(t, "minimum_bandwidth", map[string]any{"direction": "egress", "min_kbps": 4000})
	port, err := c.network.CreatePort(ctx, map[string]any{"network_id": n.ID, "qos_policy_id": small})
	must(t, err)
	api := c.startCompute(t, n.Project)
	flavor, err := api.CreateFlavor(ctx, compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64, Disk: 1})
	must(t, err)
	answer, err := api.REST.Do(ctx, http.MethodPost, "/v2.1/servers", map[string]any{"server": map[string]any{
		"name": "web", "flavorRef": flavor.ID, "networks": []any{map[string]any{"port": port.ID}}}}, nil)
	must(t, err)
	var made struct{ Server struct{ ID string } }
	must(t, json.Unmarshal(answer.Body, &made))
	id := made.Server.ID
	reach(t, api, id, "ACTIVE")
	first := c.bound(t, id, port.ID, 3000)
	_, err = c.network.UpdatePort(ctx, port.ID, map[string]any{"qos_policy_id": large})
	must(t, err)
	c.bound(t, id, port.ID, 4000)
	must(t, api.Act(ctx, id, "migrate", nil))
	reach(t, api, id, "VERIFY_RESIZE")
	second := c.bound(t, id, port.ID, 4000)
	if first == second {
		t.Errorf("the server is still on %s", first)
	}
	must(t, api.Act(ctx, id, "confirmResize", nil))
	reach(t, api, id, "ACTIVE")
	c.bound(t, id, port.ID, 4000)
	c.unused(t, first)
	must(t, api.DeleteServer(ctx, id))
	clienttest.Eventually(t, "the port is free", func() error {
		p, err := c.network.Port(ctx, port.ID)
		if err == nil && (p.Host != "" || p.Device != "" || len(p.Allocation()) > 0) {
			err = fmt.Errorf("it is %+v", p)
		}
		return err
	})
	c.unused(t, second)
}

// startCompute starts Berth's compute and an agent for each node. Neutron reports the bandwidth of the nodes. It
// returns a client of a project, after Placement has all.
func (c *cloud) startCompute(t *testing.T, project string) *compute.Client {
	t.Helper()
	c.base.User(t, "berth", "service", "admin", "service")
	program, err := bench.Build(t.TempDir())
	must(t, err)
	dir, addr := t.TempDir(), clienttest.Free(t)
	account := fmt.Sprintf("auth_type = password\nauth_url = %s\nusername = berth\npassword = berth\n"+
		"project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n", c.base.URL)
	start := func(name, ready, options string, args ...string) {
		t.Helper()
		home := filepath.Join(dir, name)
		must(t, os.Mkdir(home, 0o700))
		clienttest.Write(t, home+"/machine.txtar", "A machine without devices.\n-- bus/pci/devices/.keep --\n")
		clienttest.Write(t, home+"/berth.conf", "[api]\nauth_strategy = noauth2\n[placement]\n"+account+"[neutron]\n"+account+
			"[oslo_concurrency]\nlock_path = "+home+"\n[berth]\nreport_bandwidth = false\nsysfs = "+home+
			"/machine.txtar\n"+options)
		clienttest.Run(t, home+"/berth.log", ready, append([]string{program}, append(args, "--config-file",
			home+"/berth.conf", "--data-dir", home+"/data", "--placement-url", c.base.Placements[clienttest.Berth])...)...)
	}
	start("compute", addr, "", "compute", "--listen", addr)
	for _, node := range nodes {
		start(node, "", "[DEFAULT]\nhost = "+node+"\n", "agent", "--compute-url", "http://"+addr)
		c.Report(t, node, bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: node,
			Mappings: []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}},
			Bandwidths: map[string]bandwidth.Rates{"br-ex": {Egress: bandwidth.Rate{Set: true, Amount: 10000},
				Ingress: bandwidth.Rate{Set: true, Amount: 10000}}}})
	}
	for _, node := range nodes {
		clienttest.Eventually(t, "the bandwidth of "+node+" is in Placement", func() error {
			inv, err := c.placement.Inventories(t.Context(), bridgeOf(node))
			if err == nil && inv.Inventories[bandwidth.EgressBandwidth].Total != 10000 {
				err = fmt.Errorf("it has %+v", inv)
			}
			return err
		})
	}
	return compute.NewClient("http://"+addr, http.DefaultClient, "admin:"+project)
}

// bridgeOf returns the provider of a node's bridge.
func bridgeOf(node string) resource.ProviderID {
	return bandwidth.Name{Hypervisor: node, Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
}

// reach waits until a server has a status and no task.
func reach(t *testing.T, api *compute.Client, id, status string) {
	t.Helper()
	clienttest.Eventually(t, "the server is "+status, func() error {
		s, err := api.Server(t.Context(), id)
		if err == nil && s.Status == "ERROR" && status != "ERROR" {
			t.Fatalf("the server is in ERROR: %+v", s.Fault)
		}
		if err == nil && (s.Status != status || s.TaskState != nil) {
			err = fmt.Errorf("it is %s", s.Status)
		}
		return err
	})
}

// bound waits until a server's port is bound to the host from whose bridge the server has this bandwidth, and returns
// the host.
func (c *cloud) bound(t *testing.T, server, port string, kbps int) (node string) {
	t.Helper()
	clienttest.Eventually(t, "port and allocation agree", func() error {
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
	clienttest.Eventually(t, "the bandwidth of "+node+" is free", func() error {
		used, err := c.placement.Usages(t.Context(), bridgeOf(node))
		if err == nil && used[bandwidth.EgressBandwidth] != 0 {
			err = fmt.Errorf("used: %v", used)
		}
		return err
	})
}
