package policies

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
)

// TestDefaults has the table of the package comment: what each caller may do with the objects of the project p.
func TestDefaults(t *testing.T) {
	callers := map[string]identity.Identity{
		"owner":   {User: "u", Project: "p"},
		"other":   {User: "o", Project: "q"},
		"service": {User: "s", Project: "service", Roles: []string{"service"}},
		"admin":   {User: "a", Project: "a", Roles: []string{"admin"}},
	}
	target := func(shared bool, strategy string) map[string]any {
		return map[string]any{"project_id": "p", "shared": shared, "router:external": false, "network:project_id": "p",
			"owner_kind": "compute", "auth_strategy": strategy}
	}
	for _, c := range []struct {
		rule    string
		shared  bool
		allowed string // callers, separated by spaces
	}{
		{"get_network", false, "owner service admin"}, {"get_network", true, "owner other service admin"},
		{"update_network", true, "owner admin"}, {"create_network", false, "owner admin"},
		{"create_network:shared", false, "admin"}, {"get_network:provider:network_type", false, "admin"},
		{"get_subnet", true, "owner other service admin"}, {"create_subnet", false, "owner admin"},
		{"get_port", false, "owner service admin"}, {"get_port:resource_request", false, "service admin"},
		{"update_port", false, "owner service admin"}, {"update_port:binding:host_id", false, "service admin"},
		{"create_port:fixed_ips", false, "owner service admin"}, {"create_port:device_owner", true,
			"owner other service admin"},
		{"get_policy", true, "owner other service admin"}, {"get_policy", false, "owner service admin"},
		{"update_policy", false, "admin"}, {"get_security_group", false, "owner service admin"},
		{"get_security_group_rule", false, "owner service admin"}, {"create_security_group_rule", false, "owner admin"},
		{"update_security_group", false, "owner admin"}, {"delete_security_group", false, "owner admin"},
		{"get_agent", false, "admin"}, {"get_quota", false, "owner admin"}, {"update_quota", false, "admin"},
		{ReportAgent, false, "service"}, {ReadPorts, false, "service"}, {BindHost, false, "admin"},
		{"unknown", false, ""},
	} {
		for name, caller := range callers {
			want := false
			for _, one := range strings.Fields(c.allowed) {
				want = want || one == name
			}
			if got, why := Default().Allow(c.rule, caller, target(c.shared, "keystone")); got != want {
				t.Errorf("%s shared %t: %s: %t (%s)", c.rule, c.shared, name, got, why)
			}
		}
	}
	if ok, why := Default().Allow(ReportAgent, callers["admin"], target(false, "noauth2")); !ok {
		t.Errorf("an administrator with noauth2 may not report: %s", why)
	}
	if !Has("create_network:shared") || Has("create_network:color") {
		t.Error("Has is wrong")
	}
}
