package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// TestVisibility: a caller sees the objects of the own project and shared ones; others are answered like missing ones.
func TestVisibility(t *testing.T) {
	f := start(t)
	mine := f.create("demo", "/v2.0/networks", "network", `{"name": "mine"}`)
	theirs := f.create("other", "/v2.0/networks", "network", `{"name": "theirs"}`)
	f.create("admin", "/v2.0/networks", "network", `{"name": "public", "shared": true}`)
	if got := f.names("demo", "/v2.0/networks?sort_key=name", "networks"); !slices.Equal(got, []string{"mine", "public"}) {
		t.Errorf("demo sees %v", got)
	}
	if got := f.names("admin", "/v2.0/networks", "networks"); len(got) != 3 {
		t.Errorf("admin sees %v", got)
	}
	path := "/v2.0/networks/" + theirs["id"].(string)
	f.fails(404, "NetworkNotFound", "demo", "GET", path, "")
	f.fails(404, "NetworkNotFound", "demo", "PUT", path, `{"network": {"name": "x"}}`)
	f.fails(404, "NetworkNotFound", "demo", "DELETE", path, "")
	f.fails(404, "NetworkNotFound", "demo", "POST", "/v2.0/ports", `{"port": {"network_id": "`+theirs["id"].(string)+`"}}`)
	f.fails(403, "PolicyNotAuthorized", "demo", "POST", "/v2.0/networks", `{"network": {"shared": true}}`)
	f.fails(400, "HTTPBadRequest", "demo", "POST", "/v2.0/networks", `{"network": {"project_id": "other"}}`)
	f.fails(403, "PolicyNotAuthorized", "demo", "GET", "/v2.0/quotas", "")
	f.fails(401, "HTTPUnauthorized", "", "GET", "/v2.0/networks", "", "X-Auth-Token", "")
	if _, ok := mine["provider:network_type"]; ok {
		t.Errorf("a user sees the provider attributes: %v", mine)
	}
}

// TestPoliciesOfOthers: a caller can use policies of the own project and shared ones only.
func TestPoliciesOfOthers(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	secret := f.create("admin", "/v2.0/qos/policies", "policy", `{}`)["id"].(string)
	own := f.create("admin", "/v2.0/qos/policies", "policy", `{"project_id": "demo"}`)["id"].(string)
	shared := f.create("admin", "/v2.0/qos/policies", "policy", `{"shared": true}`)["id"].(string)
	f.fails(404, "QosPolicyNotFound", "demo", "PUT", "/v2.0/networks/"+n, `{"network": {"qos_policy_id": "`+secret+`"}}`)
	f.fails(404, "QosPolicyNotFound", "demo", "POST", "/v2.0/ports",
		`{"port": {"network_id": "`+n+`", "qos_policy_id": "`+secret+`"}}`)
	for _, policy := range []string{own, shared} {
		port := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`", "qos_policy_id": "`+policy+`"}`)
		if port["qos_policy_id"] != policy {
			t.Errorf("%v", port)
		}
		path := "/v2.0/ports/" + port["id"].(string)
		if status, answer := f.do("demo", "PUT", path, `{"port": {"qos_policy_id": null}}`); status != 200 {
			t.Errorf("%d %v", status, answer)
		}
	}
}

// TestHiddenAttributesOfPorts: resource_request and the binding are shown to administrators and services only.
func TestHiddenAttributesOfPorts(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	port := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`"}`)
	for _, name := range []string{"resource_request", "binding:host_id", "binding:profile", "binding:vif_type"} {
		if _, shown := port[name]; shown {
			t.Errorf("a user sees %s", name)
		}
		path := "/v2.0/ports/" + port["id"].(string)
		for token, roles := range map[string]string{"admin": "admin", "nova": "service"} {
			_, answer := f.do(token, "GET", path, "", "X-Roles", roles)
			if _, shown := answer["port"].(map[string]any)[name]; !shown {
				t.Errorf("%s does not see %s", token, name)
			}
		}
	}
	f.fails(403, "PolicyNotAuthorized", "demo", "PUT", "/v2.0/ports/"+port["id"].(string),
		`{"port": {"binding:host_id": "h"}}`)
}

