package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/actions"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/policy"
)

// denyRules is a policy that allows everything except some rules. It records which rules are checked.
type denyRules struct {
	denied  map[string]bool // nil: all
	checked map[string]map[string]any
}

func (d *denyRules) Allow(rule string, _ identity.Identity, target map[string]any) (bool, string) {
	d.checked[rule] = target
	return d.denied != nil && !d.denied[rule], "denied by the test"
}

// TestPolicyGuardsEveryRoute asks for every method of every path with a policy that denies everything. Only reading
// flavors, and images until 2.35, need no rule, as in Nova.
func TestPolicyGuardsEveryRoute(t *testing.T) {
	deny := &denyRules{denied: map[string]bool{}, checked: map[string]map[string]any{}}
	h := startWith(t, func(o *Options) { o.Enforcer = deny })
	h.flavor("small", map[string]string{"a": "b"})
	id := h.server(h.client("ann:p1"), "s", "small")
	deny.denied, deny.checked = nil, map[string]map[string]any{}
	free := map[string]bool{"GET /v2.1/flavors": true, "GET /v2.1/flavors/detail": true, "GET /v2.1/flavors/{id}": true}
	for path, m := range newServer(Options{}).guardedRoutes() {
		of := id
		if strings.HasPrefix(path, "/v2.1/flavors") {
			of = "small"
		}
		at := strings.NewReplacer("{id}", of, "{host}", "h", "{server}", id, "{address}", "0000:3b:00.0", "{key}", "a",
			"{service}", id).Replace(path)
		for method := range m {
			body := `{}`
			if strings.HasSuffix(path, "/action") {
				body = `{"os-stop": null}`
			}
			if of == "small" && strings.HasSuffix(path, "/action") {
				body = `{"addTenantAccess": null}`
			}
			want := 403
			if free[method+" "+path] {
				want = 200
			}
			if strings.HasPrefix(path, "/v2.1/images") {
				want = 404
			}
			if r := h.at("2.104", method, at, body); r.status != want {
				t.Errorf("%s %s: %d %s, want %d", method, path, r.status, r.text, want)
			}
		}
	}
	defined := map[string]bool{}
	for _, r := range policies.Rules() {
		defined[r.Name] = true
	}
	for rule := range deny.checked {
		if !defined[rule] {
			t.Errorf("%s is checked, and package policies does not define it", rule)
		}
	}
	if target := deny.checked[policies.ShowServer]; target["project_id"] != "p1" || target["user_id"] != "ann" {
		t.Errorf("the target of a server is %v, want its owner", target)
	}
}

// TestPolicyGuardsEveryAction denies one action after the other.
func TestPolicyGuardsEveryAction(t *testing.T) {
	deny := &denyRules{denied: map[string]bool{}, checked: map[string]map[string]any{}}
	h := startWith(t, func(o *Options) { o.Enforcer = deny })
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	for key, rule := range actions.ActionRules() {
		deny.denied = map[string]bool{rule: true}
		r := h.ask("POST", "/v2.1/servers/"+id+"/action", `{"`+key+`": null}`)
		if message, _ := r.dig("forbidden/message").(string); r.status != 403 || !strings.Contains(message, rule) {
			t.Errorf("%s: %d %s", key, r.status, r.text)
		}
	}
	for key, rule := range catalog.FlavorActionRules() {
		deny.denied = map[string]bool{rule: true}
		r := h.at("2.1", "POST", "/v2.1/flavors/small/action", `{"`+key+`": null}`)
		if message, _ := r.dig("forbidden/message").(string); r.status != 403 || !strings.Contains(message, rule) {
			t.Errorf("%s: %d %s", key, r.status, r.text)
		}
	}
}

