package device

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

func TestRefusals(t *testing.T) {
	s := New(append(card(0x81, 4, "A"), plain))
	for i, holder := range []resource.ConsumerID{"s1", "s2", "s3", "s4"} {
		s = s.hold(t, holder, vfs(fmt.Sprint("r", i), "A"))
	}
	family := New([]Offer{pf, vf1, vf2}).hold(t, "s1", request(pf, 1, "card"))
	ports := plain
	ports.ForPorts = true
	for _, c := range []struct {
		set  Set
		r    pci.Request
		want string
	}{
		{s, vfs("r", "A"), "provider cmp1_A has no free 8086:1515 type-VF: 4 of 4 held by s1, s2, s3 and 1 more"},
		{s, vfs("r", "nowhere"), "provider nowhere has no free 8086:1515 type-VF: this host offers no device there"},
		{s, vfs("r", "gpu"), "provider cmp1_gpu has no free 8086:1515 type-VF: 1 of 1 not fit for it: vendor is 10de, not " +
			"8086"},
		{New(card(0x81, 1, "A")), vfs("r", "A", "A"),
			"provider cmp1_A has no free 8086:1515 type-VF: 1 of 1 held by this server itself"},
		{s, pci.Request{ID: "r", Count: 1, Requirement: pci.Requirement{Class: "CUSTOM_X"}},
			"the host has no free type-PCI or type-VF of class CUSTOM_X: 5 of 5 not fit for it: its class is " +
				"CUSTOM_PCI_10DE_20B0, not CUSTOM_X, its class is CUSTOM_PCI_8086_1515, not CUSTOM_X"},
		{family, request(vf1, 1, "card"),
			"provider cmp1_card has no free 8086:1515 type-VF: 0000:81:00.1 is unclaimable because s1 holds 0000:81:00.0, " +
				"0000:81:00.2 is unclaimable because s1 holds 0000:81:00.0; 1 of 3 not fit for it: product is 1528, not 1515"},
		{New([]Offer{ports}), request(plain, 1),
			"the host has no free 10de:20b0 type-PCI: 1 of 1 not fit for it: it is for network ports"},
		{Set{}, pci.Request{ID: "r", Count: 1, Requirement: pci.Requirement{Vendor: "8086"}},
			"the host has no free 8086:* type-PCI or type-VF: this host offers no device there"},
		{s, pci.Request{ID: "r", Alias: "a", Count: 0}, "request r asks for 0 devices"},
		{s, pci.Request{Alias: "a", Count: 1}, `the request for alias "a" has no request id`},
		{s, pci.Request{ID: "r", Count: 2, Providers: []resource.ProviderID{"A"}},
			"request r asks for 2 devices but names 1 providers; it needs one for each"},
		{s, pci.Request{ID: "r", Count: 1, Providers: []resource.ProviderID{}},
			"request r asks for 1 devices but names 0 providers; it needs one for each"},
	} {
		n, picked, refusal := c.set.Claim("s9", c.r)
		if string(refusal) != c.want {
			t.Errorf("\n got %s\nwant %s", refusal, c.want)
		}
		if len(picked) > 0 || n.print() != c.set.print() {
			t.Errorf("%s, but something was picked", refusal)
		}
	}
	if _, _, refusal := s.Claim("", vfs("r", "A")); refusal != "a claim needs a holder" {
		t.Error(refusal)
	}
	_, _, refusal := s.Claim("s1", vfs("r0", "A", "A"))
	if refusal != "s1 holds 1 devices for request r0 already, and not those asked now; free it first" {
		t.Error(refusal)
	}
}

// TestRefusedClaimsChangeNothing tests that a refused claim changes nothing.
func TestRefusedClaimsChangeNothing(t *testing.T) {
	s := New([]Offer{pf, vf1, vf2, plain}).hold(t, "s1", request(vf1, 1))
	for name, c := range map[string]struct {
		request pci.Request
		want    string
	}{
		"a PF with a claimed child":                {request(pf, 1), "unclaimable"},
		"more than exist":                          {request(plain, 2), "no free"},
		"a device that another server has claimed": {request(vf1, 2), "held by s1"},
		"a provider without free devices, although another has some": {func() pci.Request {
			r := request(vf1, 2, "card",
				"card")
			return r
		}(), "provider"},
	} {
		t.Run(name, func(t *testing.T) {
			n, picked, refusal := s.Claim("s2", c.request)
			if refusal == "" || len(picked) > 0 || !n.equal(s) || !strings.Contains(string(refusal), c.want) {
				t.Errorf("%s %v", refusal, picked)
			}
		})
	}
	allocated, _ := s.Allocate("s1")
	if _, _, refusal := allocated.Claim("s2", request(pf, 1)); !strings.Contains(string(refusal), "unavailable") {
		t.Errorf("a PF with an allocated child: %s", refusal)
	}
	// A claim of several requests that fails releases its first devices.
	n, _, refusal := s.ClaimAll("s2", []pci.Request{request(plain, 1), request(pf, 1)}, Near{})
	if refusal == "" || !n.equal(s) {
		t.Errorf("claim of several requests: %s", refusal)
	}
}
