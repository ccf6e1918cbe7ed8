package server

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/operations"
)

// list returns the objects of a list.
func (f *fixture) list(token, path, key string) (all []map[string]any) {
	f.t.Helper()
	status, answer := f.do(token, "GET", path, "")
	if status != http.StatusOK {
		f.t.Fatalf("GET %s: %d %v", path, status, answer)
	}
	for _, one := range answer[key].([]any) {
		all = append(all, one.(map[string]any))
	}
	return all
}

// group creates a security group and returns its id.
func (f *fixture) group(token, name string) string {
	f.t.Helper()
	return f.create(token, "/v2.0/security-groups", "security_group", `{"name": "`+name+`"}`)["id"].(string)
}

// TestDefaultSecurityGroup: each project has one group default from its first use on, with four rules. It stays.
func TestDefaultSecurityGroup(t *testing.T) {
	f := start(t)
	for range 2 {
		if got := f.names("demo", "/v2.0/security-groups", "security_groups"); !slices.Equal(got, []string{"default"}) {
			t.Fatalf("groups %v", got)
		}
	}
	g := f.list("demo", "/v2.0/security-groups", "security_groups")[0]
	id := g["id"].(string)
	var got []string
	for _, one := range g["security_group_rules"].([]any) {
		r := one.(map[string]any)
		got = append(got, fmt.Sprintf("%v %v %v %t", r["direction"], r["ethertype"], r["protocol"],
			r["remote_group_id"] == id))
	}
	slices.Sort(got)
	if want := []string{"egress IPv4 <nil> false", "egress IPv6 <nil> false", "ingress IPv4 <nil> true",
		"ingress IPv6 <nil> true"}; !slices.Equal(got, want) {
		t.Errorf("rules %v", got)
	}
	path := "/v2.0/security-groups/" + id
	f.fails(409, "SecurityGroupCannotRemoveDefault", "demo", "DELETE", path, "")
	f.fails(409, "SecurityGroupCannotUpdateDefault", "demo", "PUT", path, `{"security_group": {"name": "x"}}`)
	f.fails(409, "SecurityGroupDefaultAlreadyExists", "demo", "POST", "/v2.0/security-groups",
		`{"security_group": {"name": "default"}}`)
	f.put(path, `{"security_group": {"name": "default", "description": "words"}}`)
	web := f.group("demo", "web")
	f.fails(409, "SecurityGroupCannotUpdateDefault", "demo", "PUT", "/v2.0/security-groups/"+web,
		`{"security_group": {"name": "default"}}`)
	f.fails(404, "SecurityGroupNotFound", "other", "GET", path, "")
	got = f.names("admin", "/v2.0/security-groups?tenant_id=new", "security_groups")
	if !slices.Equal(got, []string{"default"}) {
		t.Errorf("a project that an administrator names: %v", got)
	}
	f.names("other", "/v2.0/security-groups?tenant_id=made-up", "security_groups")
	if got := f.list("admin", "/v2.0/security-groups", "security_groups"); len(got) != 5 { // demo 2, other, new, admin
		t.Errorf("groups %v", got)
	}
}

