package identity

import (
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestNoAuth2 compares the results with those of OpenStack's own Placement for the same headers.
func TestNoAuth2(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []string
		want    Identity
		admin   bool
	}{
		{"admin", []string{"X-Auth-Token", "admin"}, Identity{User: "admin", Project: "admin", Roles: []string{"admin"}},
			true},
		{"a project", []string{"X-Auth-Token", "admin:p1"}, Identity{User: "admin", Project: "p1", Roles: []string{"admin"}},
			true},
		{"a project with a colon", []string{"X-Auth-Token", "ann:p:q"}, Identity{User: "ann", Project: "p:q"}, false},
		{"no roles", []string{"X-Auth-Token", "ann:p1"}, Identity{User: "ann", Project: "p1"}, false},
		{"roles", []string{"X-Auth-Token", "ann", "X-Roles", "member, ADMIN,"}, Identity{User: "ann", Project: "ann",
			Roles: []string{"member", "ADMIN"}}, true},
		{"roles in two lines", []string{"X-Auth-Token", "ann", "X-Roles", "a", "X-Roles", "admin"},
			Identity{User: "ann", Project: "ann", Roles: []string{"a", "admin"}}, true},
		{"roles instead of admin's", []string{"X-Auth-Token", "admin", "X-Roles", "reader"},
			Identity{User: "admin", Project: "admin", Roles: []string{"reader"}}, false},
		{"no roles instead of admin's", []string{"X-Auth-Token", "admin", "X-Roles", ""},
			Identity{User: "admin", Project: "admin"}, false},
		{"an empty user", []string{"X-Auth-Token", ":p1"}, Identity{Project: "p1"}, false},
		{"an empty token", []string{"X-Auth-Token", ""}, Identity{}, false},
		{"two tokens", []string{"X-Auth-Token", "ann", "X-Auth-Token", "admin"}, Identity{User: "ann, admin",
			Project: "ann, admin"}, false},
		{"the system", []string{"X-Auth-Token", "ann", "X-Roles", "reader", "OpenStack-System-Scope", "all"},
			Identity{User: "ann", Roles: []string{"reader"}, SystemScope: "all"}, false},
		{"another project", []string{"X-Auth-Token", "ann:p1", "X-Project-Id", "p2"}, Identity{User: "ann", Project: "p2"},
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Add(c.headers[i], c.headers[i+1])
			}
			got, err := NoAuth2(r)
			if err != nil || !reflect.DeepEqual(got, c.want) || got.IsAdmin() != c.admin {
				t.Errorf("%+v (admin %v), %v; want %+v", got, got.IsAdmin(), err, c.want)
			}
		})
	}
	if _, err := NoAuth2(httptest.NewRequest("GET", "/", nil)); !fault.Is(err, fault.Forbidden) {
		t.Errorf("without a token: %v", err)
	}
}