// TestLists has filters, sorting, pages and fields.
func TestLists(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "cidr": "10.0.0.0/24", "ip_version": 4}`)
	for i := range 5 {
		f.create("demo", "/v2.0/ports", "port", fmt.Sprintf(`{"network_id": "%s", "name": "p%d", "device_id": "d%d",
			"admin_state_up": %t}`, n, i, i%2, i > 2))
	}
	for query, want := range map[string][]string{
		"name=p1&name=p2":                          {"p1", "p2"},
		"device_id=d1":                             {"p1", "p3"},
		"device_id=d1&name=p3":                     {"p3"},
		"admin_state_up=true":                      {"p3", "p4"},
		"admin_state_up=False&device_id=d0":        {"p0", "p2"},
		"fixed_ips=ip_address%3D10.0.0.4":          {"p2"},
		"fixed_ips=ip_address_substr%3D.0.6":       {"p4"},
		"network_id=none":                          nil,
		"project_id=demo&name=p0":                  {"p0"},
		"sort_key=device_id&sort_dir=desc&limit=2": {"p1", "p3"},
		"limit=0": {"p0", "p1", "p2", "p3", "p4"},
		"binding%3Avnic_type=normal&device_id=d1":  {"p1", "p3"},
		"revision_number=1&name=p4&tenant_id=demo": {"p4"},
		"tags=red":             nil,
		"not-tags=red&name=p4": {"p4"},
		"name=p2&fields=name&fields=id&network_id=" + n: {"p2"},
	} {
		got := f.names("demo", "/v2.0/ports?"+query, "ports")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	f.pages(t)
	_, answer := f.do("demo", "GET", "/v2.0/ports?fields=name&name=p1", "")
	if port := answer["ports"].([]any)[0].(map[string]any); len(port) != 1 || port["name"] != "p1" {
		t.Errorf("fields: %v", port)
	}
	for _, query := range []string{"color=red", "sort_key=color", "sort_key=name&sort_dir=up", "limit=-1", "limit=x",
		"marker=none", "sort_key=name&sort_dir=asc&sort_dir=asc"} {
		f.fails(400, "HTTPBadRequest", "demo", "GET", "/v2.0/ports?"+query, "")
	}
	f.fails(400, "InvalidInput", "demo", "GET", "/v2.0/ports?admin_state_up=up", "")
}

// pages follows the links of the pages in both directions.
func (f *fixture) pages(t *testing.T) {
	t.Helper()
	var names []string
	path, previous := "/v2.0/ports?limit=2&sort_key=name&sort_dir=asc", ""
	for path != "" {
		_, answer := f.do("demo", "GET", path, "")
		for _, one := range answer["ports"].([]any) {
			names = append(names, one.(map[string]any)["name"].(string))
		}
		path = ""
		links, _ := answer["ports_links"].([]any)
		for _, one := range links {
			link := one.(map[string]any)
			if link["rel"] == "next" {
				path = link["href"].(string)
			} else {
				previous = link["href"].(string)
			}
		}
	}
	if want := []string{"p0", "p1", "p2", "p3", "p4"}; !slices.Equal(names, want) {
		t.Errorf("pages: %v, want %v", names, want)
	}
	if got := f.names("demo", previous, "ports"); !slices.Equal(got, []string{"p2", "p3"}) {
		t.Errorf("the previous page: %v", got)
	}
}

// TestRevisions: If-Match refuses an update and a deletion of an outdated object.
func TestRevisions(t *testing.T) {
	f := start(t)
	path := "/v2.0/networks/" + f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	body := `{"network": {"name": "x"}}`
	status, answer := f.do("demo", "PUT", path, body, "If-Match", "revision_number=1")
	if status != 200 || answer["network"].(map[string]any)["revision_number"] != 2.0 {
		t.Errorf("%d %v", status, answer)
	}
	f.fails(412, "RevisionNumberConstraintFailed", "demo", "PUT", path, body, "If-Match", "revision_number=1")
	f.fails(400, "HTTPBadRequest", "demo", "PUT", path, body, "If-Match", "5")
	network := strings.TrimPrefix(path, "/v2.0/networks/")
	for _, c := range []struct{ path, kind, body, first string }{{"/v2.0/networks", "network", `{}`, "1"},
		{"/v2.0/ports", "port", `{"network_id": "` + network + `"}`, "1"},
		{"/v2.0/subnets", "subnet", `{"network_id": "` + network + `", "ip_version": 4, "cidr": "10.1.0.0/24"}`, "0"},
		{"/v2.0/qos/policies", "policy", `{"name": "p"}`, "0"}} {
		own := c.path + "/" + f.create("admin", c.path, c.kind, c.body)["id"].(string)
		f.fails(412, "RevisionNumberConstraintFailed", "admin", "DELETE", own, "", "If-Match", "revision_number=7")
		if status, answer := f.do("admin", "DELETE", own, "", "If-Match", "revision_number="+c.first); status != 204 {
			t.Errorf("DELETE %s: %d %v", own, status, answer)
		}
	}
	_, answer = f.do("demo", "GET", path, "") // the subnet was created and deleted
	if number := answer["network"].(map[string]any)["revision_number"]; number != 4.0 {
		t.Errorf("the network has the revision %v", number)
	}
}

// TestSubnetsOfSharedNetworks: subnets can be filtered by whether their network is shared, which they do not show.
func TestSubnetsOfSharedNetworks(t *testing.T) {
	f := start(t)
	for name, body := range map[string]string{"own": `{}`, "common": `{"shared": true}`} {
		n := f.create("admin", "/v2.0/networks", "network", body)["id"].(string)
		sub := f.create("admin", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "name": "`+name+
			`", "cidr": "10.0.0.0/24", "ip_version": 4}`)
		if _, shown := sub["shared"]; shown {
			t.Errorf("%v", sub)
		}
	}
	for query, want := range map[string]string{"shared=False": "own", "shared=true": "common"} {
		if got := f.names("admin", "/v2.0/subnets?"+query, "subnets"); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v", query, got)
		}
	}
}

