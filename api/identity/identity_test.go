package identity

import (
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestNoAuth2(t *testing.T) {
	for _, c := range []struct {
		token, roles string
		want         Identity
		admin        bool
	}{
		{"admin", "", Identity{"admin", "admin", []string{"admin"}}, true},
		{"admin:p1", "Admin", Identity{"admin", "p1", []string{"Admin"}}, true},
		{"ann:p1", "", Identity{"ann", "p1", nil}, false},
		{"ann", "member, ADMIN,", Identity{"ann", "ann", []string{"member", "ADMIN"}}, true},
		{"svc:services", "service", Identity{"svc", "services", []string{"service"}}, false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Auth-Token", c.token)
		r.Header.Set("X-Roles", c.roles)
		got, err := NoAuth2(r)
		if err != nil || !reflect.DeepEqual(got, c.want) || got.IsAdmin() != c.admin {
			t.Errorf("%q with roles %q: %+v (admin %v), %v; want %+v", c.token, c.roles, got, got.IsAdmin(), err, c.want)
		}
	}
	for _, token := range []string{"", ":p1"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Auth-Token", token)
		if _, err := NoAuth2(r); !fault.Is(err, fault.Forbidden) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}