// TestPolicyFile applies a policy file: a caller with another role lists the servers of all projects and reads the
// limits and key pairs of others, and owners may not stop servers.
func TestPolicyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	const text = `"os_compute_api:servers:detail:get_all_tenants": "role:auditor"
"os_compute_api:servers:stop": "rule:admin_api"
"os_compute_api:limits:other_project": "role:auditor"
"os_compute_api:os-keypairs:index": "user_id:%(user_id)s or role:auditor"
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(policies.Rules(), policy.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	h := startWith(t, func(o *Options) { o.Enforcer = identity.Enforcer{Policy: e} })
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	auditor := []string{"X-Auth-Token", "eve:audit", "X-Roles", "auditor"}
	if r := h.ask("GET", "/v2.1/servers/detail?all_tenants=1", "", auditor...); r.dig("servers/0/id") != id {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := h.ask("GET", "/v2.1/servers?all_tenants=1", "", auditor...); r.status != 403 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := h.ask("POST", "/v2.1/servers/"+id+"/action", `{"os-stop": null}`); r.status != 403 {
		t.Errorf("%d %s", r.status, r.text)
	}
	for _, path := range []string{"/v2.1/limits?tenant_id=p1", "/v2.1/os-keypairs?user_id=ann"} {
		for token, status := range map[string]int{"eve:audit": 200, "bob:p2": 403} {
			roles := map[string]string{"eve:audit": "auditor", "bob:p2": "member"}[token]
			r := h.ask("GET", path, "", "X-Auth-Token", token, "X-Roles", roles, "OpenStack-API-Version", "compute 2.61")
			if r.status != status {
				t.Errorf("%s for %s: %d %s, want %d", path, token, r.status, r.text, status)
			}
		}
	}
}

// TestCORS checks the headers for pages of other origins, and that a preflight request needs no token.
func TestCORS(t *testing.T) {
	const site = "https://a.example"
	h := startWith(t, func(o *Options) {
		o.CORS = cors.Defaults()
		o.CORS.AllowedOrigin = []string{site}
	})
	r := h.ask("OPTIONS", "/v2.1/servers", "", "X-Auth-Token", "", "Origin", site, "Access-Control-Request-Method", "POST")
	if r.status != 200 || r.text != "" || r.header.Get("Access-Control-Allow-Origin") != site ||
		r.header.Get("Access-Control-Allow-Methods") != "POST" {
		t.Errorf("%d %s %v", r.status, r.text, r.header)
	}
	for path, status := range map[string]int{"/v2.1/servers": 200, "/v2.1/nothing": 404, "/berth/v1/devices": 403} {
		if r := h.ask("GET", path, "", "Origin", site); r.status != status ||
			r.header.Get("Access-Control-Allow-Origin") != site {
			t.Errorf("%s: %d %v", path, r.status, r.header)
		}
	}
	if r := start(t).ask("OPTIONS", "/v2.1/servers", "", "Origin", site); r.status != 405 {
		t.Errorf("without [cors]: %d %v", r.status, r.header)
	}
}

// TestLinksBehindProxy checks that links are those of the proxy, if its headers are trusted.
func TestLinksBehindProxy(t *testing.T) {
	headers := []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "cloud.example", "X-Forwarded-Prefix",
		"/compute"}
	for _, trusted := range []bool{true, false} {
		h := startWith(t, func(o *Options) { o.ProxyHeaders = trusted })
		h.flavor("small", nil)
		base := h.url
		if trusted {
			base = "https://cloud.example/compute"
		}
		r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`, headers...)
		id, _ := r.dig("server/id").(string)
		if want := base + "/v2.1/servers/" + id; r.dig("server/links/0/href") != want || r.header.Get("Location") != want {
			t.Errorf("trusted %t: %s %v", trusted, r.text, r.header)
		}
		r = h.ask("GET", "/v2.1/servers?limit=1", "", headers...)
		if want := base + "/v2.1/servers?limit=1&marker=" + id; r.dig("servers_links/0/href") != want {
			t.Errorf("trusted %t: %s", trusted, r.text)
		}
		if r := h.ask("GET", "/", "", headers...); r.dig("versions/1/links/0/href") != base+"/v2.1/" {
			t.Errorf("trusted %t: %s", trusted, r.text)
		}
	}
}

// TestMetricsAndRequestLog checks that requests are counted and logged, those of agents at debug level.
func TestMetricsAndRequestLog(t *testing.T) {
	h := start(t)
	h.ask("GET", "/v2.1/p1/servers", "", "OpenStack-API-Version", "compute 2.3")
	h.ask("GET", "/v2.1/servers/none", "")
	h.ask("GET", "/berth/v1/hosts", "", "X-Auth-Token", "agent:service", "X-Roles", "service")
	text := h.ask("GET", "/metrics", "", "X-Auth-Token", "").text
	for _, line := range []string{
		`berth_compute_requests_total{method="GET",route="/v2.1/servers",status="200"} 1`,
		`berth_compute_requests_total{method="GET",route="/v2.1/servers/{id}",status="404"} 1`,
		`berth_compute_requests_total{method="GET",route="/berth/v1/hosts",status="200"} 1`,
		`berth_compute_panics_total 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	log := h.log.String()
	for _, want := range []string{"msg=request", "uri=/v2.1/p1/servers", "route=/v2.1/servers ", "microversion=2.3",
		"user=ann project=p1"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
}

// TestChallenge checks the header that names Keystone in a 401 response.
func TestChallenge(t *testing.T) {
	h := startWith(t, func(o *Options) { o.Challenge = `Keystone uri="http://k"` })
	if r := h.ask("GET", "/v2.1/servers", "", "X-Auth-Token", ""); r.status != 401 ||
		r.header.Get("Www-Authenticate") != `Keystone uri="http://k"` {
		t.Errorf("%d %v", r.status, r.header)
	}
}

// TestLongRequestLine checks that a request line has a limit.
func TestLongRequestLine(t *testing.T) {
	h := start(t)
	if r := h.ask("GET", "/v2.1/servers?name="+strings.Repeat("x", edge.MaxRequestLine), ""); r.status != 414 {
		t.Errorf("%d %s", r.status, r.text)
	}
}
