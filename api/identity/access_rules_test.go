package identity

import (
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

func TestAccessRules(t *testing.T) {
	f := newFake(t)
	f.issue("all", "ann", time.Hour)["application_credential"] = doc{"id": "a"}
	f.issue("none", "ann", time.Hour)["application_credential"] = doc{"access_rules": []doc{}}
	f.issue("traits", "ann", time.Hour)["application_credential"] = doc{"access_rules": []doc{{"service": "placement",
		"method": "GET", "path": "/traits/*"}}}
	f.issue("compute", "ann", time.Hour)["application_credential"] = doc{"access_rules": []doc{{"service": "compute",
		"method": "GET", "path": "/traits/*"}}}
	f.issue("service", "nova", time.Hour, "service")
	k := client(t, f, func(o *KeystoneOptions) { o.ServiceType = "placement" })
	want(t, k, "", "all")
	want(t, k, fault.Forbidden, "none")
	want(t, k, "", "traits")
	want(t, k, fault.Forbidden, "compute")
	want(t, k, "", "compute", "service")
	for _, user := range []string{"all", "traits", "compute"} { // that anyone has
		want(t, k, fault.Forbidden, "compute", user)
	}
	want(t, client(t, f, nil), fault.Forbidden, "traits")
	for _, c := range []struct {
		rule, path string
		want       bool
	}{
		{"/a", "/a", true}, {"/a", "/a/b", false}, {"/a", "/aa", false}, {"/a.b", "/axb", false},
		{"/a/*", "/a/b", true}, {"/a/*", "/a/", false}, {"/a/*", "/a/b/c", false}, {"/a/*/c", "/a/b/c", true},
		{"/a/{id}/c", "/a/b/c", true}, {"/a/{id}", "/a/b/c", false},
		{"/a/**", "/a/b/c", true}, {"/a/**", "/a/", true}, {"/**", "/", true}, {"/a/{id", "/a/{id", true},
	} {
		if got := (accessRule{"s", "GET", c.rule}).matches("s", "GET", c.path); got != c.want {
			t.Errorf("%s matches %s: %v", c.rule, c.path, got)
		}
	}
	if (accessRule{"s", "GET", "/"}).matches("s", "PUT", "/") {
		t.Error("another method matches")
	}
}
