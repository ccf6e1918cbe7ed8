package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// liveMigrating creates a server whose guest is being migrated from cmp1 to host2.
func (h *fixture) liveMigrating(name string) string {
	h.Helper()
	id := h.moved(name, lifecycle.Live, lifecycle.Caller{}, time.Now())
	h.apply(id, lifecycle.Chosen{Candidates: 1, Choices: []schedule.Choice{{Host: "host2", Zone: "nova", Root: deviceID,
		Allocation: resource.Allocation{deviceID: {"VCPU": 2}}, Mappings: map[string][]provider.ID{"": {deviceID}}}}})
	h.apply(id, lifecycle.AllocationsMoved{})
	h.apply(id, lifecycle.GuestRunning{Host: "cmp1", Consumer: "m-" + name})
	s, err := h.store.Read(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	h.apply(id, lifecycle.Claimed{Try: s.Try})
	h.apply(id, lifecycle.GuestClaimed{Host: "host2", Consumer: id})
	return id
}

// TestRequestsOfLiveMigrations tests who may abort live migrations or force their completion, and when.
func TestRequestsOfLiveMigrations(t *testing.T) {
	h := start(t)
	running := h.liveMigrating("running")
	accepted := h.moved("accepted", lifecycle.Live, lifecycle.Caller{}, time.Now())
	cold := h.moved("cold", lifecycle.Migrate, lifecycle.Caller{}, time.Now())
	idle := h.running("idle")
	const force = `{"force_complete": null}`
	for _, c := range []struct {
		method, version, server, number, body string
		status                                int
		text                                  string
	}{
		{"DELETE", "2.23", running, "1", "", 404, ""},
		{"POST", "2.21", running, "1", force, 404, ""},
		{"POST", "2.22", running, "1", `{"force_complete": {}}`, 400, "force_complete"},
		{"POST", "2.22", running, "1", `{"force_complete": null, "more": null}`, 400, "force_complete"},
		{"POST", "2.22", running, "1", `{"abort": null}`, 400, "force_complete"},
		{"POST", "2.22", running, "2", force, 400, "Migration 2 not found for instance " + running},
		{"DELETE", "2.24", running, "2", "", 404, "Migration 2 not found for instance " + running},
		{"DELETE", "2.24", running, "x", "", 404, "Migration x not found"},
		{"DELETE", "2.64", accepted, "2", "", 400, "Migration 2 state of instance " + accepted + " is accepted. " +
			"Cannot abort live migration while the migration is in this state"},
		{"POST", "2.65", accepted, "2", force, 400, "is accepted. Cannot force complete while"},
		{"DELETE", "2.65", cold, "3", "", 409, "Cannot 'abort live migration' instance " + cold +
			" while it is in task_state"},
		{"POST", "2.65", cold, "3", force, 409, "Cannot 'force_complete' instance " + cold},
		{"DELETE", "2.65", idle, "1", "", 409, "task_state None"},
		{"DELETE", "2.65", "00000000-0000-4000-8000-000000000000", "1", "", 404, "could not be found"},
		{"POST", "2.22", running, "1", force, 202, ""},
		{"POST", "2.22", running, "1", force, 202, ""},
		{"DELETE", "2.24", running, "1", "", 202, ""},
		{"DELETE", "2.24", running, "1", "", 202, ""},
		{"DELETE", "2.65", accepted, "2", "", 202, ""},
	} {
		path := "/v2.1/servers/" + c.server + "/migrations/" + c.number
		if c.method == "POST" {
			path += "/action"
		}
		if r := h.at(c.version, c.method, path, c.body); r.status != c.status || !strings.Contains(r.text, c.text) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.version, c.method, path, r.status, r.text, c.status, c.text)
		}
	}
	for _, action := range []string{"live_migration_force_complete", "live_migration_cancel"} {
		r := h.at("2.51", "GET", "/v2.1/servers/"+running+"/os-instance-actions", "")
		if n := strings.Count(r.text, fmt.Sprintf("%q", action)); n != 1 {
			t.Errorf("%d actions %s: %s", n, action, r.text)
		}
	}
	h.apply(running, lifecycle.GuestFailed{Host: "cmp1", Consumer: "m-running", Message: "aborted"})
	if r := h.at("2.65", "DELETE", "/v2.1/servers/"+running+"/migrations/1", ""); r.status != 400 ||
		!strings.Contains(r.text, "is cancelled. Cannot abort") {
		t.Errorf("a cancelled migration was aborted: %d %s", r.status, r.text)
	}
	h.apply(running, lifecycle.GuestGone{Host: "host2", Consumer: running})
	h.apply(running, lifecycle.Released{})
	h.apply(running, lifecycle.AllocationsRestored{})
	h.apply(running, lifecycle.GuestRunning{Host: "cmp1", Consumer: running})
	r := h.at("2.100", "GET", "/v2.1/servers/"+running, "")
	if r.dig("server/status") != "ACTIVE" || r.dig("server/OS-EXT-SRV-ATTR:host") != "cmp1" ||
		r.dig("server/fault") != nil {
		t.Errorf("after the abort: %s", r.text)
	}
	r = h.at("2.65", "GET", "/v2.1/os-migrations?instance_uuid="+running, "")
	if r.dig("migrations/0/status") != "cancelled" {
		t.Errorf("after the abort: %s", r.text)
	}
}

// TestLockedLiveMigration tests that a user who is not an administrator cannot abort the live migration of a locked
// server.
func TestLockedLiveMigration(t *testing.T) {
	h := startWith(t, func(o *Options) {
		o.Enforcer = &denyRules{denied: map[string]bool{}, checked: map[string]map[string]any{}}
	})
	id := h.liveMigrating("locked")
	if r := h.at("2.1", "POST", "/v2.1/servers/"+id+"/action", `{"lock": null}`); r.status != 202 {
		t.Fatal(r.status, r.text)
	}
	path := "/v2.1/servers/" + id + "/migrations/1"
	for token, status := range map[string]int{"ann:p1": 409, "admin": 202} {
		r := h.ask("DELETE", path, "", "X-Auth-Token", token, "OpenStack-API-Version", "compute 2.24")
		if r.status != status {
			t.Errorf("%s: %d %s, want %d", token, r.status, r.text, status)
		}
	}
}

// TestRefusedActionsHaveTheirStatus tests that actions that Berth does not have are refused with Nova's statuses.
func TestRefusedActionsHaveTheirStatus(t *testing.T) {
	h := start(t)
	id := h.running("refuses")
	for _, c := range []struct {
		token, body string
		status      int
		text        string
	}{
		{"ann:p1", `{"changePassword": {"adminPass": "new"}}`, 501, "cannot set the password of a guest"},
		{"ann:p1", `{"changePassword": {"password": "new"}}`, 400, "adminPass"},
		{"bob:p2", `{"changePassword": {"adminPass": "new"}}`, 404, "could not be found"},
		{"admin", `{"resetNetwork": null}`, 410, "it was removed"},
		{"admin", `{"injectNetworkInfo": null}`, 409, "config drive"},
		{"ann:p1", `{"injectNetworkInfo": null}`, 403, "inject_network_info"},
	} {
		r := h.ask("POST", "/v2.1/servers/"+id+"/action", c.body, "X-Auth-Token", c.token)
		if r.status != c.status || !strings.Contains(r.text, c.text) {
			t.Errorf("%s %s: %d %s, want %d %s", c.token, c.body, r.status, r.text, c.status, c.text)
		}
	}
}
