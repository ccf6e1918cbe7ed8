package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

var killStep = flag.Int("kill-step", 5, "TestKillAtEachRequest kills at each request (1), or at every such one, and "+
	"TestKillNetworkDatabaseAtCommits half as often")

// TestKillAtEachRequest creates a server with a VF and a port with a guarantee, attaches another port, changes its
// policy, detaches it, moves the server, moves it back, and deletes it. A process is killed with SIGKILL at the n-th
// request of each operation that it sends or receives, before the request arrives or before its answer does, for every
// fifth n until no operation reaches it: 366 kills take five minutes of processor time, so `make kills` makes them all.
// The process is started again; then ports, allocations and guest agree.
func TestKillAtEachRequest(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, victims := range [][]string{{"network"}, {"cmp1", "cmp2"}, {"compute"}} {
		t.Run(victims[0], func(t *testing.T) {
			t.Parallel()
			c := newKillCloud(t, "")
			c.arm = func(n int, after bool) { c.gate.arm(n, after, victims...) }
			c.disarm = c.gate.disarm
			c.killAtEach(*killStep)
		})
	}
}

// TestKillNetworkDatabaseAtCommits does the same with the database server of the network service: it is killed at
// the n-th COMMIT that the service sends to it, before it arrives or before its answer does, for every tenth n, because
// each start of a database takes seconds. The service runs on.
func TestKillNetworkDatabaseAtCommits(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for name, server := range map[string]func(testing.TB, ...string) *databases.Server{"MariaDB": databases.MariaDB,
		"PostgreSQL": databases.PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server(t)
			proxy := databases.NewProxy(t, db.Addr)
			c := newKillCloud(t, proxy.URL(db.Database(t)))
			c.database = db
			c.arm = func(n int, after bool) {
				proxy.Break(databases.Cut{Word: "commit", Skip: n - 1, LoseResponse: after,
					Do: func() { c.gate.stop(t, "database") }})
			}
			c.disarm = proxy.Repair
			c.killAtEach(2 * *killStep)
		})
	}
}

// killAtEach runs the operations with a kill at each request, or at every step-th. Changes of ports, and moves, are
// left out when none of them has that many requests.
func (c *killCloud) killAtEach(step int) {
	vf, other, more := c.portOn(c.net, "direct", 3000), c.portOn(c.bridge, "normal", 2000),
		c.portOn(c.bridge, "normal", 1000)
	smaller, larger := more.Policy, c.policy(2500)
	kills, changesPorts, moves := 0, true, true
	for n := 1; ; n += step {
		before, reached := kills, map[string]bool{}
		for _, after := range []bool{false, true} {
			perform := func(what string, request func() error, status string, want map[string]int) {
				c.t.Helper()
				c.fired = ""
				c.arm(n, after)
				c.repeat(what, request)
				c.agree(what, status, want)
				c.disarm()
				if c.fired != "" {
					kills++
					reached[what] = true
				}
			}
			want := map[string]int{vf.ID: 3000, other.ID: 2000}
			perform("create", c.create(fmt.Sprintf("web-%d-%t", n, after), vf.ID, other.ID), "ACTIVE", want)
			if changesPorts {
				want[more.ID] = 1000
				perform("attach", c.attach(more.ID), "ACTIVE", want)
				want[more.ID] = 2500
				perform("change of the policy", c.setPolicy(more.ID, larger), "ACTIVE", want)
				delete(want, more.ID)
				perform("detach", c.detach(more.ID), "ACTIVE", want)
				must(c.t, c.setPolicy(more.ID, smaller)())
			}
			if moves {
				perform("migrate", c.act("migrate", "VERIFY_RESIZE"), "VERIFY_RESIZE", want)
				if after {
					perform("confirm", c.act("confirmResize", "ACTIVE"), "ACTIVE", want)
				} else {
					perform("revert", c.act("revertResize", "ACTIVE"), "ACTIVE", want)
				}
			}
			perform("delete", c.deleteServer, "", nil)
		}
		changesPorts = reached["attach"] || reached["change of the policy"] || reached["detach"]
		moves = reached["migrate"] || reached["confirm"] || reached["revert"]
		if kills == before {
			c.t.Logf("%d kills at up to %d requests of an operation", kills, n-step)
			return
		}
	}
}

// create returns a request for a server with ports. It sets the server of the cloud.
func (c *killCloud) create(name string, ports ...string) func() error {
	flavor := c.plainFlavor()
	var networks []map[string]string
	for _, p := range ports {
		networks = append(networks, map[string]string{"port": p})
	}
	return func() error {
		all, err := c.ofCompute.Servers(c.t.Context(), compute.ListServers{})
		if err != nil {
			return err
		}
		if at := slices.IndexFunc(all, func(s compute.Server) bool { return s.Name == name }); at >= 0 {
			c.server = all[at].ID // the answer to the request was lost
			return nil
		}
		answer, err := c.ofCompute.REST.Do(c.t.Context(), http.MethodPost, "/v2.1/servers", map[string]any{
			"server": map[string]any{"name": name, "flavorRef": flavor, "networks": networks}}, nil)
		if err != nil {
			return err
		}
		var made struct{ Server struct{ ID string } }
		err = json.Unmarshal(answer.Body, &made)
		c.server = made.Server.ID
		return err
	}
}

// attach returns a request that attaches a port to the server, unless it is attached.
func (c *killCloud) attach(port string) func() error {
	return func() error {
		p, err := c.ofNetwork.Port(c.t.Context(), port)
		if err != nil || p.Device == c.server {
			return err
		}
		_, err = c.ofCompute.REST.Do(c.t.Context(), http.MethodPost, "/v2.1/servers/"+c.server+"/os-interface",
			map[string]any{"interfaceAttachment": map[string]any{"port_id": port}}, nil)
		return err
	}
}

// detach returns a request that detaches a port of the server, unless it is detached.
func (c *killCloud) detach(port string) func() error {
	return func() error {
		p, err := c.ofNetwork.Port(c.t.Context(), port)
		if err != nil || p.Device == "" {
			return err
		}
		_, err = c.ofCompute.REST.Do(c.t.Context(), http.MethodDelete,
			"/v2.1/servers/"+c.server+"/os-interface/"+port, nil, nil)
		return err
	}
}

// setPolicy returns a request of a user, which passes the gate.
func (c *killCloud) setPolicy(port, policy string) func() error {
	return func() error {
		_, err := c.user.UpdatePort(c.t.Context(), port, map[string]any{"qos_policy_id": policy})
		return err
	}
}

// act returns a request for an action, unless the server has the status already.
func (c *killCloud) act(action, status string) func() error {
	return func() error {
		s, err := c.ofCompute.Server(c.t.Context(), c.server)
		if err != nil || s.Status == status && s.TaskState == nil {
			return err
		}
		if s.TaskState != nil {
			return errors.New("the server has the task " + *s.TaskState)
		}
		return c.ofCompute.Act(c.t.Context(), c.server, action, nil)
	}
}
