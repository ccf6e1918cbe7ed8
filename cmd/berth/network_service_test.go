package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	egressClass = resource.Class("NET_BW_EGR_KILOBIT_PER_SEC")
	portServer  = resource.ConsumerID("99999999-0000-4000-8000-000000000001")
	portBridge  = provider.ID("99999999-0000-4000-8000-000000000002")
)

// network returns a client of the network service.
func (d *daemon) network() *api.Client { return api.NewClient(d.urls["network"], nil, "admin") }

// TestNetworkCompletesAChangeAfterKill kills the network service when it changes the allocation of a bound port's
// server, and again when it deletes the port, before Placement receives the change and after it. The next process
// completes the change: port and allocation agree, and a deleted port leaks no allocation.
func TestNetworkCompletesAChangeAfterKill(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			path, dir := conf(t, machine(t, 1, 1)), t.TempDir()
			p := start(t, []string{"placement"}, "placement", "--config-file", path, "--data-dir", dir+"/p", "--listen",
				"127.0.0.1:0")
			gate := newPlacementGate(t, p.urls["placement"])
			startNetwork := func() *daemon {
				return start(t, []string{"network"}, "network", "--config-file", path, "--data-dir", dir+"/n", "--listen",
					"127.0.0.1:0", "--placement-url", gate.url)
			}
			n := startNetwork()
			port, policy := boundPort(t, p.placement(), n.network())
			gate.arm(n, after)
			if _, err := n.network().UpdatePort(t.Context(), port.ID, map[string]any{"qos_policy_id": policy}); err == nil {
				t.Fatal("the request was answered by a killed process")
			}
			n = startNetwork()
			testenv.Until(t, "port and allocation agree", func() (bool, error) {
				now, err := n.network().Port(t.Context(), port.ID)
				if err != nil {
					return false, err
				}
				held, err := p.placement().Allocation(t.Context(), portServer)
				return now.Policy == policy && held.Allocation[portBridge][egressClass] == 3000, err
			})
			gate.arm(n, after)
			if err := n.network().DeletePort(t.Context(), port.ID); err == nil {
				t.Fatal("the request was answered by a killed process")
			}
			n = startNetwork()
			testenv.Until(t, "the port is deleted", func() (bool, error) {
				left, err := n.network().Ports(t.Context(), nil)
				return len(left) == 0, err
			})
			held, err := p.placement().Allocation(t.Context(), portServer)
			if err != nil || held.Allocation[portBridge][egressClass] != 0 || held.Allocation[portBridge]["VCPU"] != 1 {
				t.Errorf("after the removal of the port: %v %v", held.Allocation, err)
			}
			n.stop(t)
			p.stop(t)
		})
	}
}

// placementGate is a proxy before Placement that kills a process at its next POST /allocations.
type placementGate struct {
	url    string
	mu     sync.Mutex
	victim *daemon
	after  bool // Placement receives the request first
}

func newPlacementGate(t *testing.T, target string) *placementGate {
	t.Helper()
	to, err := url.Parse(target)
	must(t, err)
	g, proxy := &placementGate{}, httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		victim, after := g.victim, g.after
		if r.Method == http.MethodPost && r.URL.Path == "/allocations" {
			g.victim = nil
		} else {
			victim = nil
		}
		g.mu.Unlock()
		if victim == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		if after {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		victim.kill()
	}))
	t.Cleanup(front.Close)
	g.url = front.URL
	return g
}

// arm kills a process at its next change of allocations.
func (g *placementGate) arm(victim *daemon, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.victim, g.after = victim, after
}

