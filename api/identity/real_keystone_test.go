package identity_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/keystone"
	"github.com/openberth/berth/internal/testenv"
)

// tokenLife is the lifetime of the tokens of the real Keystone in seconds: enough for the slowest subtest that needs
// a valid token.
const tokenLife = 60

// TestRealKeystone tests the package with OpenStack's own Keystone.
func TestRealKeystone(t *testing.T) {
	real := keystone.Start(t, fmt.Sprintf("[token]\nexpiration = %d", tokenLife))
	_, services := real.User(t, "placement", "services", "service")
	ann, lab := real.User(t, "ann", "lab", "member", "reader")
	placement := newFromFile(t, fmt.Sprintf(`[keystone_authtoken]
auth_url = %s
www_authenticate_uri = %s/v3
auth_type = password
username = placement
password = placement
user_domain_name = Default
project_name = services
project_domain_name = Default
region_name = RegionOne
token_cache_time = 1
http_connect_timeout = 60
service_token_roles_required = true
service_type = placement
`, real.URL, real.URL))

	t.Run("a user in a project", func(t *testing.T) {
		id := allowed(t, placement, real.Token(t, "ann", "ann", "lab"), "")
		want := identity.Identity{User: ann, UserName: "ann", UserDomain: "default", Project: lab, ProjectName: "lab",
			ProjectDomain: "default", Roles: id.Roles}
		if !reflect.DeepEqual(id, want) || !id.Has("member") || !id.Has("reader") || id.IsAdmin() {
			t.Errorf("%+v; want %+v", id, want)
		}
	})
	t.Run("the system", func(t *testing.T) {
		id := allowed(t, placement, real.SystemToken(t, real.AdminUser, real.AdminPassword), "")
		if id.SystemScope != "all" || id.Project != "" || !id.IsAdmin() || !id.Has("reader") {
			t.Errorf("%+v", id)
		}
	})
	t.Run("a token without scope", func(t *testing.T) {
		if id := allowed(t, placement, real.Token(t, "ann", "ann", ""), ""); id.Project != "" || len(id.Roles) > 0 {
			t.Errorf("%+v", id)
		}
	})
	t.Run("an invalid token", func(t *testing.T) { forbidden(t, placement, "gAAAAABrAKecX0CFmWTx6nODCBk5g1KEx0L", "") })
	t.Run("revoked", func(t *testing.T) {
		token := real.Token(t, "ann", "ann", "lab")
		allowed(t, placement, token, "")
		real.Revoke(t, token)
		eventuallyForbidden(t, placement, token)
	})
	t.Run("an application credential, as user and as service", func(t *testing.T) {
		applicationCredential(t, real, placement, services)
	})
	t.Run("a trust, as user and as service", func(t *testing.T) { trust(t, real, placement, ann, lab) })
	t.Run("expired", func(t *testing.T) {
		token := real.Token(t, "ann", "ann", "lab")
		allowed(t, placement, token, "")
		eventuallyForbidden(t, placement, token)
		if id := allowed(t, placement, token, real.Token(t, "placement", "placement", "services")); id.User != ann ||
			id.Service == nil || id.Service.UserName != "placement" {
			t.Errorf("%+v", id)
		}
		forbidden(t, placement, token, real.Token(t, "ann", "ann", "lab")) // ann does not have the role service
	})
	t.Run("Keystone has ended", func(t *testing.T) {
		token := real.Token(t, "ann", "ann", "lab")
		steady := newFromFile(t,
			fmt.Sprintf("[keystone_authtoken]\nauth_url = %s\nauth_type = password\nusername = placement\npassword = "+
				"placement\nuser_domain_id = default\n"+
				"project_name = services\nproject_domain_id = default\nhttp_request_max_retries = 1\n"+
				"http_connect_timeout = 60\n", real.URL))
		allowed(t, steady, token, "")
		real.Stop()
		allowed(t, steady, token, "")
		if _, err := steady.Authenticate(request("other", "")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("without Keystone: %v", err)
		}
	})
}

