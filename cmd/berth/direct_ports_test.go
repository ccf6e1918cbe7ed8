package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
)

// portFleet is a fleet with a network service, and hosts whose PF ens3 has four VFs and 10 Mbit/s for ports on
// physnet1.
type portFleet struct {
	*fleet
	network *daemon
	files   map[string]string // the agent's configuration, by host
	net     string            // id of a network on physnet1
}

func newPortFleet(t *testing.T, hosts ...string) *portFleet {
	t.Helper()
	f := &portFleet{fleet: newFleet(t, ""), files: map[string]string{}}
	f.network = start(t, []string{"network"}, "network", "--config-file", f.file("network", ""), "--data-dir",
		f.path("network"), "--listen", "127.0.0.1:0", "--placement-url", f.placement.urls["placement"])
	conf := "[neutron]\nendpoint_override = " + f.network.urls["network"] + "\n"
	f.startCompute(conf)
	for _, name := range hosts {
		files := neutron{t, t.TempDir()}
		files.write("bridge_mappings = physnet0:br-ex\n",
			"physical_device_mappings = physnet1:ens3\nresource_provider_bandwidths = ens3:10000:10000\n")
		f.files[name] = f.host(name, nics(t), files.option()+"report_network_devices = true\n"+conf+
			"[pci]\nreport_in_placement = true\ndevice_spec = {\"address\": {\"domain\": \".*\", \"bus\": \"81\", "+
			"\"slot\": \"03\", \"function\": \"[1-4]\"}, \"physical_network\": \"physnet1\"}\n")
		f.startAgent(name, f.files[name])
	}
	client, ctx := f.network.network(), t.Context()
	testenv.Until(t, "the VFs and the agents are reported", func() (bool, error) {
		agents, err := client.Agents(ctx, map[string][]string{"agent_type": {string(bandwidth.NICSwitch)}})
		for _, name := range hosts {
			p, _ := f.tree(name).ByName(name + "_0000:81:03.0")
			parent, _ := f.tree(name).ByID(p.Parent)
			if p.Inventories[pci.PortVF].Total != 4 || !strings.HasSuffix(parent.Name, ":ens3") {
				return false, fmt.Errorf("%s: %+v in %s", name, p, parent.Name)
			}
		}
		return len(agents) == len(hosts), err
	})
	n, err := client.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": "physnet1", "provider:segmentation_id": 8, "project_id": "admin"})
	must(t, err)
	_, err = client.CreateSubnet(ctx, map[string]any{"network_id": n.ID, "ip_version": 4, "cidr": "10.1.0.0/24",
		"project_id": "admin"})
	must(t, err)
	f.net = n.ID
	return f
}

// port creates a port with a VF and a guarantee in kilobits per second.
func (f *portFleet) port(kbps int) api.Port {
	f.t.Helper()
	client, ctx := f.network.network(), f.t.Context()
	policy, err := client.CreatePolicy(ctx, map[string]any{"name": "p", "project_id": "admin"})
	must(f.t, err)
	_, err = client.CreateRule(ctx, policy.ID, "minimum_bandwidth", map[string]any{"min_kbps": kbps})
	must(f.t, err)
	p, err := client.CreatePort(ctx, map[string]any{"network_id": f.net, "project_id": "admin",
		"binding:vnic_type": "direct", "qos_policy_id": policy.ID})
	must(f.t, err)
	return p
}

// begin requests a server with a port.
func (f *portFleet) begin(port api.Port) (id string) {
	f.t.Helper()
	answer, err := f.compute.compute().REST.Do(f.t.Context(), http.MethodPost, "/v2.1/servers",
		map[string]any{"server": map[string]any{"name": "web", "flavorRef": f.plainFlavor(),
			"networks": []map[string]string{{"port": port.ID}}}}, nil)
	must(f.t, err)
	var made struct{ Server struct{ ID string } }
	must(f.t, json.Unmarshal(answer.Body, &made))
	return made.Server.ID
}

// plainFlavor returns a flavor without devices.
func (f *portFleet) plainFlavor() string {
	f.t.Helper()
	if flavor, err := f.compute.compute().Flavor(f.t.Context(), "plain"); err == nil {
		return flavor.ID
	}
	flavor, err := f.compute.compute().CreateFlavor(f.t.Context(), compute.CreateFlavor{ID: "plain", Name: "plain",
		VCPUs: 1, RAM: 64})
	must(f.t, err)
	return flavor.ID
}

// await waits until a server has a status and no task.
func (f *portFleet) await(id, status string) (s compute.Server) {
	f.t.Helper()
	testenv.Until(f.t, "the server is "+status, func() (bool, error) {
		var err error
		s, err = f.compute.compute().Server(f.t.Context(), id)
		return s.Status == status && s.TaskState == nil, err
	})
	return s
}

// guestHas reports whether the guest of a server on a host has the VF of its port.
func (f *portFleet) guestHas(host, server, vf string) bool {
	var guest struct{ Interfaces []struct{ Device string } }
	text, err := os.ReadFile(filepath.Join(f.path(host), "agent", "guests", server+".json"))
	return err == nil && json.Unmarshal(text, &guest) == nil && len(guest.Interfaces) == 1 &&
		guest.Interfaces[0].Device == vf
}

