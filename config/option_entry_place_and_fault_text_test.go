package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestEntryHasFileAndLine(t *testing.T) {
	c := parseConfig(t, "# c\n[pci]\nspec = {\n  1}\n\nspec : 2\n", "[PCI]\nspec = 3")
	got := c.All("pci", "spec")
	want := []Entry{
		{File: "first.conf", Line: 3, Group: "pci", Option: "spec", Value: "{\n1}"},
		{File: "first.conf", Line: 6, Group: "pci", Option: "spec", Value: "2"},
		{File: "second.conf", Line: 2, Group: "PCI", Option: "spec", Value: "3"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	last, found := c.Get("pci", "spec")
	if !found || last != want[2] || last.Place() != "second.conf:2" {
		t.Errorf("Get returned %+v, want the last entry", last)
	}
	if e, found := c.Get("pci", "Spec"); found {
		t.Errorf("found %+v by a name in another case", e)
	}
}

func TestEntryFault(t *testing.T) {
	long := strings.Repeat("é", 161)
	cases := []struct{ line, want string }{
		{
			`device_spec = {"vendor_id":` + "\n  " + `"8o86"}`,
			`first.conf:2: [pci] device_spec = {"vendor_id": "8o86"}: wrong`,
		},
		{"x =", `first.conf:2: [pci] x = "": wrong`},
		{"x = 100%s", "first.conf:2: [pci] x = 100%s: wrong"},
		{"x = " + long, "first.conf:2: [pci] x = " + long[:2*160] + "…: wrong"},
		{"admin_password = hunter2", "first.conf:2: [pci] admin_password = ***: wrong"},
		{"admin_token = x", "first.conf:2: [pci] admin_token = ***: wrong"},
		{"application_credential_secret = x", "first.conf:2: [pci] application_credential_secret = ***: wrong"},
		{"memcache_secret_key = x", "first.conf:2: [pci] memcache_secret_key = ***: wrong"},
		{"private_key_passphrase = x", "first.conf:2: [pci] private_key_passphrase = ***: wrong"},
		{"token_cache_time = soon", "first.conf:2: [pci] token_cache_time = soon: wrong"},
		{"service_token_roles_required = maybe", "first.conf:2: [pci] service_token_roles_required = maybe: wrong"},
		{"connection = mysql+pymysql://u:hun/t:er2@h/d?x=a:b", "first.conf:2: [pci] connection = " +
			"mysql+pymysql://u:***@h/d?x=a:b: wrong"},
		{"connection = sqlite:////a@b.db", "first.conf:2: [pci] connection = sqlite:////a@b.db: wrong"},
		{"transport_url = rabbit://a:x@h1,rabbit://b:y@h2/", "first.conf:2: [pci] transport_url = " +
			"rabbit://a:***@h1,rabbit://b:***@h2/: wrong"},
	}
	for _, c := range cases {
		e := parseConfig(t, "[pci]\n"+c.line).files[0].Entries[0]
		wantFault(t, e.Fault("%s", "wrong"), fault.Invalid, c.want)
	}
}
