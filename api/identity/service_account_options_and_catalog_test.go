package identity

import (
	"strings"
	"testing"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

func readAccount(t *testing.T, text string) (KeystoneOptions, bool, error) {
	t.Helper()
	file, err := config.Parse("nova.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ReadAccount(config.New(file), "glance")
}

func TestReadAccount(t *testing.T) {
	if _, signs, err := readAccount(t, "[glance]\nendpoint_override = http://g:9292\n"); signs || err != nil {
		t.Errorf("no auth_type: %v %v", signs, err)
	}
	o, signs, err := readAccount(t, "[glance]\nauth_section = account\ntimeout = 3\n[account]\nauth_type = "+
		"password\nauth_url = http://k:5000\nusername = nova\npassword = p\nuser_domain_id = default\n")
	if !signs || err != nil || o.Username != "nova" || o.AuthURL != "http://k:5000" || o.Timeout.Seconds() != 3 ||
		o.Group != "account" {
		t.Errorf("%+v %v %v", o, signs, err)
	}
	for text, want := range map[string]string{
		"[glance]\nauth_type = magic\n":                                       "does not support this auth_type",
		"[glance]\ntimeout = soon\n":                                          "timeout",
		"[glance]\nauth_type = password\nauth_url = http://k\nusername = n\n": "[glance] password is missing",
		"[glance]\nauth_type = password\nauth_url = http://k\nusername = n\npassword = p\nuser_domain_id = d\ncafile = " +
			"/no/such/file\n": "[glance] cafile cannot be read",
	} {
		o, _, err := readAccount(t, text)
		if err == nil {
			_, err = NewKeystone(o)
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestAddressFromTheCatalog(t *testing.T) {
	f := newFake(t)
	f.catalog = []doc{{"type": "image", "endpoints": []doc{{"interface": "public", "region": "R1", "url": "http://public"},
		{"interface": "internal", "region_id": "R2", "url": "http://two"}}}}
	k, err := NewKeystone(KeystoneOptions{AuthURL: f.URL + "/identity", Username: "svc", Password: "secret",
		UserDomainID: "default"})
	if err != nil {
		t.Fatal(err)
	}
	k.now = f.clock
	for _, c := range []struct {
		kind, region string
		interfaces   []string
		want, err    string
	}{
		{"image", "", []string{"internal", "public"}, "http://two", ""},
		{"image", "R1", []string{"internal", "public"}, "http://public", ""},
		{"image", "R3", []string{"internal", "public"}, "", "no service of type image in region R3 with the interface " +
			"internal or public"},
		{"volume", "", []string{"internal"}, "", "no service of type volume with"},
	} {
		got, err := k.Address(t.Context(), c.kind, c.interfaces, c.region)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && (!fault.Is(err, fault.Unavailable) ||
			!strings.Contains(fault.TextOf(err), c.err)) {
			t.Errorf("%+v: %q %v", c, got, err)
		}
	}
	first, err := k.SignIn(t.Context())
	if err != nil || first == "" {
		t.Fatal(first, err)
	}
	if again, _ := k.SignIn(t.Context()); again != first {
		t.Error("the token is not cached")
	}
	k.Forget(first)
	if again, err := k.SignIn(t.Context()); err != nil || again == first {
		t.Errorf("%q %v", again, err)
	}
}
