package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/policy"
)

// The policy file beside the configuration file has rules of Placement and of compute.
func TestComputePolicyFile(t *testing.T) {
	s, _, err := readText(t, "[oslo_middleware]\nenable_proxy_headers_parsing = true\n"+
		"[cors]\nallowed_origin = https://a.example\n")
	if err != nil {
		t.Fatal(err)
	}
	if !s.ProxyHeaders || !slices.Equal(s.Compute.CORS.AllowedOrigin, []string{"https://a.example"}) ||
		!slices.Contains(s.Compute.CORS.AllowHeaders, "X-OpenStack-Nova-API-Version") ||
		slices.Contains(s.Placement.CORS.AllowHeaders, "X-OpenStack-Nova-API-Version") {
		t.Errorf("%+v", s.Compute)
	}
	ann := policy.Creds{"project_id": "p", "user_id": "ann", "roles": []string{}}
	target := map[string]any{"project_id": "p"}
	if ok, why := s.Compute.Policy.Allow(policies.StopServer, ann, target); !ok {
		t.Error(why)
	}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("os_compute_api:servers:stop: rule:admin_api\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, _, err = readText(t, "[oslo_policy]\npolicy_file = "+path+"\n"); err != nil {
		t.Fatal(err)
	}
	if ok, _ := s.Compute.Policy.Allow(policies.StopServer, ann, target); ok {
		t.Error("the policy file is not applied")
	}
}

// A mistake in the policy file is reported once, though two services read it.
func TestWrongPolicyFileIsReportedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("\"os_compute_api:servers:stop\": \"(\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := readText(t, "[oslo_policy]\npolicy_file = "+path+"\n")
	if !fault.Is(err, fault.Invalid) || strings.Count(err.Error(), "os_compute_api:servers:stop") != 1 {
		t.Errorf("%v", err)
	}
	_, log, err := readText(t, "[oslo_policy]\npolicy_file = "+filepath.Join(t.TempDir(), "none.yaml")+"\n")
	if err != nil || strings.Count(log, "does not exist") != 1 {
		t.Errorf("%v\n%s", err, log)
	}
}
