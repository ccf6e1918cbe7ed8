package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// crashAll kills compute and the agents of hosts when the history of a server has a text, and starts them again.
func (f *portFleet) crashAll(server, text string, hosts ...string) {
	f.t.Helper()
	f.says(server, text)
	f.compute.kill()
	for _, host := range hosts {
		f.agents[host].kill()
	}
	f.startCompute("[neutron]\nendpoint_override = " + f.network.urls["network"] + "\n")
	for _, host := range hosts {
		f.agents[host] = nil
		f.startAgent(host, f.files[host])
	}
}

// says waits until `berth server why` prints a text.
func (f *portFleet) says(server, text string) {
	f.t.Helper()
	testenv.Until(f.t, text, func() (bool, error) {
		out, stderr, status := output(f.t, f.args("server", "why", server)...)
		return strings.Contains(out, text), fmt.Errorf("%d %s\n%s", status, stderr, out)
	})
}

// liveMigrate begins to migrate a server live.
func (f *portFleet) liveMigrate(server string) {
	f.t.Helper()
	must(f.t, f.compute.compute().Act(f.t.Context(), server, "os-migrateLive", map[string]any{"host": nil,
		"block_migration": "auto"}))
}

// onlyOn waits until a server's port, guest and agent agree about the VF on another host than was, where nothing is
// left.
func (f *portFleet) onlyOn(server, port, was string) (now string) {
	f.t.Helper()
	testenv.Until(f.t, "the server has left "+was, func() (bool, error) {
		s, err := f.compute.compute().Server(f.t.Context(), server)
		if err != nil || s.Host == nil || *s.Host == was || s.Status != "ACTIVE" || s.TaskState != nil {
			return false, fmt.Errorf("%+v %v", s, err)
		}
		list, err := f.compute.hosts().Devices(f.t.Context())
		for _, d := range list {
			if d.Host == was && d.Holder != "" {
				return false, fmt.Errorf("%s of %s is held by %s", d.Address, was, d.Holder)
			}
		}
		now = *s.Host
		return true, err
	})
	if bound := f.bound(server, port); bound != now {
		f.t.Errorf("the port is bound to %s, and the server is on %s", bound, now)
	}
	bindings, err := f.network.network().PortBindings(f.t.Context(), port)
	if err != nil || len(bindings) != 1 || bindings[0].Host != now {
		f.t.Errorf("bindings %+v, %v", bindings, err)
	}
	return now
}

// TestDirectPortsAreMigratedLive migrates a server with a VF and a guarantee live, to a host whose agent is killed with
// compute before it claims, and to one whose agents are killed while the guest leaves. After each migration the VF of
// the destination is that of the port and of the guest, and the source has nothing.
func TestDirectPortsAreMigratedLive(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPortFleet(t, "cmp1", "cmp2")
	port := f.port(6000)
	server := f.begin(port)
	f.await(server, "ACTIVE")
	was := f.bound(server, port.ID)
	other := map[string]string{"cmp1": "cmp2", "cmp2": "cmp1"}[was]
	f.agents[other].kill()
	f.liveMigrate(server)
	f.crashAll(server, "claimed on "+other+"; waiting for its agent to prepare the live migration", "cmp1", "cmp2")
	f.onlyOn(server, port.ID, was)

	f.liveMigrate(server)
	f.crashAll(server, "waiting for the agent of "+other+" to migrate the guest to "+was, "cmp1", "cmp2")
	f.onlyOn(server, port.ID, other)

	f.liveMigrate(server)
	f.onlyOn(server, port.ID, was)
	f.delete(compute.Server{ID: server})
}

// attach begins to attach a port, and waits at most a moment for the result.
func (f *portFleet) attach(server, port string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Second)
	defer cancel()
	_, err := f.compute.compute().REST.Do(ctx, http.MethodPost, "/v2.1/servers/"+server+"/os-interface",
		map[string]any{"interfaceAttachment": map[string]string{"port_id": port}}, nil)
	if ctx.Err() == nil {
		must(f.t, err)
	}
}

// free waits until a port has no server and no VF is held.
func (f *portFleet) free(port string) {
	f.t.Helper()
	testenv.Until(f.t, "port and VF are free", func() (bool, error) {
		p, err := f.network.network().Port(f.t.Context(), port)
		if err != nil || p.Device != "" || p.Host != "" || len(p.Profile) > 0 {
			return false, fmt.Errorf("%+v %v", p, err)
		}
		list, err := f.compute.hosts().Devices(f.t.Context())
		for _, d := range list {
			if d.Holder != "" {
				return false, fmt.Errorf("%s is held by %s", d.Address, d.Holder)
			}
		}
		return true, err
	})
}

// TestDirectPortIsAttachedDespiteCrashes attaches a port with a VF and a guarantee to a server, and detaches it.
// Compute and the agent are killed while each waits for the other.
func TestDirectPortIsAttachedDespiteCrashes(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPortFleet(t, "cmp1")
	port := f.port(6000)
	answer, err := f.compute.compute().REST.Do(t.Context(), http.MethodPost, "/v2.1/servers",
		map[string]any{"server": map[string]any{"name": "web", "flavorRef": f.plainFlavor(), "networks": "none"}}, nil)
	must(t, err)
	var made struct{ Server struct{ ID string } }
	must(t, json.Unmarshal(answer.Body, &made))
	server := made.Server.ID
	f.await(server, "ACTIVE")

	f.agents["cmp1"].kill()
	f.attach(server, port.ID)
	f.crashAll(server, "waiting for the agent of cmp1 to pick its device", "cmp1")
	f.bound(server, port.ID)

	f.says(server, "attached port "+port.ID) // otherwise the detachment waits for the agent to say so
	f.agents["cmp1"].kill()
	_, err = f.compute.compute().REST.Do(t.Context(), http.MethodDelete, "/v2.1/servers/"+server+"/os-interface/"+port.ID,
		nil, nil)
	must(t, err)
	f.crashAll(server, "waiting for the agent of cmp1 to free its device", "cmp1")
	f.free(port.ID)

	// An attachment that waits for a lost host is given up, and the server can be deleted.
	f.says(server, "detached the port")
	f.agents["cmp1"].kill()
	f.attach(server, port.ID)
	must(t, f.compute.compute().HostDown(t.Context(), "cmp1", true))
	f.free(port.ID)
	f.says(server, "cannot be attached: host cmp1 declared dead by an operator")
}