// held returns the addresses of a server's devices on a host, as its agent reports them.
func (f *portFleet) held(host, server string) string {
	f.t.Helper()
	list, err := f.compute.hosts().Devices(f.t.Context())
	must(f.t, err)
	var out []string
	for _, d := range list {
		if d.Host == host && d.Holder == server {
			out = append(out, d.Address)
		}
	}
	return strings.Join(out, " ")
}

// waitUntilUnused waits until nothing of a host is allocated.
func (f *portFleet) waitUntilUnused(host string) {
	f.t.Helper()
	testenv.Until(f.t, "nothing of "+host+" is allocated", func() (bool, error) {
		for _, p := range f.tree(host).Providers {
			used, err := f.placement.placement().Usages(f.t.Context(), p.ID)
			if err != nil {
				return false, err
			}
			for class, amount := range used {
				if amount != 0 {
					return false, fmt.Errorf("%d of %s of %s", amount, class, p.Name)
				}
			}
		}
		return true, nil
	})
}

// bound waits until the port of a server, its guest, and the agent of its host agree about the VF. It returns the host.
func (f *portFleet) bound(server, port string) (host string) {
	f.t.Helper()
	testenv.Until(f.t, "port, guest and agent agree", func() (bool, error) {
		p, err := f.network.network().Port(f.t.Context(), port)
		if err != nil {
			return false, err
		}
		vf, _ := p.Profile["pci_slot"].(string)
		host = p.Host
		return p.VIF == "hw_veb" && vf != "" && f.held(p.Host, server) == vf && f.guestHas(p.Host, server, vf),
			fmt.Errorf("%+v, devices %s", p, f.held(p.Host, server))
	})
	return host
}

// TestDirectPorts creates servers with VFs and guarantees on two hosts until the third one does not fit, and moves one.
// The agent and compute are killed while a server waits for its VF.
func TestDirectPorts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPortFleet(t, "cmp1", "cmp2")
	large, other, third := f.port(6000), f.port(6000), f.port(6000)
	first, second := f.begin(large), f.begin(other)
	f.await(first, "ACTIVE")
	f.await(second, "ACTIVE")
	if a, b := f.bound(first, large.ID), f.bound(second, other.ID); a == b {
		t.Errorf("both servers are on %s", a)
	}
	refused := f.begin(third)
	if s := f.await(refused, "ERROR"); s.Fault == nil ||
		!strings.Contains(s.Fault.Message, string(bandwidth.EgressBandwidth)) {
		t.Errorf("fault %+v", s.Fault)
	}
	f.delete(compute.Server{ID: refused}, compute.Server{ID: second})

	// The move to the other host, and back.
	was := f.bound(first, large.ID)
	must(t, f.compute.compute().Act(t.Context(), first, "migrate", nil))
	f.await(first, "VERIFY_RESIZE")
	if now := f.bound(first, large.ID); now == was {
		t.Errorf("the server is still on %s", now)
	}
	must(t, f.compute.compute().Act(t.Context(), first, "revertResize", nil))
	f.await(first, "ACTIVE")
	if now := f.bound(first, large.ID); now != was {
		t.Errorf("the server is on %s after the revert, before on %s", now, was)
	}

	// The host is lost: the server gets a VF of the other host.
	f.agents[was].kill()
	must(t, f.compute.compute().HostDown(t.Context(), was, true))
	must(t, f.compute.compute().Act(t.Context(), first, "evacuate", nil))
	f.await(first, "ACTIVE")
	if now := f.bound(first, large.ID); now == was {
		t.Errorf("the server is still on %s after the evacuation", now)
	}
	f.agents[was] = nil
	f.startAgent(was, f.files[was])
	must(t, f.compute.compute().HostDown(t.Context(), was, false))
	f.waitUntilUnused(was) // the agent removes the former guest

	// The agents are killed before one claims, and compute while it waits for the claim.
	for _, a := range f.agents {
		a.kill()
	}
	waiting := f.begin(third)
	testenv.Until(t, "the server is claimed", func() (bool, error) {
		out, stderr, status := output(t, f.args("server", "why", waiting)...)
		return strings.Contains(out, "to pick the devices of its ports"), fmt.Errorf("%d %s", status, stderr)
	})
	f.compute.kill()
	f.startCompute("[neutron]\nendpoint_override = " + f.network.urls["network"] + "\n")
	for name, file := range f.files {
		f.agents[name] = nil
		f.startAgent(name, file)
	}
	f.await(waiting, "ACTIVE")
	f.bound(waiting, third.ID)
	f.delete(compute.Server{ID: first}, compute.Server{ID: waiting})
	testenv.Until(t, "no VF is held", func() (bool, error) {
		list, err := f.compute.hosts().Devices(t.Context())
		for _, d := range list {
			if d.Holder != "" {
				return false, fmt.Errorf("%s is held by %s", d.Address, d.Holder)
			}
		}
		return true, err
	})
}
