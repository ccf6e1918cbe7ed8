package identity

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

func TestOwnTokenIsRenewed(t *testing.T) {
	f := newFake(t)
	k := client(t, f, func(o *KeystoneOptions) { o.CacheTime = -1 })
	f.issue("t", "ann", 24*time.Hour)
	want(t, k, "", "t")
	f.pass(58 * time.Minute)
	want(t, k, "", "t")
	if f.signIns != 1 {
		t.Errorf("%d own tokens requested", f.signIns)
	}
	// It is renewed before it expires; if that fails, it is still used.
	f.pass(time.Minute + time.Second)
	f.do(func() { f.password = "changed" })
	want(t, k, "", "t")
	f.do(func() { f.password = "secret" })
	f.pass(refusedBackoff)
	want(t, k, "", "t")
	if f.signIns != 3 {
		t.Errorf("%d own tokens requested", f.signIns)
	}
	// A revoked token is replaced.
	f.do(func() { clear(f.tokens) })
	f.issue("t", "ann", 24*time.Hour)
	want(t, k, "", "t")
	if f.signIns != 4 {
		t.Errorf("%d own tokens requested", f.signIns)
	}
}

func TestRejectedAccountOfTheService(t *testing.T) {
	f := newFake(t)
	k := client(t, f, func(o *KeystoneOptions) { o.Password = "wrong" })
	f.issue("t", "ann", time.Hour)
	for range 5 {
		_, err := ask(k, "t")
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "refuses the user placement") ||
			strings.Contains(err.Error(), "wrong") {
			t.Fatal(err)
		}
	}
	if f.signIns != 1 {
		t.Errorf("a wrong password was sent %d times", f.signIns)
	}
	f.pass(refusedBackoff)
	f.do(func() { f.password = "wrong" })
	want(t, k, "", "t")
	// If each new token is rejected, there are two tries.
	f.do(func() { f.life = -time.Hour })
	other := client(t, f, func(o *KeystoneOptions) { o.Password = "wrong" })
	before := f.signIns
	want(t, other, fault.Unavailable, "t")
	if f.signIns-before != 2 {
		t.Errorf("%d own tokens requested", f.signIns-before)
	}
}

func TestEndpointFromTheCatalog(t *testing.T) {
	f, other := newFake(t), newFake(t)
	other.tokens = f.tokens
	f.issue("t", "ann", time.Hour)
	f.catalog = []doc{{"type": "compute", "endpoints": []doc{{"interface": "internal", "region": "one",
		"url": "http://127.0.0.1:1"}}},
		{"type": "identity", "endpoints": []doc{{"interface": "public", "region": "one", "url": "http://127.0.0.1:1"},
			{"interface": "internal", "region": "one", "url": other.URL + "/identity/v3/"}, {"interface": "internal",
				"region_id": "two", "url": f.URL + "/identity"}}}}
	for _, c := range []struct {
		region, iface string
		called        *fake
	}{{"", "", other}, {"one", "internal", other}, {"two", "", f}, {"three", "", f}, {"one", "admin", f}} {
		k := client(t, f, func(o *KeystoneOptions) { o.Region, o.Interface = c.region, c.iface })
		before := c.called.count("t")
		want(t, k, "", "t")
		if c.called.count("t") != before+1 {
			t.Errorf("region %q, interface %q: another Keystone was called", c.region, c.iface)
		}
	}
	for address, want := range map[string]string{"http://h:5000": "http://h:5000/v3",
		"http://h/identity/": "http://h/identity/v3", "http://h/v3": "http://h/v3",
		"http://h/v3/": "http://h/v3", "http://h/v2.0": "http://h/v3"} {
		if got := v3Address(address); got != want {
			t.Errorf("%s: %s; want %s", address, got, want)
		}
	}
}

func TestBodyOfTokenRequest(t *testing.T) {
	f := newFake(t)
	for _, c := range []struct {
		change func(*KeystoneOptions)
		want   string
	}{
		{func(*KeystoneOptions) {},
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"name":"Default"},` +
				`"name":"placement","password":"secret"}}},"scope":{"project":{"domain":{"id":"default"},"name":"services"}}}}`},
		{func(o *KeystoneOptions) { o.UserID, o.ProjectID = "u", "p" },
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"u","password":"secret"}}},` +
				`"scope":{"project":{"id":"p"}}}}`},
		{func(o *KeystoneOptions) { o.ProjectName, o.SystemScope = "", "all" },
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"name":"Default"},` +
				`"name":"placement","password":"secret"}}},"scope":{"system":{"all":true}}}}`},
		{func(o *KeystoneOptions) { o.ProjectName, o.DomainName = "", "D" },
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"name":"Default"},` +
				`"name":"placement","password":"secret"}}},"scope":{"domain":{"name":"D"}}}}`},
		{func(o *KeystoneOptions) {
			o.Username = ""
			o.ApplicationCredentialID, o.ApplicationCredentialSecret = "a", "secret"
		},
			`{"auth":{"identity":{"application_credential":{"id":"a","secret":"secret"},` +
				`"methods":["application_credential"]}}}`},
		{func(o *KeystoneOptions) { o.ApplicationCredentialName, o.ApplicationCredentialSecret = "a", "secret" },
			`{"auth":{"identity":{"application_credential":{"name":"a","secret":"secret",` +
				`"user":{"domain":{"name":"Default"},"name":"placement"}},"methods":["application_credential"]}}}`},
	} {
		want(t, client(t, f, c.change), fault.Forbidden, "none")
		if got := f.bodies[len(f.bodies)-1]; got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
