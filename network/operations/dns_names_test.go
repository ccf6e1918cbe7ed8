package operations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
)

// TestDNSNames: which names and domains are accepted, and the names of addresses.
func TestDNSNames(t *testing.T) {
	for name, valid := range map[string]bool{"": true, "web": true, "web.db": true, "web.cloud.test.": true, "w-1": true,
		"web.": false, "web.other.": false, "-web": false, "web-": false, "we b": false, "web\nx": false, "a..b": false,
		"host_1": false, "cloud.test.": false, strings.Repeat("a", 64): false, strings.Repeat("a.", 125) + "a": false} {
		err := checkDNSName(name, "cloud.test")
		if (err == nil) != valid || err != nil && fault.CodeOf(err) != "InvalidInput" {
			t.Errorf("%q: %v", name, err)
		}
	}
	for domain, valid := range map[string]bool{"": true, "cloud.test": true, "cloud.test.": true, ".": false, "a b": false,
		"x\n": false, strings.Repeat("abcdefgh.", 20) + "abcdefghi": true,
		strings.Repeat("abcdefgh.", 20) + "abcdefghij": false} {
		if err := checkDNSDomain(domain); (err == nil) != valid {
			t.Errorf("%q: %v", domain, err)
		}
	}
	p := store.Port{FixedIPs: []store.FixedIP{{Address: "10.0.0.5"}, {Address: "fd00::5"}}}
	for name, want := range map[string]string{
		"": "[{10.0.0.5 host-10-0-0-5 host-10-0-0-5.cloud.test.} {fd00::5 host-fd00-0000-0000-0000-0000-0000-0000-0005 " +
			"host-fd00-0000-0000-0000-0000-0000-0000-0005.cloud.test.}]",
		"web":             "[{10.0.0.5 web web.cloud.test.} {fd00::5 web web.cloud.test.}]",
		"web.cloud.test.": "[{10.0.0.5 web web.cloud.test.} {fd00::5 web web.cloud.test.}]",
	} {
		p.DNSName = name
		if got := fmt.Sprint(DNSAssignments(p, "cloud.test")); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
	s := &Service{}
	if got := Domain(s, store.Network{}); got != "openstacklocal" {
		t.Error(got)
	}
	s.DNSDomain = "Cloud.Test."
	of := Domain(s, store.Network{DNSDomain: "n.test."})
	if got := Domain(s, store.Network{}) + " " + of; got != "cloud.test n.test" {
		t.Error(got)
	}
}