// TestUserChosenSubnets: the addresses of a subnet count as a user's if a user has made it, or has changed them.
func TestUserChosenSubnets(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	subnet := func(token, cidr string) string {
		return f.create(token, "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "ip_version": 4, "project_id": "demo",
			"cidr": "`+cidr+`"}`)["id"].(string)
	}
	made, given := subnet("demo", "10.0.0.0/24"), subnet("admin", "10.0.1.0/24")
	chosen := func(id string) bool {
		sub, err := operations.Get[store.Subnet](t.Context(), f.ops, id)
		must(t, err)
		return sub.UserChosen
	}
	change := func(body string) {
		if status, answer := f.do("demo", "PUT", "/v2.0/subnets/"+given, `{"subnet": `+body+`}`); status != 200 {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	change(`{"name": "renamed"}`)
	if !chosen(made) || chosen(given) {
		t.Errorf("made by a user: %t, by an administrator: %t", chosen(made), chosen(given))
	}
	change(`{"allocation_pools": [{"start": "10.0.1.10", "end": "10.0.1.20"}]}`)
	if !chosen(given) {
		t.Error("a user has changed its addresses")
	}
}

// TestAddressesAreSorted: the addresses of a port are listed by their texts, as by Neutron.
func TestAddressesAreSorted(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "cidr": "10.0.0.0/24", "ip_version": 4}`)
	port := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`", "fixed_ips": [{"ip_address": "10.0.0.9"},
		{"ip_address": "10.0.0.30"}, {"ip_address": "10.0.0.4"}]}`)
	if got := fmt.Sprint(port["fixed_ips"]); !regexp.MustCompile(`0\.30 .*0\.4 .*0\.9 `).MatchString(got) {
		t.Errorf("%s", got)
	}
}

// TestBadRequests: bodies that the API does not accept.
func TestBadRequests(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	for _, c := range []struct{ path, body, kind string }{
		{"/v2.0/networks", `{`, "HTTPBadRequest"},
		{"/v2.0/networks", `{"networks": [{"color": 1}]}`, "HTTPBadRequest"},
		{"/v2.0/networks", `{"network": {"id": "x"}}`, "HTTPBadRequest"},
		{"/v2.0/networks", `{"network": {"name": 5}}`, "HTTPBadRequest"},
		{"/v2.0/networks", `{"network": {"admin_state_up": "maybe"}}`, "HTTPBadRequest"},
		{"/v2.0/networks", `{"network": {"mtu": 9000}}`, "InvalidInput"},
		{"/v2.0/networks", `{"network": {"project_id": "demo", "tenant_id": "x"}}`, "HTTPBadRequest"},
		{"/v2.0/subnets", `{"subnet": {"cidr": "10.0.0.0/24"}}`, "HTTPBadRequest"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `"}}`, "HTTPBadRequest"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "cidr": "10.0.0.0/33"}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "ip_version": 4, "cidr": "10.0.0.0/24",
			"gateway_ip": "10.0.0.255"}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "ip_version": 6, "cidr": "fd00:9::/64",
			"gateway_ip": "fe80::1%x\\ny"}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "ip_version": 6, "cidr": "fd00:9::/64",
			"dns_nameservers": ["fe80::1%x\\ny"]}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "ip_version": 4, "cidr": "10.0.0.0/24",
			"gateway_ip": "10.0.0.0"}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "cidr": "10.0.0.0/24", "ip_version": 6}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "cidr": "169.254.169.0/24", "ip_version": 4}}`,
			"InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "cidr": "0.0.0.0/0", "ip_version": 4}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "cidr": "fe80::/64", "ip_version": 6}}`, "InvalidInput"},
		{"/v2.0/subnets", `{"subnet": {"network_id": "` + n + `", "cidr": "10.0.0.0/24", "ipv6_ra_mode": "slaac"}}`,
			"InvalidInput"},
		{"/v2.0/ports", `{"port": {"network_id": "` + n + `", "mac_address": "x"}}`, "HTTPBadRequest"},
		{"/v2.0/ports", `{"port": {"network_id": "` + n + `", "binding:vnic_type": "x"}}`, "HTTPBadRequest"},
		{"/v2.0/ports", `{"port": {"network_id": "` + n + `", "fixed_ips": [{}]}}`, "HTTPBadRequest"},
		{"/v2.0/ports", `{"port": {"network_id": "` + n + `", "resource_request": {}}}`, "HTTPBadRequest"},
		{"/v2.0/ports", `{"port": {"network_id": "` + n + `", "extra_dhcp_opts": ["x"]}}`, "HTTPBadRequest"},
	} {
		f.fails(400, c.kind, "admin", "POST", c.path, c.body)
	}
	f.fails(415, "HTTPUnsupportedMediaType", "demo", "POST", "/v2.0/networks", `{}`, "Content-Type", "text/plain")
	f.fails(404, "HTTPNotFound", "demo", "GET", "/v2.0/routers", "")
	f.fails(405, "HTTPMethodNotAllowed", "demo", "DELETE", "/v2.0/networks", "")
	f.fails(404, "QosPolicyNotFound", "demo", "POST", "/v2.0/networks", `{"network": {"qos_policy_id": "x"}}`)
}