// TestSecurityGroups changes groups and their rules, and lists them.
func TestSecurityGroups(t *testing.T) {
	f := start(t)
	web, db := f.group("demo", "web"), f.group("demo", "db")
	theirs := f.group("other", "theirs")
	path := "/v2.0/security-groups/" + web
	rule := func(group, more string) string {
		return `{"security_group_id": "` + group + `", "direction": "ingress"` + more + `}`
	}
	const rules = "/v2.0/security-group-rules"
	r := f.create("demo", rules, "security_group_rule", rule(web, `, "protocol": "TCP", "port_range_min": "22",
		"port_range_max": 22, "remote_ip_prefix": "192.0.2.7/24"`))
	if r["protocol"] != "tcp" || r["remote_ip_prefix"] != "192.0.2.0/24" || r["port_range_min"] != 22.0 ||
		r["project_id"] != "demo" || r["ethertype"] != "IPv4" || r["remote_group_id"] != nil || r["id"] == "" {
		t.Errorf("rule %v", r)
	}
	f.create("demo", rules, "security_group_rule", rule(web, `, "remote_group_id": "`+db+`"`))
	six := f.create("admin", rules, "security_group_rule", rule(web, `, "protocol": "icmp", "ethertype": "ipv6"`))
	if six["protocol"] != "ipv6-icmp" || six["project_id"] != "demo" {
		t.Errorf("rule %v", six)
	}
	_, answer := f.do("demo", "GET", path, "")
	g := answer["security_group"].(map[string]any)
	if len(g["security_group_rules"].([]any)) != 5 || g["revision_number"] != 4.0 || g["stateful"] != true ||
		g["shared"] != false {
		t.Errorf("group %v", g)
	}
	for query, want := range map[string]int{"security_group_id=" + web: 5, "direction=ingress&security_group_id=" + web: 3,
		"remote_group_id=" + db: 1, "port_range_min=22": 1, "protocol=tcp": 1, "remote_ip_prefix=192.0.2.0/24": 1} {
		if got := f.list("demo", rules+"?"+query, "security_group_rules"); len(got) != want {
			t.Errorf("%s: %d rules, want %d", query, len(got), want)
		}
	}
	for query, want := range map[string][]string{"name=web": {"web"}, "shared=False": {"db", "default", "web"},
		"shared=true": nil, "stateful=false": nil, "sort_key=name&limit=1": {"db"}} {
		got := f.names("demo", "/v2.0/security-groups?"+query, "security_groups")
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v", query, got)
		}
	}
	for _, c := range []struct {
		status     int
		kind, body string
	}{
		{409, "SecurityGroupRuleExists", rule(web, `, "protocol": "6", "port_range_min": 22, "port_range_max": 22,
			"remote_ip_prefix": "192.0.2.0/24"`)},
		{400, "SecurityGroupRuleInvalidProtocol", rule(web, `, "protocol": "tcpp"`)},
		{404, "SecurityGroupNotFound", rule(theirs, "")},
		{404, "SecurityGroupNotFound", rule(web, `, "remote_group_id": "`+theirs+`"`)},
		{400, "HTTPBadRequest", rule(web, `, "direction": "up"`)},
		{400, "HTTPBadRequest", `{"direction": "ingress"}`},
		{400, "HTTPBadRequest", `{"security_group_id": "` + web + `"}`},
		{400, "HTTPBadRequest", rule(web, `, "remote_address_group_id": "x"`)},
	} {
		f.fails(c.status, c.kind, "demo", "POST", rules, `{"security_group_rule": `+c.body+`}`)
	}
	f.fails(404, "SecurityGroupRuleNotFound", "other", "DELETE", rules+"/"+r["id"].(string), "")
	f.fails(412, "RevisionNumberConstraintFailed", "demo", "DELETE", path, "", "If-Match", "revision_number=1")
	if status, _ := f.do("demo", "DELETE", "/v2.0/security-groups/"+db, ""); status != 204 {
		t.Errorf("%d", status)
	}
	if got := f.list("demo", rules+"?security_group_id="+web, "security_group_rules"); len(got) != 4 {
		t.Errorf("rules after the remote group was deleted: %v", got)
	}
	if status, _ := f.do("demo", "DELETE", rules+"/"+r["id"].(string), ""); status != 204 {
		t.Errorf("%d", status)
	}
}

// TestSecurityGroupsInBulk creates several rules in one request, all or none, and tags a group.
func TestSecurityGroupsInBulk(t *testing.T) {
	f := start(t)
	web := f.group("demo", "web")
	body := func(port int) string {
		return fmt.Sprintf(`{"security_group_id": "%s", "direction": "ingress", "protocol": "tcp", "port_range_min": %d,
			"port_range_max": 99}`, web, port)
	}
	const rules = "/v2.0/security-group-rules"
	f.fails(400, "SecurityGroupInvalidPortRange", "demo", "POST", rules,
		`{"security_group_rules": [`+body(1)+`,`+body(100)+`]}`)
	status, answer := f.do("demo", "POST", rules, `{"security_group_rules": [`+body(1)+`,`+body(2)+`]}`)
	if status != 201 || len(answer["security_group_rules"].([]any)) != 2 {
		t.Errorf("%d %v", status, answer)
	}
	if got := f.list("demo", rules+"?protocol=tcp", "security_group_rules"); len(got) != 2 {
		t.Errorf("rules %v", got)
	}
	if status, _ := f.do("demo", "PUT", "/v2.0/security-groups/"+web+"/tags/blue", ""); status != 201 {
		t.Errorf("tag: %d", status)
	}
	got := f.names("demo", "/v2.0/security-groups?tags=blue", "security_groups")
	if !slices.Equal(got, []string{"web"}) {
		t.Errorf("groups %v", got)
	}
}

// TestSecurityGroupQuotas: groups and rules have limits of their own.
func TestSecurityGroupQuotas(t *testing.T) {
	f := start(t)
	f.put("/v2.0/quotas/demo", `{"quota": {"security_group": 2, "security_group_rule": 7}}`)
	web := f.group("demo", "web")
	f.fails(409, "OverQuota", "demo", "POST", "/v2.0/security-groups", `{"security_group": {"name": "db"}}`)
	rule := `{"security_group_id": "` + web + `", "direction": "ingress"`
	f.create("demo", "/v2.0/security-group-rules", "security_group_rule", rule+`}`)
	f.fails(409, "OverQuota", "demo", "POST", "/v2.0/security-group-rules",
		`{"security_group_rule": `+rule+`, "protocol": "udp"}}`)
	_, answer := f.do("admin", "GET", "/v2.0/quotas/demo/details", "")
	if used := answer["quota"].(map[string]any)["security_group_rule"].(map[string]any)["used"]; used != 7.0 {
		t.Errorf("used %v", used)
	}
}

