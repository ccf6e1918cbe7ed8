package device

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// TestRestrictedDevices tests live_migratable of alias and rule in all combinations, and devices that no alias can
// claim.
func TestRestrictedDevices(t *testing.T) {
	for _, alias := range []pci.Flag{pci.Yes, pci.No, pci.Unset} {
		for _, rule := range []pci.Flag{pci.Yes, pci.No, pci.Unset} {
			o := plain
			o.LiveMigratable = rule
			r := request(o, 1)
			r.Requirement.LiveMigratable = alias
			_, _, refusal := New([]Offer{o}).Claim("s1", r)
			if want := alias == pci.Unset || alias == rule; (refusal == "") != want {
				t.Errorf("alias %q, rule %q: %q", alias, rule, refusal)
			}
		}
	}
	for want, change := range map[string]func(*Offer){
		"used once":      func(o *Offer) { o.Spent = true },
		"network ports":  func(o *Offer) { o.ForPorts = true },
		"remote-managed": func(o *Offer) { o.RemoteManaged = true },
		"vendor is 10de": func(o *Offer) { o.Device.Vendor = "10de" },
	} {
		o := plain
		o.Device.Vendor = "8086"
		r := request(o, 1)
		change(&o)
		if _, _, refusal := New([]Offer{o}).Claim("s1", r); !strings.Contains(string(refusal), want) {
			t.Errorf("%q does not contain %q", refusal, want)
		}
	}
	// A holder keeps a used device, and the device stays used when it is freed.
	s := New([]Offer{plain}).hold(t, "s1", request(plain, 1)).Spend(PCI(plain.Device.Address), true)
	if _, picked, refusal := s.Claim("s1", request(plain, 1)); refusal != "" || len(picked) != 1 {
		t.Errorf("its holder cannot claim it again: %s", refusal)
	}
	s, _ = s.Sync([]Offer{plain})
	s, _ = s.Free("s1")
	if _, _, refusal := s.Claim("s2", request(plain, 1)); !strings.Contains(string(refusal), "used once") {
		t.Errorf("%q", refusal)
	}
	if _, picked, _ := s.Spend(PCI(plain.Device.Address), false).Claim("s2", request(plain, 1)); len(picked) != 1 {
		t.Error("a cleaned device cannot be claimed")
	}
}

// TestClaimAllMovesAnEarlierPick tests two requests, of which the first fits either device and the second only one:
// both get a device.
func TestClaimAllMovesAnEarlierPick(t *testing.T) {
	other := plain
	other.Device.Address.Slot, other.Device.Product, other.Provider = 1, "20b5", "gpu2"
	any := pci.Request{ID: "any", Alias: "any", Count: 1, Requirement: pci.Requirement{Vendor: "10de"}}
	first := pci.Request{ID: "first", Alias: "first", Count: 1, Requirement: pci.Requirement{Vendor: "10de",
		Product: "20b0"},
		Providers: []resource.ProviderID{plain.Provider}}
	_, picked, refusal := New([]Offer{plain, other}).ClaimAll("s1", []pci.Request{any, first}, Near{})
	if refusal != "" || addresses(picked) != "82:01.0 82:00.0" {
		t.Errorf("%s %s", addresses(picked), refusal)
	}
}

// Of three devices two are allocated and one is left: a request of four is refused and changes nothing, one of one
// succeeds, and a claim without requests changes nothing.
func TestClaimOfRemainingDevices(t *testing.T) {
	var offers []Offer
	for i := range 3 {
		o := plain
		o.Device.Address.Slot = uint8(i)
		offers = append(offers, o)
	}
	s := New(offers).hold(t, "s1", request(plain, 2))
	s, _ = s.Allocate("s1")
	if n, picked, refusal := s.Claim("s2", request(plain, 4)); refusal == "" || len(picked) > 0 || !n.equal(s) {
		t.Errorf("%v %s", picked, refusal)
	}
	if _, picked, refusal := s.Claim("s2", request(plain, 1)); refusal != "" || addresses(picked) != "82:02.0" {
		t.Errorf("%v %s", picked, refusal)
	}
	if n, picked, refusal := s.ClaimAll("s2", nil, Near{}); refusal != "" || len(picked) > 0 || !n.equal(s) {
		t.Errorf("%v %s", picked, refusal)
	}
}

