package server

import (
	"fmt"
	"strings"
	"testing"
)

func TestServerGroups(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	const path = "/os-server-groups"
	made := h.ask("POST", "/v2.1"+path,
		`{"server_group": {"name": "web", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}}`,
		"OpenStack-API-Version", "compute 2.64")
	id, _ := made.dig("server_group/id").(string)
	if made.status != 200 || id == "" || !strings.Contains(made.text, `"rules":{"max_server_per_host":2}`) ||
		!strings.Contains(made.text, `"project_id":"p1","user_id":"ann"`) || strings.Contains(made.text, "policies") {
		t.Fatal(made.status, made.text)
	}
	old := func(policies string) string {
		return `{"server_group": {"name": "db", "policies": ` + policies + `}}`
	}
	server := func(group string) string {
		return fmt.Sprintf(`{"server": {"name": "a", "flavorRef": "small", "imageRef": "", "networks": "none"},
			"os:scheduler_hints": {"group": %q}}`, group)
	}
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", path, old(`["affinity"]`), 200, `"members":[],"policies":["affinity"],"metadata":{}}`},
		{"2.1", "POST", path, old(`["soft-affinity"]`), 400, "soft-affinity"},
		{"2.15", "POST", path, old(`["soft-affinity"]`), 200, `"project_id":"p1"`},
		{"2.15", "POST", path, old(`["affinity", "anti-affinity"]`), 400, "exactly one"},
		{"2.64", "POST", path, old(`["affinity"]`), 400, "server_group.policy"},
		{"2.64", "POST", path, `{"server_group": {"name": "x", "policy": "affinity", "rules": {"max_server_per_host": 2}}}`,
			400, "Only anti-affinity policy supports rules."},
		{"2.64", "POST", path, `{"server_group": {"name": "x", "policy": "anti-affinity", "rules": {"max_server_per_host":
			0}}}`, 400, "max_server_per_host"},
		{"2.64", "POST", path, `{"server_group": {"name": "x", "policy": "legacy"}}`, 400, "legacy"},
		{"2.12", "GET", path + "/" + id, "", 200, `"metadata":{}}`},
		{"2.64", "GET", path + "?limit=1&offset=1", "", 200, `"policy":"affinity","rules":{}}]}`},
		{"2.64", "GET", path + "?limit=x", "", 400, "limit"},
		{"2.64", "POST", "/servers", server("none"), 400, "the UUID of a server group"},
		{"2.64", "POST", "/servers", server("11111111-1111-4111-8111-111111111111"), 400, "could not be found"},
		{"2.64", "POST", "/servers", server(id), 202, ""},
	})
	h.exchanges("bob:p2", []exchange{
		{"2.64", "GET", path, "", 200, `{"server_groups":[]}`},
		{"2.64", "GET", path + "?all_projects=1", "", 200, `{"server_groups":[]}`},
		{"2.64", "GET", path + "/" + id, "", 403, ""},
		{"2.64", "DELETE", path + "/" + id, "", 403, ""},
		{"2.64", "POST", "/servers", server(id), 400, "could not be found"},
	})
	h.exchanges("admin", []exchange{{"2.64", "GET", path + "?all_projects=1", "", 200, `"name":"db"`}})
	list := h.ask("GET", "/v2.1/servers", "")
	first, _ := list.dig("servers").([]any)
	member, _ := first[0].(map[string]any)["id"].(string)
	h.exchanges("ann:p1", []exchange{
		{"2.64", "GET", path + "/" + id, "", 200, `"members":["` + member + `"]`},
		{"2.71", "GET", "/servers/" + member, "", 200, `"server_groups":["` + id + `"]`},
		{"2.100", "GET", "/servers/" + member, "", 200, `"scheduler_hints":{"group":"` + id + `"}`},
		{"2.64", "DELETE", path + "/" + id, "", 204, ""},
		{"2.64", "DELETE", path + "/" + id, "", 404, "Instance group " + id + " could not be found."},
		{"2.71", "GET", "/servers/" + member, "", 200, `"server_groups":[]`},
	})
	for range 8 {
		h.ask("POST", "/v2.1"+path, old(`["affinity"]`))
	}
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", path, old(`["affinity"]`), 403, "Quota exceeded, too many server groups."},
		{"2.57", "GET", "/limits", "", 200, `"totalServerGroupsUsed":10`},
	})
}
