package identity

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

func readCalls(t *testing.T, text string) (ServiceCalls, error) {
	t.Helper()
	file, err := config.Parse("berth.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ReadCalls(config.New(file), "placement")
}

func TestReadCalls(t *testing.T) {
	if s, err := readCalls(t, "[placement]\nendpoint_override = http://p:8778\n"); err != nil || s.Type != NoAccount ||
		s.Address != "http://p:8778" {
		t.Errorf("no auth_type: %+v %v", s, err)
	}
	s, err := readCalls(t, "[placement]\nauth_section = account\nregion_name = R1\nvalid_interfaces = public\n"+
		"[account]\nauth_type = http_basic\nusername = nova\npassword = p\nendpoint = http://p\n")
	if err != nil || s.Type != BasicAccount || s.Name != "nova" || s.Password != "p" || s.Address != "http://p" ||
		s.Region != "R1" || !slices.Equal(s.Interfaces, []string{"public"}) {
		t.Errorf("http_basic: %+v %v", s, err)
	}
	s, err = readCalls(t, "[placement]\nauth_type = password\nauth_url = http://k:5000\nusername = nova\npassword = p\n"+
		"user_domain_id = default\ncafile = /ca.pem\n")
	if err != nil || s.Type != KeystoneAccount || s.Keystone.Username != "nova" || s.Keystone.CAFile != "/ca.pem" ||
		s.Address != "" {
		t.Errorf("password: %+v %v", s, err)
	}
	for text, want := range map[string]string{
		"[placement]\nauth_type = magic\n":                                    "none, http_basic, password",
		"[placement]\nvalid_interfaces = sideways\n":                          "sideways",
		"[placement]\nauth_type = http_basic\npassword = p\n":                 "[placement] username is missing",
		"[placement]\nauth_type = http_basic\nusername = n\n":                 "[placement] password is missing",
		"[placement]\nauth_type = password\nauth_url = http://k\n":            "[placement] username is missing",
		"[placement]\nauth_type = http_basic\nusername = a:b\npassword = p\n": "colon",
	} {
		s, err := readCalls(t, text)
		if err == nil {
			_, err = s.Account()
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func signed(t *testing.T, a *Account) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.Header.Set("X-Auth-Token", "admin:service") // that of noauth2 is replaced
	if err := a.Sign(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBasicAccountSigns(t *testing.T) {
	a, err := ServiceCalls{Type: BasicAccount, Name: "nova", Password: "p"}.Account()
	if err != nil {
		t.Fatal(err)
	}
	r := signed(t, a)
	if name, password, ok := r.BasicAuth(); !ok || name != "nova" || password != "p" || r.Header["X-Auth-Token"] != nil {
		t.Errorf("%v", r.Header)
	}
	if a.Renew(r) || a.Locate("compute") != nil {
		t.Error("a password is renewed, or there is a catalog")
	}
}

// A token is used until a service rejects it; a rejection of an earlier token does not discard the present one.
func TestKeystoneAccountRenewsItsToken(t *testing.T) {
	f := newFake(t)
	f.catalog = []doc{{"type": "placement", "endpoints": []doc{{"interface": "internal", "region": "R1",
		"url": "http://p:8778/"}}}}
	a, err := ServiceCalls{Type: KeystoneAccount, Interfaces: []string{"internal"},
		Keystone: KeystoneOptions{AuthURL: f.URL + "/identity", Username: "svc", Password: "secret",
			UserDomainID: "default"}}.Account()
	if err != nil {
		t.Fatal(err)
	}
	a.keystone.now = f.clock
	first := signed(t, a)
	again := signed(t, a)
	if f.signIns != 1 || first.Header.Get("X-Auth-Token") != again.Header.Get("X-Auth-Token") {
		t.Errorf("%d sign-ins", f.signIns)
	}
	if !a.Renew(first) {
		t.Error("the token is not renewed")
	}
	second := signed(t, a)
	if token := second.Header.Get("X-Auth-Token"); f.signIns != 2 || token == first.Header.Get("X-Auth-Token") {
		t.Errorf("%d sign-ins, token %s", f.signIns, token)
	}
	a.Renew(again) // the answer to a request with the first token, which arrives late
	signed(t, a)
	if f.signIns != 2 {
		t.Errorf("%d sign-ins", f.signIns)
	}
	if address, err := a.Locate("placement")(t.Context()); err != nil || address != "http://p:8778" {
		t.Errorf("%s %v", address, err)
	}
	if _, err := a.Locate("image")(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
}