// applicationCredential tests an application credential of ann that may only list traits, and one as the account of
// the service.
func applicationCredential(t *testing.T, real *keystone.Keystone, placement *identity.Keystone, project string) {
	type doc = keystone.Doc
	create := func(user, project string, more doc) (id, secret, token string) {
		own := real.Token(t, user, user, project)
		var who struct {
			Token struct{ User struct{ ID string } }
		}
		real.Call(t, own, "POST", "/auth/tokens",
			doc{"auth": doc{"identity": doc{"methods": []string{"token"}, "token": doc{"id": own}}}}, http.StatusCreated, &who)
		more["name"] = "for " + user
		var made struct {
			ApplicationCredential struct{ ID, Secret string } `json:"application_credential"`
		}
		real.Call(t, own, "POST", "/users/"+who.Token.User.ID+"/application_credentials", doc{"application_credential": more},
			http.StatusCreated, &made)
		id, secret = made.ApplicationCredential.ID, made.ApplicationCredential.Secret
		token = real.Call(t, "", "POST", "/auth/tokens",
			doc{"auth": doc{"identity": doc{"methods": []string{"application_credential"},
				"application_credential": doc{"id": id, "secret": secret}}}}, http.StatusCreated, nil).Get("X-Subject-Token")
		return id, secret, token
	}
	_, _, token := create("ann", "lab",
		doc{"access_rules": []doc{{"service": "placement", "method": "GET", "path": "/traits/*"}}})
	for path, want := range map[string]bool{"/traits/CUSTOM_A": true, "/traits": false, "/usages": false} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Auth-Token", token)
		if _, err := placement.Authenticate(r); (err == nil) != want || err != nil && !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", path, err)
		}
	}
	id, secret, _ := create("placement", "services", doc{})
	other := newFromFile(t,
		fmt.Sprintf("[keystone_authtoken]\nauth_url = %s/v3/\nauth_type = "+
			"v3applicationcredential\napplication_credential_id = %s\napplication_credential_secret = %s\n",
			real.URL, id, secret))
	if got := allowed(t, other, real.Token(t, "placement", "placement", "services"), ""); got.Project != project ||
		!got.Has("service") {
		t.Errorf("%+v", got)
	}
}

// trust tests a trust by which ann delegates one of her roles in her project to the user placement: its tokens are
// ann's with this role alone, until she deletes it.
func trust(t *testing.T, real *keystone.Keystone, placement *identity.Keystone, ann, lab string) {
	type doc = keystone.Doc
	own := real.Token(t, "ann", "ann", "lab")
	trustee := allowed(t, placement, real.Token(t, "placement", "placement", "services"), "").User
	var made struct{ Trust struct{ ID string } }
	real.Call(t, own, "POST", "/OS-TRUST/trusts", doc{"trust": doc{"trustor_user_id": ann, "trustee_user_id": trustee,
		"project_id": lab, "impersonation": true, "roles": []doc{{"name": "reader"}}}}, http.StatusCreated, &made)
	user := doc{"id": trustee, "password": "placement"}
	token := real.Call(t, "", "POST", "/auth/tokens", doc{"auth": doc{
		"identity": doc{"methods": []string{"password"}, "password": doc{"user": user}},
		"scope":    doc{"OS-TRUST:trust": doc{"id": made.Trust.ID}}}}, http.StatusCreated, nil).Get("X-Subject-Token")
	id := allowed(t, placement, token, "")
	if id.User != ann || id.Project != lab || !id.Has("reader") || id.Has("member") {
		t.Errorf("the token of a trust is of %+v", id)
	}
	service := newFromFile(t, fmt.Sprintf("[keystone_authtoken]\nauth_url = %s\nauth_type = password\nuser_id = %s\n"+
		"password = placement\ntrust_id = %s\n", real.URL, trustee, made.Trust.ID))
	if session, err := service.SignIn(t.Context()); err != nil {
		t.Error(err)
	} else if id := allowed(t, placement, session, ""); id.User != ann || id.Project != lab {
		t.Errorf("the account with trust_id is %+v", id)
	}
	real.Call(t, own, "DELETE", "/OS-TRUST/trusts/"+made.Trust.ID, nil, http.StatusNoContent, nil)
	eventuallyForbidden(t, placement, token)
}

func newFromFile(t *testing.T, text string) *identity.Keystone {
	t.Helper()
	file, err := config.Parse("placement.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	options, _, err := identity.ReadKeystone(config.New(file))
	if err != nil {
		t.Fatal(err)
	}
	k, err := identity.NewKeystone(options)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(token, service string) *http.Request {
	r := httptest.NewRequest("GET", "/resource_providers", nil)
	r.Header.Set("X-Auth-Token", token)
	if service != "" {
		r.Header.Set("X-Service-Token", service)
	}
	return r
}

func allowed(t *testing.T, k *identity.Keystone, token, service string) identity.Identity {
	t.Helper()
	id, err := k.Authenticate(request(token, service))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func forbidden(t *testing.T, k *identity.Keystone, token, service string) {
	t.Helper()
	if id, err := k.Authenticate(request(token, service)); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%+v, %v", id, err)
	}
}

// eventuallyForbidden waits until a valid token is rejected: after a revocation at most the cache time, otherwise
// its lifetime.
func eventuallyForbidden(t *testing.T, k *identity.Keystone, token string) {
	t.Helper()
	testenv.Until(t, "the token is rejected", func() bool {
		_, err := k.Authenticate(request(token, ""))
		if err != nil && !fault.Is(err, fault.Forbidden) {
			t.Fatal(err)
		}
		return err != nil
	})
}