// TestTags sets, filters by and removes tags.
func TestTags(t *testing.T) {
	f := start(t)
	id := f.create("demo", "/v2.0/networks", "network", `{"name": "n"}`)["id"].(string)
	path := "/v2.0/networks/" + id + "/tags"
	if status, answer := f.do("demo", "PUT", path, `{"tags": ["b", "a", "a"]}`); status != 200 ||
		fmt.Sprint(answer["tags"]) != "[a b]" {
		t.Errorf("%d %v", status, answer)
	}
	for query, want := range map[string]int{"tags=a,b": 1, "tags=a,c": 0, "tags-any=a,c": 1, "not-tags=a,b": 0,
		"not-tags=a,c": 1, "not-tags-any=c": 1, "not-tags-any=a,c": 0} {
		if got := f.names("demo", "/v2.0/networks?"+query, "networks"); len(got) != want {
			t.Errorf("%s: %v, want %d", query, got, want)
		}
	}
	for _, c := range []struct {
		method, tag string
		want        int
	}{{"GET", "/a", 204}, {"PUT", "/c", 201}, {"DELETE", "/a", 204}, {"GET", "/a", 404}, {"DELETE", "/a", 404},
		{"DELETE", "", 204}} {
		if status, answer := f.do("demo", c.method, path+c.tag, ""); status != c.want {
			t.Errorf("%s %s: %d %v", c.method, c.tag, status, answer)
		}
	}
	f.fails(404, "NetworkNotFound", "other", "PUT", path, `{"tags": []}`)
}