// TestSecurityGroupsOfPorts: a port gets the default group of its project, those of the request, or none.
func TestSecurityGroupsOfPorts(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	bare := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`"}`)
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "cidr": "10.0.0.0/24", "ip_version": 4}`)
	web, theirs := f.group("demo", "web"), f.group("other", "theirs")
	basic := f.list("demo", "/v2.0/security-groups?name=default", "security_groups")[0]["id"].(string)
	port := func(more string) map[string]any {
		t.Helper()
		return f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`"`+more+`}`)
	}
	for _, c := range []struct {
		name string
		port map[string]any
		want []any
	}{
		{"without an address", bare, []any{basic}}, {"unset", port(""), []any{basic}},
		{"null", port(`, "security_groups": null`), []any{basic}},
		{"none", port(`, "security_groups": []`), []any{}},
		{"one, twice", port(`, "security_groups": ["` + web + `", "` + web + `"]`), []any{web}},
		{"no port security", port(`, "port_security_enabled": false`), []any{}},
		{"a DHCP server", port(`, "device_owner": "network:dhcp"`), []any{}},
	} {
		if got := c.port["security_groups"].([]any); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	p := port(`, "security_groups": ["` + web + `"]`)
	path := "/v2.0/ports/" + p["id"].(string)
	f.fails(409, "SecurityGroupInUse", "demo", "DELETE", "/v2.0/security-groups/"+web, "")
	f.fails(409, "SecurityGroupInUse", "demo", "PUT", "/v2.0/security-groups/"+web,
		`{"security_group": {"stateful": false}}`)
	f.fails(409, "PortSecurityPortHasSecurityGroup", "demo", "PUT", path, `{"port": {"port_security_enabled": false}}`)
	f.fails(404, "SecurityGroupNotFound", "demo", "PUT", path, `{"port": {"security_groups": ["`+theirs+`"]}}`)
	f.fails(400, "HTTPBadRequest", "demo", "PUT", path, `{"port": {"security_groups": "web"}}`)
	f.fails(400, "PortSecurityAndIPRequiredForSecurityGroups", "demo", "PUT", path,
		`{"port": {"port_security_enabled": false, "security_groups": ["`+basic+`"]}}`)
	f.fails(409, "SecurityGroupNotEnforced", "demo", "POST", "/v2.0/ports", `{"port": {"network_id": "`+n+`",
		"binding:vnic_type": "direct", "security_groups": ["`+web+`"]}}`)
	port(`, "binding:vnic_type": "direct"`)
	free := f.create("demo", "/v2.0/security-groups", "security_group",
		`{"name": "free", "stateful": false}`)["id"].(string)
	f.fails(409, "SecurityGroupConflict", "demo", "PUT", path, `{"port": {"security_groups": ["`+web+`", "`+free+`"]}}`)
	if got := f.list("demo", "/v2.0/ports?security_groups="+web, "ports"); len(got) != 2 {
		t.Errorf("ports with the group: %v", got)
	}
	f.put(path, `{"port": {"security_groups": [], "port_security_enabled": false}}`)
	f.put(path, `{"port": {"port_security_enabled": true}}`)
	f.put(path, `{"port": {"security_groups": ["`+web+`", "`+basic+`"]}}`)
	f.put(path, `{"port": {"security_groups": null}}`)
	if _, answer := f.do("demo", "GET", path, ""); len(answer["port"].(map[string]any)["security_groups"].([]any)) != 0 {
		t.Errorf("%v", answer)
	}
}

// TestSecurityGroupsWithoutFilter: an agent of Open vSwitch binds ports with the default group, and no others.
func TestSecurityGroupsWithoutFilter(t *testing.T) {
	f := start(t)
	agents := operations.Agents{Service: f.ops}
	must(t, agents.ReportAgent(t.Context(), "h", string(bandwidth.OpenVSwitch), api.AgentReport{}))
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "cidr": "10.0.0.0/24", "ip_version": 4}`)
	web := f.group("demo", "web")
	bound := func(more string) map[string]any {
		t.Helper()
		return f.create("admin", "/v2.0/ports", "port", `{"network_id": "`+n+`", "project_id": "demo",
			"binding:host_id": "h"`+more+`}`)
	}
	refused := bound(`, "security_groups": ["` + web + `"]`)
	if refused["binding:vif_type"] != "binding_failed" {
		t.Errorf("%v", refused)
	}
	ok := bound("")
	if ok["binding:vif_type"] != "ovs" || ok["binding:vif_details"].(map[string]any)["port_filter"] != false {
		t.Errorf("%v", ok)
	}
	f.fails(409, "SecurityGroupNotEnforced", "demo", "PUT", "/v2.0/ports/"+ok["id"].(string),
		`{"port": {"security_groups": ["`+web+`"]}}`)
	f.put("/v2.0/ports/"+refused["id"].(string), `{"port": {"security_groups": []}}`)
	_, answer := f.do("admin", "GET", "/v2.0/ports/"+refused["id"].(string), "")
	if now := answer["port"].(map[string]any); now["binding:vif_type"] != "ovs" {
		t.Errorf("without groups: %v", now)
	}
}
