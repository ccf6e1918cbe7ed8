package server

import (
	"testing"

	"github.com/openberth/berth/api/compute"
)

// TestFlavorAccess gives a project access to a flavor that is not public, and removes it again. Only that project sees
// the flavor and creates servers of it.
func TestFlavorAccess(t *testing.T) {
	h := start(t)
	if _, err := h.admin.CreateFlavor(t.Context(), compute.CreateFlavor{ID: "open", Name: "open", VCPUs: 1, RAM: 1,
		Disk: 1}); err != nil {
		t.Fatal(err)
	}
	const create = `{"server": {"name": "x", "flavorRef": "closed"}}`
	const list = `{"flavor_access":[{"flavor_id":"closed","tenant_id":"p1"}]}`
	add, remove := `{"addTenantAccess": {"tenant": "p1"}}`, `{"removeTenantAccess": {"tenant": "p1"}}`
	h.exchanges("admin", []exchange{
		{"2.1", "POST", "/flavors", `{"flavor": {"id": "closed", "name": "closed", "vcpus": 1, "ram": 1, "disk": 1,
			"os-flavor-access:is_public": false}}`, 200, `"os-flavor-access:is_public":false`},
		{"2.1", "GET", "/flavors/closed/os-flavor-access", "", 200, `{"flavor_access":[]}`},
		{"2.1", "POST", "/flavors/closed/action", add, 200, list},
		{"2.1", "POST", "/flavors/closed/action", add, 409, "already exists"},
		{"2.1", "POST", "/flavors/none/action", add, 404, "could not be found"},
		{"2.7", "POST", "/flavors/open/action", add, 409, "Can not add access to a public flavor"},
		{"2.6", "POST", "/flavors/open/action", add, 200, `"tenant_id":"p1"`},
		{"2.1", "GET", "/flavors/open/os-flavor-access", "", 404, "not available for public flavors"},
		{"2.1", "GET", "/flavors/none/os-flavor-access", "", 404, "could not be found"},
		{"2.1", "POST", "/flavors/closed/action", `{"addTenantAccess": {"tenant": ""}}`, 400, "tenant"},
		{"2.1", "POST", "/flavors/closed/action", `{"addTenantAccess": {"project": "p1"}}`, 400, "tenant: it is missing"},
		{"2.1", "POST", "/flavors/closed/action", `{"addTenantAccess": null}`, 400, "must be an object"},
		{"2.1", "POST", "/flavors/closed/action", `{"addAccess": {}}`, 400, "no such action"},
		{"2.1", "GET", "/flavors/closed/os-flavor-access", "", 200, list},
	})
	sees := func(who string, code int) {
		t.Helper()
		text, created := `"id":"closed"`, 202
		if code == 404 {
			text, created = "could not be found", 400
		}
		h.exchanges(who, []exchange{
			{"2.1", "GET", "/flavors/closed", "", code, text}, {"2.1", "POST", "/servers", create, created, ""},
			{"2.1", "POST", "/flavors/closed/action", remove, 403, "remove_tenant_access"},
			{"2.1", "GET", "/flavors/closed/os-flavor-access", "", 403, "os-flavor-access"},
		})
		want := 1 + 1
		if code == 404 {
			want = 1
		}
		for _, path := range []string{"/v2.1/flavors", "/v2.1/flavors/detail"} {
			r := h.ask("GET", path, "", "X-Auth-Token", who)
			if flavors, _ := r.dig("flavors").([]any); len(flavors) != want {
				t.Errorf("%s %s: %s", who, path, r.text)
			}
		}
	}
	sees("ann:p1", 200)
	sees("bob:p2", 404)
	h.exchanges("admin", []exchange{
		{"2.1", "POST", "/flavors/closed/action", remove, 200, `{"flavor_access":[]}`},
		{"2.1", "POST", "/flavors/closed/action", remove, 404, "Flavor access not found"},
	})
	sees("ann:p1", 404)
	h.exchanges("admin", []exchange{
		{"2.1", "POST", "/flavors/closed/action", add, 200, list},
		{"2.1", "DELETE", "/flavors/closed", "", 202, ""},
		{"2.1", "POST", "/flavors", `{"flavor": {"id": "closed", "name": "closed", "vcpus": 1, "ram": 1, "disk": 1,
			"os-flavor-access:is_public": false}}`, 200, ""},
		{"2.1", "GET", "/flavors/closed/os-flavor-access", "", 200, `{"flavor_access":[]}`},
	})
}