// boundPort creates a provider of bandwidth, a server's allocation and its port with a policy of 1000 kilobits per
// second. It returns the port and a policy of 3000.
func boundPort(t *testing.T, p *placement.Client, n *api.Client) (port api.Port, larger string) {
	t.Helper()
	ctx := t.Context()
	created, err := p.CreateProvider(ctx, portBridge, "cmp1:Open vSwitch agent:br-ex", "")
	must(t, err)
	_, err = p.PutInventories(ctx, portBridge, created.Generation, map[resource.Class]resource.Inventory{
		egressClass: {Total: 10000, MinUnit: 1, MaxUnit: 10000, StepSize: 1, AllocationRatio: 1},
		"VCPU":      {Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1}})
	must(t, err)
	must(t, n.ReportAgent(ctx, "cmp1", "Open vSwitch agent", api.AgentReport{Devices: []api.AgentDevice{{Name: "br-ex",
		Provider: string(portBridge), PhysicalNetworks: []string{"physnet0"}}}}))
	network, err := n.CreateNetwork(ctx, map[string]any{"provider:network_type": "flat",
		"provider:physical_network": "physnet0"})
	must(t, err)
	policies := map[int]string{}
	for _, kbps := range []int{1000, 3000} {
		policy, err := n.CreatePolicy(ctx, map[string]any{})
		must(t, err)
		_, err = n.CreateRule(ctx, policy.ID, "minimum_bandwidth", map[string]any{"min_kbps": kbps})
		must(t, err)
		policies[kbps] = policy.ID
	}
	port, err = n.CreatePort(ctx, map[string]any{"network_id": network.ID, "qos_policy_id": policies[1000],
		"device_id": string(portServer), "device_owner": "compute:nova"})
	must(t, err)
	must(t, p.PutAllocation(ctx, portServer, placement.ConsumerAllocation{Project: "p", User: "u",
		ConsumerType: "INSTANCE", Allocation: resource.Allocation{portBridge: {"VCPU": 1, egressClass: 1000}}}))
	port, err = n.UpdatePort(ctx, port.ID, map[string]any{"binding:host_id": "cmp1", "binding:profile": map[string]any{
		"allocation": map[string]any{port.Request.Groups[0].ID: string(portBridge)}}})
	must(t, err)
	if port.VIF != "ovs" {
		t.Fatalf("not bound: %+v", port)
	}
	return port, policies[3000]
}

// TestNetworkOfUp: `berth up` serves networks, and keeps them after kill -9.
func TestNetworkOfUp(t *testing.T) {
	t.Parallel()
	path, dir := conf(t, machine(t, 1, 1)), t.TempDir()
	d := up(t, path, dir)
	made, err := d.network().CreateNetwork(t.Context(), map[string]any{"name": "kept"})
	must(t, err)
	d.kill()
	d = up(t, path, dir)
	found, err := d.network().Networks(t.Context(), url.Values{"name": {"kept"}})
	if err != nil || len(found) != 1 || found[0].ID != made.ID {
		t.Errorf("%+v %v", found, err)
	}
	d.stop(t)
}

// TestNetworkCommands runs the commands on networks, ports and policies.
func TestNetworkCommands(t *testing.T) {
	t.Parallel()
	path, dir := conf(t, machine(t, 1, 1)), t.TempDir()
	d := up(t, path, dir)
	port, _ := boundPort(t, d.placement(), d.network())
	urls := []string{"--network-url", d.urls["network"], "--compute-url", d.urls["compute"]}
	output := func(args ...string) string {
		t.Helper()
		var out, problems bytes.Buffer
		if status := run(append(args, urls...), &out, &problems); status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, &problems)
		}
		return out.String()
	}
	for command, words := range map[string][]string{
		"network list":            {"flat", "physnet0"},
		"network list --long":     {port.Network},
		"port list":               {"ACTIVE", "cmp1", string(portServer), "NET_BW_EGR_KILOBIT_PER_SEC=1000"},
		"port list --long":        {port.ID, port.MAC, "normal", "ovs", string(portBridge)},
		"port list -o json":       {`"id": "` + port.ID + `"`, `"binding:host_id": "cmp1"`},
		"port list --host cmp1":   {port.ID},
		"qos policy list":         {"at least 1000 kbit/s egress", "at least 3000 kbit/s egress"},
		"qos policy list --long":  {port.Policy},
		"network list -o json":    {`"provider:physical_network": "physnet0"`},
		"qos policy list -o json": {`"min_kbps": 1000`},
	} {
		got := output(strings.Fields(command)...)
		for _, word := range words {
			if !strings.Contains(got, word) {
				t.Errorf("%s: no %s in\n%s", command, word, got)
			}
		}
	}
	var out, problems bytes.Buffer
	status := run(append([]string{"port", "list", "--host", "cmp2"}, urls...), &out, &problems)
	if status != 1 || out.Len() > 0 || !strings.Contains(problems.String(), "did you mean cmp1?") {
		t.Errorf("ports of a host that does not exist: status %d\n%s%s", status, &out, &problems)
	}
	d.stop(t)
}
