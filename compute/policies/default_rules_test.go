package policies

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/policy"
)

// The defaults permit what the table in the package comment lists.
func TestPermissionsByRole(t *testing.T) {
	who := map[string]identity.Identity{
		"owner":         {User: "ann", Project: "p"},
		"reader":        {User: "ann", Project: "p", Roles: []string{"reader"}},
		"member":        {User: "ann", Project: "p", Roles: []string{"reader", "member"}},
		"other project": {User: "bob", Project: "q", Roles: []string{"reader", "member"}},
		"service":       {User: "agent", Project: "service", Roles: []string{"service"}},
		"admin":         {User: "admin", Project: "q", Roles: []string{"admin"}},
	}
	for _, c := range []struct {
		newDefaults bool
		rule, may   string
	}{
		{false, ShowServer, "owner, reader, member, admin"},
		{false, StartServer, "owner, reader, member, admin"},
		{false, MigrateServer, "admin"},
		{false, DetailServersOfAll, "admin"},
		{false, CreateFlavor, "admin"},
		{false, ListExtraSpecs, "owner, reader, member, admin"},
		{false, ReportHost, "service"},
		{false, ListHosts, "service, admin"},
		{false, ReportEvents, "service, admin"},
		{false, BindHost, "admin"},
		{false, ForgetHost, "admin"},
		{false, ReplaceMetadata, "owner, reader, member, admin"},
		{false, ShowActionEvents, "admin"},
		{false, ListHypervisors, "admin"},
		{false, ShowLimits, "owner, reader, member, other project, service, admin"},
		{true, ReplaceMetadata, "member, admin"},
		{true, ShowServer, "reader, member, admin"},
		{true, StartServer, "member, admin"},
		{true, ReportGuest, "service"},
	} {
		e, err := policy.New(Rules(), policy.Options{EnforceNewDefaults: c.newDefaults})
		if err != nil || len(e.Warnings()) > 0 {
			t.Fatal(err, e.Warnings())
		}
		allowed := map[string]bool{}
		for name := range strings.SplitSeq(c.may, ", ") {
			allowed[name] = true
		}
		for name, caller := range who {
			ok, why := identity.Enforcer{Policy: e}.Allow(c.rule, caller, map[string]any{"project_id": "p"})
			if ok != allowed[name] {
				t.Errorf("new defaults %t: %s for %s is %t (%s)", c.newDefaults, c.rule, name, ok, why)
			}
		}
	}
}

// With noauth2 an administrator may act as an agent.
func TestAgentsByStrategy(t *testing.T) {
	for strategy, want := range map[string]bool{"noauth2": true, "http_basic": false, "keystone": false} {
		ok, why := Default().Allow(ReportHost, identity.Identity{User: "admin", Roles: []string{"admin"}},
			map[string]any{"auth_strategy": strategy})
		if ok != want {
			t.Errorf("%s: %t (%s)", strategy, ok, why)
		}
	}
}

// Every rule has a description, and Needs names the role that its default requires.
func TestDescriptionsAndNeeds(t *testing.T) {
	for _, r := range Rules() {
		if r.Description == "" {
			t.Errorf("%s has no description", r.Name)
		}
	}
	for rule, want := range map[string]string{ForgetHost: "the role admin", ListHosts: "the role service or admin",
		ReportHost: "the role service",
		ShowServer: "", "unknown": ""} {
		if got := Needs(rule); got != want {
			t.Errorf("%s needs %q, want %q", rule, got, want)
		}
	}
}

// A policy file for Nova can refer to Nova's base rules.
func TestPolicyFileOfNova(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	const text = `"os_compute_api:servers:stop": "rule:admin_api"
"os_compute_api:servers:start": "rule:project_member_or_admin"
"os_compute_api:servers:reboot": "rule:admin_or_owner"
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(Rules(), policy.Options{}, path)
	if err != nil || len(e.Warnings()) > 0 {
		t.Fatal(err, e.Warnings())
	}
	ann := identity.Identity{User: "ann", Project: "p"}
	for rule, want := range map[string]bool{StopServer: false, StartServer: true, RebootServer: true} {
		if ok, why := (identity.Enforcer{Policy: e}).Allow(rule, ann, map[string]any{"project_id": "p"}); ok != want {
			t.Errorf("%s: %t (%s)", rule, ok, why)
		}
	}
}

// Key pairs belong to a user, in every project.
func TestKeyPairsOfUsers(t *testing.T) {
	target := map[string]any{"user_id": "ann"}
	for want, callers := range map[bool][]identity.Identity{
		true:  {{User: "ann", Project: "p"}, {User: "ann", Project: "q"}, {User: "admin", Roles: []string{"admin"}}},
		false: {{User: "bob", Project: "p"}, {User: "agent", Roles: []string{"service"}}},
	} {
		for _, caller := range callers {
			if ok, why := Default().Allow(DeleteKeyPair, caller, target); ok != want {
				t.Errorf("%+v: %t (%s)", caller, ok, why)
			}
		}
	}
}
