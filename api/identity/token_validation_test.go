package identity

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

// client returns a Keystone that uses the fake.
func client(t *testing.T, f *fake, change func(*KeystoneOptions)) *Keystone {
	t.Helper()
	o := KeystoneOptions{AuthURL: f.URL + "/identity", Username: "placement", Password: "secret",
		UserDomainName: "Default", ProjectName: "services", ProjectDomainID: "default",
		ServiceRoles: []string{"service"}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	k, err := NewKeystone(o)
	if err != nil {
		t.Fatal(err)
	}
	k.now = f.clock
	k.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return k
}

// ask authenticates a request with a user's token and optionally a service's token.
func ask(k *Keystone, tokens ...string) (Identity, error) {
	r := httptest.NewRequest("GET", "/traits/CUSTOM_A", nil)
	for i, name := range []string{"X-Auth-Token", "X-Service-Token"} {
		if i < len(tokens) && tokens[i] != "" {
			r.Header.Set(name, tokens[i])
		}
	}
	return k.Authenticate(r)
}

// want authenticates and fails unless the error has this kind.
func want(t *testing.T, k *Keystone, kind fault.Kind, tokens ...string) {
	t.Helper()
	if id, err := ask(k, tokens...); fault.KindOf(err) != kind {
		t.Errorf("%v: %+v, %v; want %q", tokens, id, err, kind)
	}
}

func TestKeystoneReturnsTheCaller(t *testing.T) {
	f := newFake(t)
	k := client(t, f, nil)
	f.issue("t1", "ann", time.Hour, "member", "reader")
	base := Identity{User: "ann", UserName: "name-ann", UserDomain: "ud", Project: "p1", ProjectName: "lab",
		ProjectDomain: "pd", Roles: []string{"member", "reader"}}
	if id, err := ask(k, "t1"); err != nil || !reflect.DeepEqual(id, base) {
		t.Errorf("%+v, %v", id, err)
	}
	system := f.issue("t2", "ann", time.Hour, "reader")
	delete(system, "project")
	system["system"], system["is_admin_project"] = doc{"all": true}, true
	if id, err := ask(k, "t2"); err != nil || id.SystemScope != "all" || id.Project != "" || id.NotAdminProject {
		t.Errorf("%+v, %v", id, err)
	}
	domain := f.issue("t3", "ann", time.Hour)
	delete(domain, "project")
	domain["domain"], domain["is_admin_project"] = doc{"id": "d1"}, false
	if id, err := ask(k, "t3"); err != nil || id.Domain != "d1" || !id.NotAdminProject || id.Roles != nil {
		t.Errorf("%+v, %v", id, err)
	}
	if f.signIns != 1 {
		t.Errorf("%d own tokens requested", f.signIns)
	}
	// A change of a returned identity does not change the cache.
	id, _ := ask(k, "t1")
	id.Roles[0] = "admin"
	if id, _ := ask(k, "t1"); id.Roles[0] != "member" {
		t.Error("a change of the returned identity changed the cache")
	}
}

func TestInvalidTokensAreRejectedWithoutKeystone(t *testing.T) {
	f := newFake(t)
	k := client(t, f, nil)
	for _, token := range []string{"", "  ", "a b", "a\x01", "tökén", strings.Repeat("a", maxToken+1)} {
		want(t, k, fault.Forbidden, token)
	}
	if f.signIns != 0 {
		t.Error("Keystone was called")
	}
	f.issue("good", "ann", time.Hour)
	want(t, k, "", " good ")
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["X-Auth-Token"] = []string{"good", "good"}
	if _, err := k.Authenticate(r); !fault.Is(err, fault.Forbidden) {
		t.Errorf("two tokens: %v", err)
	}
}

func TestResultsAreCachedForCacheTime(t *testing.T) {
	f := newFake(t)
	k := client(t, f, func(o *KeystoneOptions) { o.CacheTime = 5 * time.Minute })
	f.issue("t", "ann", time.Hour)
	for range 3 {
		want(t, k, "", "t")
		f.pass(90 * time.Second)
	}
	if f.count("t") != 1 {
		t.Errorf("%d validations within the cache time", f.count("t"))
	}
	f.do(func() { delete(f.tokens, "t") }) // revoked
	want(t, k, "", "t")                    // 4:30 after the validation
	f.pass(30 * time.Second)
	want(t, k, fault.Forbidden, "t")
	if f.count("t") != 2 {
		t.Errorf("%d validations", f.count("t"))
	}
}

func TestResultsAreNotCachedAfterExpiry(t *testing.T) {
	f := newFake(t)
	k := client(t, f, nil)
	f.issue("t", "ann", time.Minute)
	want(t, k, "", "t")
	f.pass(time.Minute - time.Nanosecond)
	want(t, k, "", "t")
	f.pass(time.Nanosecond)
	want(t, k, fault.Forbidden, "t")
}

func TestRejectedTokensAreCached(t *testing.T) {
	f := newFake(t)
	k := client(t, f, nil)
	for range 3 {
		want(t, k, fault.Forbidden, "t")
	}
	if f.count("t") != 1 {
		t.Errorf("%d validations", f.count("t"))
	}
	f.issue("t", "ann", time.Hour)
	f.pass(refusedCacheTime)
	want(t, k, "", "t")
}

func TestKeystoneWithoutCache(t *testing.T) {
	f := newFake(t)
	k := client(t, f, func(o *KeystoneOptions) { o.CacheTime = -1 })
	f.issue("t", "ann", time.Hour)
	for range 3 {
		want(t, k, "", "t")
		want(t, k, fault.Forbidden, "none")
	}
	if f.count("t") != 3 || f.count("none") != 3 {
		t.Errorf("%v", f.validations)
	}
}

// TestCacheIsBounded tests that the cache is bounded, that rejected tokens evict no valid ones, and that the tokens
// themselves are not stored.
func TestCacheIsBounded(t *testing.T) {
	f := newFake(t)
	k := client(t, f, nil)
	k.valid, k.refused = newCache[*tokenInfo](3), newCache[struct{}](3)
	for i := range 5 {
		f.issue(fmt.Sprint("t", i), "ann", time.Hour)
		want(t, k, "", fmt.Sprint("t", i))
		want(t, k, "", "t0") // in use
		want(t, k, fault.Forbidden, fmt.Sprint("bad", i))
	}
	for i, again := range []bool{false, true, true, false, false} {
		token := fmt.Sprint("t", i)
		before := f.count(token)
		want(t, k, "", token)
		if called := f.count(token) > before; called != again && i != 3 && i != 4 {
			t.Errorf("%s was validated again: %v", token, called)
		}
	}
	if len(k.valid.entries) != 3 || k.valid.order.Len() != 3 || len(k.refused.entries) != 3 {
		t.Errorf("%d valid and %d rejected tokens are cached", len(k.valid.entries), len(k.refused.entries))
	}
}

func TestConcurrentRequestsShareOneValidation(t *testing.T) {
	f := newFake(t)
	k := client(t, f, nil)
	f.issue("t", "ann", time.Hour)
	f.gate = make(chan struct{})
	errs := make(chan error)
	const many = 200
	for range many {
		go func() { _, err := ask(k, "t"); errs <- err }()
	}
	// A cancelled request does not cancel the validation.
	gone, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest("GET", "/", nil).WithContext(gone)
	r.Header.Set("X-Auth-Token", "t")
	left := make(chan error)
	go func() { _, err := k.Authenticate(r); left <- err }()
	cancel()
	if err := <-left; !fault.Is(err, fault.Unavailable) {
		t.Errorf("a cancelled request returns %v", err)
	}
	close(f.gate)
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if f.count("t") != 1 || f.signIns != 1 {
		t.Errorf("%d validations, %d own tokens requested", f.count("t"), f.signIns)
	}
}

func TestKeystoneDown(t *testing.T) {
	f := newFake(t)
	k := client(t, f, func(o *KeystoneOptions) { o.Retries = 2 })
	waits := 0
	k.wait = func(context.Context, time.Duration) error { waits++; return nil }
	f.issue("t", "ann", time.Hour)
	want(t, k, "", "t")
	f.Close()
	want(t, k, "", "t")
	if _, err := ask(k, "other"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(),
		"Keystone at "+f.URL+"/identity/v3 does not answer") || strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
	if waits != 2 {
		t.Errorf("waited %d times", waits)
	}
	never := client(t, f, nil)
	want(t, never, fault.Unavailable, "t")
}

func TestUnexpectedResponsesOfKeystone(t *testing.T) {
	f := newFake(t)
	k := client(t, f, nil)
	f.issue("t", "ann", time.Hour)
	want(t, k, "", "t")
	for _, status := range []int{500, 502, 503, 429, 403, 302, 400, 204} {
		f.do(func() { f.status = status })
		want(t, k, fault.Unavailable, "u")
		want(t, client(t, f, nil), fault.Unavailable, "t")
	}
	f.do(func() { f.status = 0 })
	want(t, k, fault.Forbidden, "u")
	for name, d := range map[string]doc{"nothing": {}, "no user": {"expires_at": "2031-01-01T00:00:00Z"},
		"no end": {"user": doc{"id": "u"}}, "an odd end": {"user": doc{"id": "u"}, "expires_at": 5}} {
		f.do(func() { f.tokens["odd"] = &issued{d, f.now.Add(time.Hour)} })
		if _, err := ask(k, "odd"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServiceTokens(t *testing.T) {
	f := newFake(t)
	f.issue("user", "ann", time.Minute, "member")
	f.issue("service", "nova", time.Hour, "service")
	f.issue("other", "bob", time.Hour, "member")
	f.issue("old", "nova", time.Minute, "service")
	lax := client(t, f, nil)
	strict := client(t, f, func(o *KeystoneOptions) { o.ServiceRolesRequired = true })
	for _, c := range []struct {
		user, service string
		lax, strict   fault.Kind
	}{
		{"user", "", "", ""},
		{"user", "service", "", ""},
		{"user", "other", "", fault.Forbidden},
		{"user", "none", fault.Forbidden, fault.Forbidden},
		{"", "service", fault.Forbidden, fault.Forbidden},
		{"none", "service", fault.Forbidden, fault.Forbidden},
	} {
		want(t, lax, c.lax, c.user, c.service)
		want(t, strict, c.strict, c.user, c.service)
	}
	id, err := ask(lax, "user", "service")
	if err != nil || id.User != "ann" || id.Service == nil || id.Service.User != "nova" || !id.Service.Has("service") {
		t.Errorf("%+v, %v", id, err)
	}
	f.pass(time.Minute)
	for _, c := range []struct {
		user, service string
		want          fault.Kind
	}{
		{"user", "", fault.Forbidden},
		{"user", "other", fault.Forbidden},
		{"user", "old", fault.Forbidden},
		{"user", "service", ""},
		{"user", "", fault.Forbidden}, // a result for a service is not used for others
	} {
		want(t, lax, c.want, c.user, c.service)
	}
	before := f.count("user")
	want(t, lax, "", "user", "service")
	if f.count("user") != before {
		t.Error("an expired token is not cached")
	}
	f.do(func() { delete(f.tokens, "user") })
	f.pass(5 * time.Minute)
	want(t, lax, fault.Forbidden, "user", "service")
}
