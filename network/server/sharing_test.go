package server

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/openberth/berth/api/identity"
)

// Networks, QoS policies, subnet pools and security groups are shared with one project, or by an administrator with
// all.
func TestSharing(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{"name": "n"}`)["id"].(string)
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "cidr": "10.0.0.0/24", "ip_version": 4}`)
	policy := f.create("admin", "/v2.0/qos/policies", "policy", `{"name": "p", "project_id": "demo"}`)["id"].(string)
	pool := f.create("demo", "/v2.0/subnetpools", "subnetpool", `{"name": "s", "prefixes": ["10.1.0.0/16"],
		"min_prefixlen": 24}`)["id"].(string)
	group := f.create("demo", "/v2.0/security-groups", "security_group", `{"name": "g"}`)["id"].(string)
	for kind, o := range map[string][2]string{"network": {n, "/v2.0/networks/"},
		"subnetpool": {pool, "/v2.0/subnetpools/"},
		"qos_policy": {policy, "/v2.0/qos/policies/"}, "security_group": {group, "/v2.0/security-groups/"}} {
		share := func(target string) string {
			return fmt.Sprintf(`{"object_type": %q, "object_id": %q, "action": "access_as_shared", "target_tenant": %q}`,
				kind, o[0], target)
		}
		f.sees("other", o[1]+o[0], 404, false)
		f.fails(400, "InvalidInput", "other", "POST", "/v2.0/rbac-policies", `{"rbac_policy": `+share("other")+`}`)
		f.fails(403, "PolicyNotAuthorized", "demo", "POST", "/v2.0/rbac-policies", `{"rbac_policy": `+share("*")+`}`)
		one := f.create("demo", "/v2.0/rbac-policies", "rbac_policy", share("other"))["id"].(string)
		f.fails(409, "DuplicateRbacPolicy", "demo", "POST", "/v2.0/rbac-policies", `{"rbac_policy": `+share("other")+`}`)
		f.sees("other", o[1]+o[0], 200, true)
		f.sees("demo", o[1]+o[0], 200, false)
		f.sees("third", o[1]+o[0], 404, false)
		f.fails(404, "RbacPolicyNotFound", "other", "DELETE", "/v2.0/rbac-policies/"+one, "")
		f.fails(403, "PolicyNotAuthorized", "demo", "PUT", "/v2.0/rbac-policies/"+one,
			`{"rbac_policy": {"target_tenant": "*"}}`)
		f.put("/v2.0/rbac-policies/"+one, `{"rbac_policy": {"target_tenant": "*"}}`)
		f.sees("third", o[1]+o[0], 200, true)
		if status, _ := f.do("demo", "DELETE", "/v2.0/rbac-policies/"+one, ""); status != 204 {
			t.Errorf("%s: %d", kind, status)
		}
		f.sees("third", o[1]+o[0], 404, false)
	}
	for keys, kind := range map[string]string{
		`"object_type": "network", "action": "access_as_external", "target_tenant": "x"`: "InvalidInput",
		`"object_type": "network", "action": "look", "target_tenant": "x"`:               "InvalidInput",
		`"object_type": "router", "action": "access_as_shared", "target_tenant": "x"`:    "InvalidInput",
		`"object_type": "network", "action": "access_as_shared"`:                         "HTTPBadRequest",
	} {
		f.fails(400, kind, "demo", "POST", "/v2.0/rbac-policies", `{"rbac_policy": {"object_id": "`+n+`", `+keys+`}}`)
	}
}

