package server

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
)

// rules lists the policy rule of each operation, from OpenStack's documentation of Placement's policies.
const rules = `
GET /resource_providers placement:resource_providers:list
POST /resource_providers placement:resource_providers:create
GET /resource_providers/{uuid} placement:resource_providers:show
PUT /resource_providers/{uuid} placement:resource_providers:update
DELETE /resource_providers/{uuid} placement:resource_providers:delete
GET /resource_classes placement:resource_classes:list
POST /resource_classes placement:resource_classes:create
GET /resource_classes/{name} placement:resource_classes:show
PUT /resource_classes/{name} placement:resource_classes:update
DELETE /resource_classes/{name} placement:resource_classes:delete
GET /resource_providers/{uuid}/inventories placement:resource_providers:inventories:list
POST /resource_providers/{uuid}/inventories placement:resource_providers:inventories:create
PUT /resource_providers/{uuid}/inventories placement:resource_providers:inventories:update
DELETE /resource_providers/{uuid}/inventories placement:resource_providers:inventories:delete
GET /resource_providers/{uuid}/inventories/{class} placement:resource_providers:inventories:show
PUT /resource_providers/{uuid}/inventories/{class} placement:resource_providers:inventories:update
DELETE /resource_providers/{uuid}/inventories/{class} placement:resource_providers:inventories:delete
GET /resource_providers/{uuid}/aggregates placement:resource_providers:aggregates:list
PUT /resource_providers/{uuid}/aggregates placement:resource_providers:aggregates:update
GET /resource_providers/{uuid}/usages placement:resource_providers:usages
GET /resource_providers/{uuid}/allocations placement:resource_providers:allocations:list
GET /resource_providers/{uuid}/traits placement:resource_providers:traits:list
PUT /resource_providers/{uuid}/traits placement:resource_providers:traits:update
DELETE /resource_providers/{uuid}/traits placement:resource_providers:traits:delete
GET /usages placement:usages
GET /traits placement:traits:list
GET /traits/{name} placement:traits:show
PUT /traits/{name} placement:traits:update
DELETE /traits/{name} placement:traits:delete
POST /allocations placement:allocations:manage
GET /allocations/{uuid} placement:allocations:list
PUT /allocations/{uuid} placement:allocations:update
DELETE /allocations/{uuid} placement:allocations:delete
GET /allocation_candidates placement:allocation_candidates:list
POST /reshaper placement:reshaper:reshape
GET /berth/v1/explain placement:allocation_candidates:list
GET /berth/v1/events placement:resource_providers:list
GET /berth/v1/usage-history placement:resource_providers:usages
GET /berth/v1/headroom placement:allocation_candidates:list
GET /berth/v1/hosts placement:resource_providers:allocations:list
GET /berth/v1/hosts/{host} placement:resource_providers:allocations:list
GET /berth/v1/hosts/{host}/devices/{address} placement:resource_providers:allocations:list
GET /berth/v1/devices placement:resource_providers:allocations:list
GET /berth/v1/trees/{uuid} placement:resource_providers:allocations:list
`

// policyCall is one call of Enforcer.Allow.
type policyCall struct {
	rule   string
	caller identity.Identity
	target map[string]any
}

// recordingEnforcer denies all requests and records its calls.
type recordingEnforcer struct{ calls []policyCall }

func (p *recordingEnforcer) Allow(rule string, caller identity.Identity, target map[string]any) (bool, string) {
	p.calls = append(p.calls, policyCall{rule, caller, target})
	return false, "denied by the test"
}

// Every operation checks its own rule exactly once, before its handler runs.
func TestEachOperationChecksItsRule(t *testing.T) {
	policy := &recordingEnforcer{}
	w := newWorld(t, func(o *Options) { o.Enforcer = policy })
	want := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(rules)) {
		f := strings.Fields(line)
		want[f[0]+" "+f[1]] = f[2]
	}
	for _, r := range (&Server{}).routes() {
		for method, v := range r.Methods {
			name := method + " " + r.Path
			if v.Rule != want[name] {
				t.Errorf("%s: %q, want %q", name, v.Rule, want[name])
			}
			delete(want, name)
			policy.calls = nil
			body := ""
			if v.Body {
				body = "{}"
			}
			path := strings.NewReplacer("{uuid}", "u", "{class}", "c", "{name}", "n").Replace(r.Path)
			resp := w.ask("1.39", method, path, body)
			if v.Rule == "" {
				if resp.StatusCode != 200 || len(policy.calls) > 0 {
					t.Errorf("%s: %d, calls %v", name, resp.StatusCode, policy.calls)
				}
				continue
			}
			if text := bodyOf(t, resp); resp.StatusCode != 403 ||
				!strings.Contains(text, "Policy does not allow "+v.Rule+" to be performed.") {
				t.Errorf("%s: %d %s", name, resp.StatusCode, text)
			}
			if len(policy.calls) != 1 || policy.calls[0].rule != v.Rule {
				t.Errorf("%s: calls %v", name, policy.calls)
			}
		}
	}
	for name := range want {
		t.Errorf("no route for %s", name)
	}
}

// The target of a policy check is the caller, or for usages the requested project.
func TestPolicyTargets(t *testing.T) {
	policy := &recordingEnforcer{}
	w := newWorld(t, func(o *Options) { o.Enforcer = policy })
	caller := identity.Identity{User: "ann", Project: "p", Roles: []string{"reader"}}
	for path, target := range map[string]map[string]any{
		"/traits":                            {"project_id": "p", "user_id": "ann"},
		"/usages?project_id=q":               {"project_id": "q"},
		"/usages?project_id=q&project_id=r":  {"project_id": "r"},
		"/usages?project_id=":                {"project_id": ""},
		"/usages":                            {"project_id": nil},
		"/resource_providers?project_id=q":   {"project_id": "p", "user_id": "ann"},
		"/allocation_candidates?nonsense=in": {"project_id": "p", "user_id": "ann"},
	} {
		policy.calls = nil
		w.ask("1.39", "GET", path, "", "X-Auth-Token", "ann:p", "X-Roles", "reader")
		if len(policy.calls) != 1 || !reflect.DeepEqual(policy.calls[0].target, target) ||
			!reflect.DeepEqual(policy.calls[0].caller, caller) {
			t.Errorf("%s: %+v, want %v by %v", path, policy.calls, target, caller)
		}
	}
}
