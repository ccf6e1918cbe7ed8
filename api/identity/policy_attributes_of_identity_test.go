package identity

import (
	"reflect"
	"slices"
	"testing"
)

func TestCredentials(t *testing.T) {
	got := Identity{User: "u", UserDomain: "ud", Project: "p", ProjectDomain: "pd", Roles: []string{"a"},
		Service: &Identity{User: "s", Roles: []string{"service"}}}.Credentials()
	want := map[string]any{"user_id": "u", "user_domain_id": "ud", "project_id": "p", "project_domain_id": "pd",
		"domain_id": nil, "system_scope": nil,
		"roles": []string{"a"}, "is_admin_project": true, "service_user_id": "s", "service_user_domain_id": nil,
		"service_project_id":        nil,
		"service_project_domain_id": nil, "service_roles": []string{"service"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	got = Identity{Domain: "d", SystemScope: "all", NotAdminProject: true}.Credentials()
	if got["domain_id"] != "d" || got["system_scope"] != "all" || got["is_admin_project"] != false ||
		len(got["roles"].([]string)) != 0 || !slices.Equal(got["service_roles"].([]string), nil) {
		t.Errorf("%v", got)
	}
}