// TestClaimPicksInsideTheProviders tests that a claim picks exactly one device for each named provider, the lowest
// address first.
func TestClaimPicksInsideTheProviders(t *testing.T) {
	s := New(slices.Concat(card(0x82, 2, "B"), card(0x81, 3, "A")))
	for _, c := range []struct {
		providers []resource.ProviderID
		want      string
	}{
		{[]resource.ProviderID{"A"}, "81:00.1"},
		{[]resource.ProviderID{"B"}, "82:00.1"},
		{[]resource.ProviderID{"B", "A"}, "81:00.1 82:00.1"},
		{[]resource.ProviderID{"A", "B", "A"}, "81:00.1 81:00.2 82:00.1"},
		{[]resource.ProviderID{"B", "B"}, "82:00.1 82:00.2"},
	} {
		_, picked, refusal := s.Claim("s1", vfs("r", c.providers...))
		if addresses(picked) != c.want || refusal != "" {
			t.Errorf("%v: %s %s, want %s", c.providers, addresses(picked), refusal, c.want)
		}
	}
	// There are three devices in all, but only two of the provider: nothing is picked.
	n, picked, refusal := s.Claim("s1", vfs("r", "B", "B", "B"))
	if len(picked) > 0 || refusal == "" || len(n.Claims()) > 0 {
		t.Errorf("%v %s", picked, refusal)
	}
	any := vfs("r")
	any.Count = 4
	if _, picked, _ := s.Claim("s1", any); addresses(picked) != "81:00.1 81:00.2 81:00.3 82:00.1" {
		t.Error(addresses(picked))
	}
}

// TestClaimByClassAlone tests that a class is compared for requests without providers; otherwise Placement has
// compared it.
func TestClaimByClassAlone(t *testing.T) {
	gpu := plain
	gpu.ResourceClass = "CUSTOM_GPU"
	s := New([]Offer{gpu, card(0x81, 1, "A")[0]})
	r := pci.Request{ID: "r", Count: 1, Requirement: pci.Requirement{Class: "CUSTOM_GPU"}}
	if _, picked, refusal := s.Claim("s1", r); addresses(picked) != "82:00.0" {
		t.Errorf("%v %s", picked, refusal)
	}
	r.Requirement.Vendor, r.Requirement.Product, r.Requirement.Class = "8086", "1515", "CUSTOM_PCI_8086_1515"
	if _, picked, refusal := s.Claim("s1", r); addresses(picked) != "81:00.1" {
		t.Errorf("%v %s", picked, refusal)
	}
	r = pci.Request{ID: "r", Count: 1, Providers: []resource.ProviderID{"A"},
		Requirement: pci.Requirement{Class: "CUSTOM_CHECKED_BY_PLACEMENT"}}
	if _, picked, refusal := s.Claim("s1", r); addresses(picked) != "81:00.1" {
		t.Errorf("%v %s", picked, refusal)
	}
}

func TestClaimAllIsAllOrNothing(t *testing.T) {
	s := New(append(card(0x81, 2, "A"), plain))
	n, picked, refusal := s.ClaimAll("s1", []pci.Request{vfs("r1", "A"), request(plain, 1, "gpu"), vfs("r2", "A")}, Near{})
	if addresses(picked) != "81:00.1 82:00.0 81:00.2" || refusal != "" || len(n.Held("s1")) != 3 {
		t.Errorf("%s %s", addresses(picked), refusal)
	}
	n, picked, refusal = s.ClaimAll("s1", []pci.Request{vfs("r1", "A"), vfs("r2", "A", "A")}, Near{})
	if refusal == "" || picked != nil || n.print() != s.print() {
		t.Errorf("%v %s", picked, refusal)
	}
	if n, picked, refusal := s.ClaimAll("s1", nil, Near{}); refusal != "" || picked != nil || n.print() != s.print() {
		t.Errorf("%v %s", picked, refusal)
	}
}