// TestQuotas reads, sets and resets limits.
func TestQuotas(t *testing.T) {
	f := start(t)
	limit := func(project string) int {
		t.Helper()
		limits, err := f.client("admin").Quota(t.Context(), project)
		must(t, err)
		return limits["network"]
	}
	if got := limit("demo"); got != 100 {
		t.Errorf("default %d", got)
	}
	f.fails(403, "PolicyNotAuthorized", "demo", "PUT", "/v2.0/quotas/demo", `{"quota": {"network": 1}}`)
	if status, answer := f.do("admin", "PUT", "/v2.0/quotas/demo", `{"quota": {"network": 1}}`); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
	f.create("demo", "/v2.0/networks", "network", `{}`)
	f.fails(409, "OverQuota", "demo", "POST", "/v2.0/networks", `{"network": {}}`)
	_, answer := f.do("demo", "GET", "/v2.0/quotas/demo/details.json", "")
	if got := fmt.Sprint(answer["quota"].(map[string]any)["network"]); got != "map[limit:1 reserved:0 used:1]" {
		t.Error(got)
	}
	if status, _ := f.do("admin", "DELETE", "/v2.0/quotas/demo", ""); status != 204 || limit("demo") != 100 {
		t.Errorf("%d, limit %d", status, limit("demo"))
	}
	f.fails(404, "TenantQuotaNotFound", "admin", "DELETE", "/v2.0/quotas/demo", "")

	// what is read can be written, and a written value is read
	_, read := f.do("admin", "GET", "/v2.0/quotas/demo", "")
	read["quota"].(map[string]any)["router"] = 7
	read["quota"].(map[string]any)["port"] = -1
	body, err := json.Marshal(read)
	must(t, err)
	status, written := f.do("admin", "PUT", "/v2.0/quotas/demo", string(body))
	_, again := f.do("admin", "GET", "/v2.0/quotas/demo", "")
	if status != 200 || fmt.Sprint(written) != fmt.Sprint(read) || fmt.Sprint(again) != fmt.Sprint(read) {
		t.Errorf("%d: read %v, written %v, then %v", status, read, written, again)
	}
	f.fails(400, "InvalidInput", "admin", "PUT", "/v2.0/quotas/demo", `{"quota": {"network": 0, "check_limit": true}}`)
	for body, want := range map[string]int{`{"network": 0, "force": true}`: 200, `{"network": -2}`: 400,
		`{"nets": 1}`: 400, `{"network": "5"}`: 200} {
		if status, answer := f.do("admin", "PUT", "/v2.0/quotas/demo", `{"quota": `+body+`}`); status != want {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
}

// TestHostAccounts: the first account that reports a host is bound to the host.
func TestHostAccounts(t *testing.T) {
	f := start(t)
	report := func(user string, want int) {
		t.Helper()
		status, answer := f.do(user, "PUT", "/berth/v1/network-agents/cmp1/NIC%20Switch%20agent", `{"devices": []}`,
			"X-Roles", "service")
		if status != want {
			t.Errorf("%s: %d %v, want %d", user, status, answer, want)
		}
	}
	if status, _ := f.do("demo", "PUT", "/berth/v1/network-agents/cmp1/x", `{}`); status != http.StatusForbidden {
		t.Errorf("a user may report an agent: %d", status)
	}
	report("one", 204)
	report("two", 403)
	if status, _ := f.do("admin", "PUT", "/berth/v1/hosts/cmp1/account", `{"account": "two"}`); status != 204 {
		t.Errorf("%d", status)
	}
	report("one", 403)
	report("two", 204)
	agents, err := f.client("admin").Agents(t.Context(), nil)
	if err != nil || len(agents) != 1 || agents[0].Type != "NIC Switch agent" || !agents[0].Alive ||
		agents[0].Synced != nil {
		t.Errorf("%+v %v", agents, err)
	}
	f.fails(404, "AgentNotFound", "demo", "GET", "/v2.0/agents/"+agents[0].ID, "")
}

// TestClient uses each function of the client that compute needs.
func TestClient(t *testing.T) {
	f, ctx := start(t), t.Context()
	c := f.client("admin")
	n, err := c.CreateNetwork(ctx, map[string]any{"name": "n", "segments": []any{
		map[string]any{"provider:network_type": "vlan", "provider:physical_network": "one", "provider:segmentation_id": 5},
		map[string]any{"provider:network_type": "flat", "provider:physical_network": "two"}}})
	must(t, err)
	_, err = c.CreateSubnet(ctx, map[string]any{"network_id": n.ID, "cidr": "10.0.0.0/24", "ip_version": 4})
	must(t, err)
	policy, err := c.CreatePolicy(ctx, map[string]any{"name": "p"})
	must(t, err)
	rule, err := c.CreateRule(ctx, policy.ID, "minimum_bandwidth", map[string]any{"min_kbps": 7, "direction": "ingress"})
	if err != nil || rule.MinKbps != 7 {
		t.Fatal(rule, err)
	}
	p, err := c.CreatePort(ctx, map[string]any{"network_id": n.ID, "qos_policy_id": policy.ID})
	must(t, err)
	if p.Request == nil || len(p.Request.Groups) != 1 || !slices.Equal(p.Request.Groups[0].Required,
		[]string{"in:CUSTOM_PHYSNET_ONE,CUSTOM_PHYSNET_TWO", "CUSTOM_VNIC_TYPE_NORMAL"}) ||
		p.Request.Groups[0].Resources["NET_BW_IGR_KILOBIT_PER_SEC"] != 7 ||
		!slices.Equal(p.Request.SameSubtree, []string{p.Request.Groups[0].ID}) {
		t.Errorf("request %+v", p.Request)
	}
	p, err = c.UpdatePort(ctx, p.ID, map[string]any{"binding:host_id": "h", "binding:profile": map[string]any{
		"allocation": map[string]any{"g": "r"}}})
	if err != nil || p.VIF != "binding_failed" || p.Allocation()["g"] != "r" {
		t.Errorf("%+v %v", p, err)
	}
	segments, err := c.Segments(ctx, map[string][]string{"network_id": {n.ID}})
	if err != nil || len(segments) != 2 {
		t.Errorf("%+v %v", segments, err)
	}
	aliases, err := c.Extensions(ctx)
	if err != nil || !slices.Contains(aliases, "port-resource-request-groups") {
		t.Errorf("%v %v", aliases, err)
	}
	policies, err := c.Policies(ctx, nil)
	if err != nil || len(policies) != 1 || len(policies[0].Rules) != 1 {
		t.Errorf("%+v %v", policies, err)
	}
	ports, err := c.Ports(ctx, map[string][]string{"network_id": {n.ID}})
	if err != nil || len(ports) != 1 || ports[0].FixedIPs[0].Address != "10.0.0.2" {
		t.Errorf("%+v %v", ports, err)
	}
	must(t, c.ReportAgent(ctx, "h", "Open vSwitch agent", api.AgentReport{}))
	all, err := c.HostPorts(ctx, "h", 0)
	if err != nil || len(all.Ports) != 1 || all.Ports[0].MinIngress != 7 {
		t.Errorf("%+v %v", all, err)
	}
	must(t, c.DeletePort(ctx, p.ID))
	must(t, c.DeletePort(ctx, p.ID))
	if _, err := c.Port(ctx, p.ID); err == nil {
		t.Error("the port exists")
	}
}

// TestRuleConflicts has rows Q12 and Q13, and the aliases of rules without a policy.
func TestRuleConflicts(t *testing.T) {
	f := start(t)
	policy := f.create("admin", "/v2.0/qos/policies", "policy", `{}`)["id"].(string)
	path := "/v2.0/qos/policies/" + policy
	create := func(kind, attributes string) string {
		t.Helper()
		return f.create("admin", path+"/"+kind+"_rules", kind+"_rule", attributes)["id"].(string)
	}
	bw := create("minimum_bandwidth", `{"min_kbps": 100}`)
	pps := create("minimum_packet_rate", `{"min_kpps": 5, "direction": "any"}`)
	create("bandwidth_limit", `{"max_kbps": 100}`)
	for _, c := range []struct{ kind, rule, attributes, code string }{
		{"minimum_bandwidth", "", `{"min_kbps": 1}`, "QoSRulesConflict"},
		{"minimum_bandwidth", bw, `{"min_kbps": 101}`, "QoSRuleParameterConflict"},
		{"minimum_packet_rate", "", `{"min_kpps": 1}`, "QoSRuleParameterConflict"},
	} {
		method, at := "POST", path+"/"+c.kind+"_rules"
		if c.rule != "" {
			method, at = "PUT", at+"/"+c.rule
		}
		f.fails(409, c.code, "admin", method, at, `{"`+c.kind+`_rule": `+c.attributes+`}`)
	}
	for _, attributes := range []string{`{}`, `{"min_kbps": -1}`, `{"min_kbps": 2147483648}`,
		`{"min_kbps": 1, "direction": "any"}`, `{"min_kbps": 1, "color": 1}`} {
		f.fails(400, "HTTPBadRequest", "admin", "POST", path+"/minimum_bandwidth_rules",
			`{"minimum_bandwidth_rule": `+attributes+`}`)
	}
	f.fails(404, "QosPolicyNotFound", "admin", "GET", "/v2.0/qos/policies/x/minimum_bandwidth_rules", "")
	f.fails(404, "QosRuleNotFound", "admin", "GET", path+"/minimum_bandwidth_rules/"+pps, "")
	alias := "/v2.0/qos/alias_minimum_packet_rate_rules/" + pps
	_, answer := f.do("admin", "PUT", alias, `{"minimum_packet_rate_rule": {"min_kpps": 6}}`)
	if got := answer["minimum_packet_rate_rule"]; got == nil || got.(map[string]any)["min_kpps"] != 6.0 {
		t.Errorf("%v", answer)
	}
	if status, _ := f.do("admin", "DELETE", alias, ""); status != 204 {
		t.Errorf("status %d", status)
	}
	f.fails(404, "QosRuleNotFound", "admin", "DELETE", alias, "")
	f.fails(403, "PolicyNotAuthorized", "demo", "POST", "/v2.0/qos/policies", `{"policy": {}}`)
}

// TestRulesInUse has row Q11: 501 while a port of a server has the policy, directly or by its network.
func TestRulesInUse(t *testing.T) {
	for _, ofNetwork := range []bool{false, true} {
		f := start(t)
		policy := f.create("admin", "/v2.0/qos/policies", "policy", `{}`)["id"].(string)
		path := "/v2.0/qos/policies/" + policy + "/minimum_bandwidth_rules"
		rule := f.create("admin", path, "minimum_bandwidth_rule", `{"min_kbps": 1}`)["id"].(string)
		network, port := `{}`, `, "qos_policy_id": "`+policy+`"`
		if ofNetwork {
			network, port = `{"qos_policy_id": "`+policy+`"}`, ``
		}
		n := f.create("admin", "/v2.0/networks", "network", network)["id"].(string)
		f.create("admin", "/v2.0/ports", "port", `{"network_id": "`+n+`"`+port+`}`)
		f.create("admin", path, "minimum_bandwidth_rule", `{"min_kbps": 2, "direction": "ingress"}`)
		f.create("admin", "/v2.0/ports", "port",
			`{"network_id": "`+n+`", "device_owner": "compute:nova", "device_id": "s"`+port+`}`)
		f.fails(501, "NotImplementedError", "admin", "PUT", path+"/"+rule, `{"minimum_bandwidth_rule": {"min_kbps": 3}}`)
		f.fails(501, "NotImplementedError", "admin", "DELETE", path+"/"+rule, "")
		f.fails(501, "NotImplementedError", "admin", "POST", "/v2.0/qos/policies/"+policy+"/minimum_packet_rate_rules",
			`{"minimum_packet_rate_rule": {"min_kpps": 3}}`)
		if status, answer := f.do("admin", "PUT", "/v2.0/qos/policies/"+policy, `{"policy": {"name": "x"}}`); status != 200 {
			t.Errorf("the name of a policy in use: %d %v", status, answer)
		}
	}
}

// TestUnsupportedRules: a rule that no agent applies to a port with the policy, in either order. It has row Q14: the
// port's own policy is checked, else that of the network.
func TestUnsupportedRules(t *testing.T) {
	f := start(t)
	create := func(name string, rules ...string) string {
		t.Helper()
		id := f.create("admin", "/v2.0/qos/policies", "policy", `{"name": "`+name+`"}`)["id"].(string)
		for _, kind := range rules {
			f.create("admin", "/v2.0/qos/policies/"+id+"/"+kind+"_rules", kind+"_rule", `{"min_kpps": 1}`)
		}
		return id
	}
	packets, empty := create("packets", "minimum_packet_rate"), create("empty")
	n := f.create("admin", "/v2.0/networks", "network", `{"qos_policy_id": "`+packets+`"}`)["id"].(string)
	port := func(more string) string {
		return `{"port": {"network_id": "` + n + `", "binding:vnic_type": "macvtap"` + more + `}}`
	}
	f.fails(409, "QosRuleNotSupported", "admin", "POST", "/v2.0/ports", port(""))
	f.fails(409, "QosRuleNotSupported", "admin", "POST", "/v2.0/ports", port(`, "qos_policy_id": "`+packets+`"`))
	if status, answer := f.do("admin", "POST", "/v2.0/ports", port(`, "qos_policy_id": "`+empty+`"`)); status != 201 {
		t.Errorf("%d %v", status, answer)
	}
	f.fails(409, "QosRuleNotSupported", "admin", "POST", "/v2.0/qos/policies/"+empty+"/minimum_packet_rate_rules",
		`{"minimum_packet_rate_rule": {"min_kpps": 1}}`)
	normal := f.create("admin", "/v2.0/ports", "port", `{"network_id": "`+n+`"}`)["id"].(string)
	f.fails(409, "QosRuleNotSupported", "admin", "PUT", "/v2.0/ports/"+normal,
		`{"port": {"binding:vnic_type": "macvtap"}}`)
	f.put("/v2.0/ports/"+normal, `{"port": {"binding:vnic_type": "vdpa"}}`)
	f.put("/v2.0/ports/"+normal, `{"port": {"binding:vnic_type": "macvtap", "qos_policy_id": "`+empty+`"}}`)

	n = f.create("admin", "/v2.0/networks", "network", `{}`)["id"].(string)
	macvtap := f.create("admin", "/v2.0/ports", "port", `{"network_id": "`+n+`", "binding:vnic_type": "macvtap"}`)
	policy := `{"network": {"qos_policy_id": "` + packets + `"}}`
	f.fails(409, "QosRuleNotSupportedByNetwork", "admin", "PUT", "/v2.0/networks/"+n, policy)
	f.put("/v2.0/ports/"+macvtap["id"].(string), `{"port": {"qos_policy_id": "`+empty+`"}}`)
	f.put("/v2.0/networks/"+n, policy)
}

// TestAddressPairsNeedPortSecurity: a port without port security has no address pairs.
func TestAddressPairsNeedPortSecurity(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	const code, pairs = "AddressPairAndPortSecurityRequired", `"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]`
	f.fails(409, code, "demo", "POST", "/v2.0/ports", `{"port": {"network_id": "`+n+`", "port_security_enabled": false, `+
		pairs+`}}`)
	port := "/v2.0/ports/" + f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`", `+pairs+`}`)["id"].(string)
	f.fails(409, code, "demo", "PUT", port, `{"port": {"security_groups": [], "port_security_enabled": false}}`)
	body := `{"port": {"security_groups": [], "port_security_enabled": false, "allowed_address_pairs": []}}`
	if status, answer := f.do("demo", "PUT", port, body); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
	f.fails(409, code, "demo", "PUT", port, `{"port": {`+pairs+`}}`)
	f.fails(400, "AllowedAddressPairExhausted", "demo", "PUT", port, `{"port": {"port_security_enabled": true,
		"allowed_address_pairs": [`+strings.Repeat(`{"ip_address": "10.0.0.9"}, `, 10)+`{"ip_address": "10.0.0.8"}]}}`)
}

// TestWhatThereIsNot: collections that Berth does not have are answered with a sentence.
func TestWhatThereIsNot(t *testing.T) {
	f := start(t)
	for _, c := range [][2]string{{"GET", "/v2.0/routers"}, {"POST", "/v2.0/floatingips"},
		{"PUT", "/v2.0/routers/x/add_router_interface"}, {"DELETE", "/v2.0/trunks/x"}} {
		f.fails(404, "HTTPNotFound", "demo", c[0], c[1], "{}")
	}
	_, answer := f.do("demo", "GET", "/v2.0/routers", "")
	if text := fmt.Sprint(answer); !strings.Contains(text, "has no routers; use Neutron") {
		t.Error(text)
	}
}

// TestIPAvailability: an administrator sees how many addresses of a network are used.
func TestIPAvailability(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{"name": "n"}`)["id"].(string)
	for version, cidr := range map[int]string{4: "10.0.0.0/24", 6: "2001:db8::/64"} {
		f.create("demo", "/v2.0/subnets", "subnet", fmt.Sprintf(`{"network_id": "%s", "cidr": "%s", "ip_version": %d}`, n,
			cidr, version))
	}
	f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`"}`)
	const path = "/v2.0/network-ip-availabilities"
	for query, want := range map[string]string{"": "18446744073709551867 2", "?ip_version=4": "253 1",
		"?network_name=other": "", "?project_id=demo&ip_version=6": "18446744073709551614 1"} {
		_, answer := f.do("admin", "GET", path+query, "")
		got := ""
		for _, one := range answer["network_ip_availabilities"].([]any) {
			view := one.(map[string]any)
			got = fmt.Sprintf("%.0f %v", view["total_ips"], view["used_ips"])
		}
		if want := fmt.Sprint(want); got != rounded(want) {
			t.Errorf("%s: %s, want %s", query, got, rounded(want))
		}
	}
	status, answer := f.do("admin", "GET", path+"/"+n, "")
	one, _ := answer["network_ip_availability"].(map[string]any)
	if parts, _ := one["subnet_ip_availability"].([]any); status != 200 || len(parts) != 2 || one["network_name"] != "n" {
		t.Errorf("%d %v", status, answer)
	}
	if got := f.names("demo", path, "network_ip_availabilities"); len(got) != 0 {
		t.Errorf("a user sees %v", got)
	}
}

// rounded returns a text with its numbers as a decoder of JSON into float64 has them.
func rounded(text string) string {
	var total, used float64
	if n, _ := fmt.Sscan(text, &total, &used); n < 2 {
		return text
	}
	return fmt.Sprintf("%.0f %.0f", total, used)
}

// TestListParameters reads lists with each kind of parameter: repeated keys, forms of booleans, times, fields, pages.
func TestListParameters(t *testing.T) {
	f := start(t)
	for _, name := range []string{"a", "b", "c"} {
		f.create("demo", "/v2.0/networks", "network", `{"name": "`+name+`", "mtu": 1400}`)
	}
	for query, want := range map[string][]string{
		"name=a&name=c&sort_key=name":                           {"a", "c"},
		"admin_state_up=TRUE&sort_key=name":                     {"a", "b", "c"},
		"admin_state_up=0":                                      nil,
		"router:external=false&shared=0&name=b":                 {"b"},
		"mtu=1400&status=ACTIVE&sort_key=name&limit=2":          {"a", "b"},
		"sort_key=name&sort_dir=desc":                           {"c", "b", "a"},
		"sort_key=mtu&sort_key=name&sort_dir=asc&sort_dir=desc": {"c", "b", "a"},
		"changed_since=2100-01-01T00:00:00":                     nil,
		"changed_since=2000-01-01T00:00:00Z&sort_key=name":      {"a", "b", "c"},
		"provider:network_type=local&sort_key=name":             nil,
		"revision_number=1&name=a":                              {"a"},
		"tenant_id=demo&project_id=demo&name=a":                 {"a"},
		"description=&name=a":                                   {"a"},
	} {
		if got := f.names("demo", "/v2.0/networks?"+query, "networks"); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, kind := range map[string]string{"admin_state_up=t": "InvalidInput", "shared=yes": "InvalidInput",
		"changed_since=yesterday": "InvalidInput", "colour=1": "HTTPBadRequest", "sort_key=colour": "HTTPBadRequest",
		"sort_key=name&sort_dir=up": "HTTPBadRequest", "limit=-1": "HTTPBadRequest", "marker=x": "HTTPBadRequest"} {
		f.fails(400, kind, "demo", "GET", "/v2.0/networks?"+query, "")
	}
	_, answer := f.do("demo", "GET", "/v2.0/networks?fields=name&fields=mtu&name=a", "")
	if got := fmt.Sprint(answer["networks"]); got != "[map[mtu:1400 name:a]]" {
		t.Error(got)
	}
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`", "dns_name": "", "extra_dhcp_opts": []}`)
}
