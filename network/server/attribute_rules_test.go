package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/network/policies"
)

// without is the default policy without one rule.
type without struct {
	edge.Enforcer
	rule string
}

func (w without) Allow(rule string, who identity.Identity, target map[string]any) (bool, string) {
	if rule == w.rule {
		return false, "the test refuses it"
	}
	return w.Enforcer.Allow(rule, who, target)
}

// Rules of attributes apply however the request writes the attribute: JSON has several forms of one text, and Go
// decodes the names of nested attributes in any case.
func TestRulesOfAttributes(t *testing.T) {
	f := start(t)
	shared := f.create("admin", "/v2.0/networks", "network", `{"shared": true}`)["id"].(string)
	own := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	sub := f.create("demo", "/v2.0/subnets", "subnet",
		`{"network_id": "`+own+`", "cidr": "10.0.0.0/24"}`)["id"].(string)
	for _, owner := range []string{"network:dhcp", `\u006eetwork:dhcp`, `network\u003adhcp`} {
		p := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+shared+`"}`)["id"].(string)
		f.fails(403, "PolicyNotAuthorized", "demo", "PUT", "/v2.0/ports/"+p, `{"port": {"device_owner": "`+owner+`"}}`)
		f.fails(403, "PolicyNotAuthorized", "demo", "POST", "/v2.0/ports",
			`{"port": {"network_id": "`+shared+`", "device_owner": "`+owner+`"}}`)
	}
	p := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+own+`"}`)["id"].(string)
	f.options.Enforcer = without{policies.Default(), "update_port:fixed_ips:ip_address"}
	f.handler = New(f.options)
	for _, key := range []string{"ip_address", `ip\u005faddress`, "IP_Address"} {
		f.fails(403, "PolicyNotAuthorized", "demo", "PUT", "/v2.0/ports/"+p,
			`{"port": {"fixed_ips": [{"subnet_id": "`+sub+`", "`+key+`": "10.0.0.9"}]}}`)
	}
	if status, answer := f.do("demo", "PUT", "/v2.0/ports/"+p, `{"port": {"fixed_ips": [{"subnet_id": "`+sub+
		`"}]}}`); status != 200 {
		t.Errorf("a subnet without an address: %d %v", status, answer)
	}
}

// A policy or a group that the caller may not see is 404, as if it did not exist; a resource without the attribute
// refuses it, whatever it names.
func TestPoliciesAndGroupsOfOthers(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	policy := f.create("admin", "/v2.0/qos/policies", "policy", `{"name": "p"}`)["id"].(string)
	group := f.create("admin", "/v2.0/security-groups", "security_group", `{"name": "g"}`)["id"].(string)
	for _, c := range []struct {
		status                  int
		code, path, one, object string
	}{
		{404, "QosPolicyNotFound", "/v2.0/networks", "network", `{"qos_policy_id": "` + policy + `"}`},
		{404, "QosPolicyNotFound", "/v2.0/ports", "port", `{"network_id": "` + n + `", "qos_policy_id": "` + policy + `"}`},
		{404, "SecurityGroupNotFound", "/v2.0/ports", "port",
			`{"network_id": "` + n + `", "security_groups": ["` + group + `"]}`},
		{400, "HTTPBadRequest", "/v2.0/subnets", "subnet",
			`{"network_id": "` + n + `", "cidr": "10.0.0.0/24", "qos_policy_id": "` + policy + `"}`},
		{400, "HTTPBadRequest", "/v2.0/networks", "network", `{"security_groups": ["` + group + `"]}`},
	} {
		f.fails(c.status, c.code, "demo", "POST", c.path, `{"`+c.one+`": `+c.object+`}`)
	}
}

// A security group that a request names very often is read once.
func TestSecurityGroupNamedOften(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	group := f.create("demo", "/v2.0/security-groups", "security_group", `{"name": "g"}`)["id"].(string)
	body := `{"port": {"network_id": "` + n + `", "security_groups": ` +
		`["` + group + `"` + strings.Repeat(`, "`+group+`"`, 80_000) + `]}}`
	r := httptest.NewRequest("POST", "/v2.0/ports", strings.NewReader(body))
	r.Header.Set("X-Auth-Token", "demo")
	w, began := httptest.NewRecorder(), time.Now()
	f.handler.ServeHTTP(w, r)
	if took := time.Since(began); w.Code != http.StatusCreated || took > 5*time.Second {
		t.Errorf("%d after %s: %.200s", w.Code, took, w.Body)
	}
}