// A caller without a project, such as one with a token of a domain, makes and shares nothing; a user makes nothing for
// another project, so no quota is evaded. Rules compare a missing project with the text None.
func TestProjectsOfOthers(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{"name": "n"}`)["id"].(string)
	share := `{"rbac_policy": {"object_type": "network", "object_id": "` + n +
		`", "action": "access_as_shared", "target_tenant": "evil", "project_id": %q}}`
	f.options.Authenticate = func(*http.Request) (identity.Identity, error) {
		return identity.Identity{User: "u", Domain: "d", Roles: []string{"member", "reader"}}, nil
	}
	for _, project := range []string{"None", "demo", ""} {
		f.handler = New(f.options)
		f.fails(403, "PolicyNotAuthorized", "", "POST", "/v2.0/rbac-policies", fmt.Sprintf(share, project))
		f.fails(403, "PolicyNotAuthorized", "", "POST", "/v2.0/networks",
			fmt.Sprintf(`{"network": {"project_id": %q}}`, project))
	}
	f.options.Authenticate = identity.NoAuth2
	f.handler = New(f.options)
	for path, body := range map[string]string{
		"/v2.0/networks":    `{"network": {"tenant_id": "victim"}}`,
		"/v2.0/subnets":     `{"subnet": {"network_id": "` + n + `", "cidr": "10.0.0.0/24", "project_id": "victim"}}`,
		"/v2.0/ports":       `{"port": {"network_id": "` + n + `", "project_id": "victim"}}`,
		"/v2.0/subnetpools": `{"subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"], "project_id": "victim"}}`,
	} {
		f.fails(400, "HTTPBadRequest", "demo", "POST", path, body)
	}
}

// A pool has a limited number of prefixes.
func TestPrefixesOfAPoolAreLimited(t *testing.T) {
	f := start(t)
	prefixes := `"10.0.0.0/32"`
	for i := range 1000 {
		prefixes += fmt.Sprintf(`, "10.%d.%d.1/32"`, i/256, i%256)
	}
	f.fails(400, "HTTPBadRequest", "demo", "POST", "/v2.0/subnetpools",
		`{"subnetpool": {"name": "p", "prefixes": [`+prefixes+`]}}`)
}

// sees reads an object, and its attribute shared.
func (f *fixture) sees(token, path string, want int, shared bool) {
	f.t.Helper()
	status, answer := f.do(token, "GET", path, "")
	if status != want {
		f.t.Errorf("%s of %s: %d, want %d", path, token, status, want)
	}
	for _, object := range answer {
		view, _ := object.(map[string]any)
		if want == 200 && view["shared"] != shared {
			f.t.Errorf("%s of %s: shared is %v", path, token, view["shared"])
		}
	}
}

// An object stays shared with the projects that use it, and lists filter by shared.
func TestSharedObjectsInUse(t *testing.T) {
	f := start(t)
	made := f.create("admin", "/v2.0/networks", "network", `{"name": "n", "project_id": "demo", "shared": true}`)
	n := made["id"].(string)
	f.create("demo", "/v2.0/networks", "network", `{"name": "own"}`)
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "cidr": "10.0.0.0/24", "ip_version": 4,
		"name": "s"}`)
	port := f.create("other", "/v2.0/ports", "port", `{"network_id": "`+n+`"}`)["id"].(string)
	f.fails(409, "RbacPolicyInUse", "admin", "PUT", "/v2.0/networks/"+n, `{"network": {"shared": false}}`)
	_, answer := f.do("admin", "GET", "/v2.0/rbac-policies?object_type=network&target_tenant=*", "")
	list := answer["rbac_policies"].([]any)
	if len(list) != 1 {
		t.Fatalf("%v", answer)
	}
	all := list[0].(map[string]any)["id"].(string)
	f.fails(409, "RbacPolicyInUse", "admin", "DELETE", "/v2.0/rbac-policies/"+all, "")
	f.create("demo", "/v2.0/rbac-policies", "rbac_policy", `{"object_type": "network", "object_id": "`+n+`",
		"action": "access_as_shared", "target_tenant": "other"}`)
	if status, answer := f.do("admin", "DELETE", "/v2.0/rbac-policies/"+all, ""); status != 204 {
		t.Errorf("%d %v", status, answer)
	}
	for query, want := range map[string][]string{"shared=true": {"n"}, "shared=False": nil, "": {"n"}, "name=n": {"n"}} {
		if got := f.names("other", "/v2.0/networks?"+query, "networks"); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if got := f.names("other", "/v2.0/subnets?shared=true", "subnets"); !slices.Equal(got, []string{"s"}) {
		t.Errorf("subnets: %v", got)
	}
	f.sees("demo", "/v2.0/networks/"+n, 200, false)
	if status, _ := f.do("other", "DELETE", "/v2.0/ports/"+port, ""); status != 204 {
		t.Errorf("%d", status)
	}
	if status, answer := f.do("demo", "DELETE", "/v2.0/networks/"+n, ""); status != 204 {
		t.Errorf("%d %v", status, answer)
	}
	if _, answer := f.do("admin", "GET", "/v2.0/rbac-policies", ""); len(answer["rbac_policies"].([]any)) != 0 {
		t.Errorf("left: %v", answer)
	}
}

// Subnets are allocated from subnet pools: by length, by prefix, and from the default pool.
func TestSubnetPools(t *testing.T) {
	f := start(t)
	network := func() string { return f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string) }
	for body, kind := range map[string]string{
		`{"prefixes": []}`:                                      "EmptySubnetPoolPrefixList",
		`{"prefixes": ["10.0.0.0/8", "fd00::/48"]}`:             "PrefixVersionMismatch",
		`{"prefixes": ["x"]}`:                                   "InvalidInput",
		`{"prefixes": ["10.0.0.0/8"], "address_scope_id": "x"}`: "HTTPBadRequest",
		`{}`: "EmptySubnetPoolPrefixList",
		`{"prefixes": ["10.0.0.0/8"], "min_prefixlen": 25, "max_prefixlen": 24}`: "IllegalSubnetPoolPrefixBounds",
		`{"prefixes": ["10.0.0.0/8"], "default_prefixlen": 33}`:                  "IllegalSubnetPoolPrefixBounds",
	} {
		f.fails(400, kind, "demo", "POST", "/v2.0/subnetpools", `{"subnetpool": `+body+`}`)
	}
	f.fails(403, "PolicyNotAuthorized", "demo", "POST", "/v2.0/subnetpools",
		`{"subnetpool": {"prefixes": ["10.0.0.0/8"], "is_default": true}}`)
	p := f.create("demo", "/v2.0/subnetpools", "subnetpool", `{"name": "p", "default_quota": 768, "max_prefixlen": 28,
		"prefixes": ["10.0.1.0/24", "10.0.0.0/24", "10.0.2.0/24"], "default_prefixlen": 24}`)
	id := p["id"].(string)
	if fmt.Sprint(p["prefixes"], p["min_prefixlen"], p["ip_version"], p["shared"], p["address_scope_id"]) !=
		"[10.0.0.0/23 10.0.2.0/24] 8 4 false <nil>" {
		t.Errorf("%v", p)
	}
	subnet := func(keys string) string {
		return `{"subnet": {"network_id": "` + network() + `", "ip_version": 4, "subnetpool_id": "` + id + `"` + keys + `}}`
	}
	for _, c := range []struct{ keys, cidr, kind string }{
		{``, "10.0.0.0/24", ""},
		{`, "cidr": "10.0.2.0/25"`, "10.0.2.0/25", ""},
		{`, "cidr": "10.0.2.64/26"`, "", "SubnetAllocationError"},
		{`, "cidr": "10.0.3.0/26"`, "", "SubnetAllocationError"},
		{`, "prefixlen": 26`, "10.0.1.0/26", ""},
		{`, "prefixlen": 25`, "10.0.1.128/25", ""},
		{`, "prefixlen": 29`, "", "MaxPrefixSubnetAllocationError"},
		{`, "prefixlen": 7`, "", "MinPrefixSubnetAllocationError"},
		{`, "prefixlen": 24`, "", "SubnetPoolQuotaExceeded"},
		{`, "prefixlen": 26, "cidr": "10.0.1.64/26"`, "", "HTTPBadRequest"},
	} {
		status, answer := f.do("demo", "POST", "/v2.0/subnets", subnet(c.keys))
		var got, kind any
		if sub, ok := answer["subnet"].(map[string]any); ok && status == 201 {
			got = sub["cidr"]
			if sub["subnetpool_id"] != id || len(sub["allocation_pools"].([]any)) != 1 || sub["gateway_ip"] == nil {
				t.Errorf("%v", sub)
			}
		}
		if e, ok := answer["NeutronError"].(map[string]any); ok {
			kind = e["type"]
		}
		if got != nil && got != c.cidr || c.kind != "" && kind != c.kind || (got == nil) != (c.cidr == "") {
			t.Errorf("%s: %d %v", c.keys, status, answer)
		}
	}
	f.fails(404, "SubnetPoolNotFound", "other", "POST", "/v2.0/subnets", `{"subnet": {"network_id": "`+
		f.create("other", "/v2.0/networks", "network", `{}`)["id"].(string)+`", "ip_version": 4, "subnetpool_id": "`+id+`"}}`)
	f.fails(400, "SubnetPoolDeleteError", "demo", "DELETE", "/v2.0/subnetpools/"+id, "")
	f.fails(400, "IllegalSubnetPoolPrefixUpdate", "demo", "PUT", "/v2.0/subnetpools/"+id,
		`{"subnetpool": {"prefixes": ["10.0.0.0/24"]}}`)
	f.put("/v2.0/subnetpools/"+id,
		`{"subnetpool": {"prefixes": ["10.0.0.0/22"], "default_quota": null, "is_default": true}}`)
	f.fails(400, "InvalidInput", "admin", "POST", "/v2.0/subnetpools",
		`{"subnetpool": {"prefixes": ["10.9.0.0/24"], "is_default": true}}`)
	body := `{"subnet": {"network_id": "` + network() + `", "ip_version": 4, "use_default_subnetpool": true}}`
	if status, answer := f.do("demo", "POST", "/v2.0/subnets", body); status != 201 ||
		answer["subnet"].(map[string]any)["cidr"] != "10.0.3.0/24" {
		t.Errorf("%d %v", status, answer)
	}
	f.fails(404, "NoDefaultSubnetPool", "demo", "POST", "/v2.0/subnets", `{"subnet": {"network_id": "`+network()+`",
		"ip_version": 6, "use_default_subnetpool": true}}`)
	same := network()
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+same+`", "ip_version": 4, "cidr": "192.0.2.0/28"}`)
	f.fails(400, "NetworkSubnetPoolAffinityError", "demo", "POST", "/v2.0/subnets", `{"subnet": {"network_id": "`+same+`",
		"ip_version": 4, "subnetpool_id": "`+id+`", "prefixlen": 28}}`)
	six := f.create("demo", "/v2.0/subnetpools", "subnetpool", `{"prefixes": ["fd00::/48"], "default_quota": 2}`)
	body = `{"network_id": "` + network() + `", "ip_version": 6, "subnetpool_id": "` + six["id"].(string) + `"}`
	if got := f.create("demo", "/v2.0/subnets", "subnet", body)["cidr"]; got != "fd00::/64" {
		t.Errorf("%v", got)
	}
}
