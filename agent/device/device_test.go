package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// card returns count VFs of a PF that is not offered.
func card(bus uint8, count int, p resource.ProviderID) []Offer {
	parent := pci.Address{Bus: bus}
	var list []Offer
	for i := range count {
		list = append(list, offer(pci.Device{Address: pci.Address{Bus: bus, Func: uint8(i + 1)}, Vendor: "8086",
			Product: "1515", Type: pci.Virtual, Parent: &parent}, p))
	}
	return list
}

func addresses(claims []Claim) string {
	var list []string
	for _, c := range claims {
		list = append(list, c.Device.Address.String()[5:])
	}
	return strings.Join(list, " ")
}

// hold claims devices; it fails the test if the claim is refused.
func (s Set) hold(t *testing.T, holder resource.ConsumerID, r pci.Request) Set {
	t.Helper()
	n, _, refusal := s.Claim(holder, r)
	if refusal != "" {
		t.Fatal(refusal)
	}
	return n
}

func vfs(id string, providers ...resource.ProviderID) pci.Request {
	return pci.Request{ID: id, Alias: "vf", Count: len(providers), Providers: providers,
		Requirement: pci.Requirement{Vendor: "8086", Product: "1515", Type: pci.Virtual}}
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

// TestClaimByClassAlone tests that a class is compared for requests without providers; otherwise Placement has
// compared it.
func TestClaimByClassAlone(t *testing.T) {
	gpu := plain
	gpu.Class = "CUSTOM_GPU"
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

// TestRestoreFromTheJournal tests that a claim with address, provider, request and holder gets its other fields from
// the host, and is kept without them.
func TestRestoreFromTheJournal(t *testing.T) {
	journal := func(address pci.Address, p resource.ProviderID, holder resource.ConsumerID, state State) Claim {
		return Claim{Offer: Offer{Device: pci.Device{Address: address}, Provider: p}, Holder: holder, Request: "r-" +
			string(holder), State: state}
	}
	vf, gone := pci.Address{Bus: 0x81, Func: 1}, pci.Address{Bus: 0x99}
	offers := card(0x81, 2, "")
	s, err := Restore(offers, []Claim{journal(vf, "A", "s1", Allocated), journal(gone, "Z", "s2", Claimed)})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := s.At(PCI(vf))
	if e.State != Allocated || e.Provider != "A" || e.Class != "CUSTOM_PCI_8086_1515" || e.Device.Type != pci.Virtual ||
		e.Request != "r-s1" || e.Gone {
		t.Errorf("%+v", e)
	}
	e, _ = s.At(PCI(gone))
	if e.State != Claimed || e.Provider != "Z" || !e.Gone {
		t.Errorf("%+v", e)
	}
	if got := s.Holders(); !slices.Equal(got, []resource.ConsumerID{"s1", "s2"}) {
		t.Error(got)
	}
	// The device exists again: its claim gets the fields of the offer.
	back := plain
	back.Device.Address, back.Provider = gone, ""
	s, changes := s.Sync(append(offers, back))
	e, _ = s.At(PCI(gone))
	if e.Gone || e.Class != back.Class || e.Provider != "Z" || len(changes) != 1 ||
		changes[0].String() != "0000:99:00.0: claimed: it is back" {
		t.Errorf("%+v %v", e, changes)
	}

	for name, claims := range map[string][]Claim{
		"two holders": {journal(vf, "A", "s1", Claimed), journal(vf, "A", "s2", Claimed)},
		"no holder":   {journal(vf, "A", "", Claimed)},
		"a family":    {journal(vf, "A", "s1", Claimed), journal(pci.Address{Bus: 0x81}, "A", "s2", Claimed)},
	} {
		offers := append(card(0x81, 2, "A"), offer(pci.Device{Address: pci.Address{Bus: 0x81}, Vendor: "8086",
			Product: "1528", Type: pci.Physical}, "A"))
		if s, err := Restore(offers, claims); !fault.Is(err, fault.Internal) ||
			!strings.Contains(fault.TextOf(err), "0000:81:00.") {
			t.Errorf("%s: %v\n%s", name, err, s.print())
		}
	}
}

func TestSync(t *testing.T) {
	s := New([]Offer{pf, vf1, vf2, plain})
	s = s.hold(t, "s1", request(plain, 1, "gpu"))
	steps := []struct {
		offers []Offer
		want   []string
	}{
		{[]Offer{pf, vf1, vf2, plain}, nil},
		{[]Offer{vf1, plain}, []string{"0000:81:00.0: available, now removed", "0000:81:00.2: available, now removed"}},
		{[]Offer{vf1, changed}, []string{"0000:82:00.0: claimed: its device_spec entry or its properties have changed " +
			"while s1 holds it; they take effect when it is freed"}},
		{[]Offer{vf1, changed}, nil},
		{[]Offer{vf1}, []string{"0000:82:00.0: claimed: it is gone from the host or from device_spec while s1 holds it; " +
			"it leaves when it is freed"}},
		{[]Offer{vf1}, nil},
		{[]Offer{vf1, vf2}, []string{"0000:81:00.2: new, now available"}},
	}
	for i, step := range steps {
		n, changes := s.Sync(step.offers)
		var got []string
		for _, c := range changes {
			got = append(got, c.String())
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
		s = n
	}
	e, _ := s.At(PCI(plain.Device.Address))
	if e.Device.Product != "20b0" {
		t.Errorf("a held device has changed: %+v", e)
	}
	s, changes := s.Free("s1")
	if len(changes) != 1 || changes[0].Now != Removed || s.Len() != 2 {
		t.Errorf("%v", changes)
	}
	if _, found := s.At(PCI(plain.Device.Address)); found {
		t.Error("the device is still in the set")
	}
}

// TestHeldDeviceChanges tests that a change of a held device has effect when it is freed, and a new driver at once.
func TestHeldDeviceChanges(t *testing.T) {
	s := New([]Offer{plain}).hold(t, "s1", request(plain, 1, "gpu"))
	driven := plain
	driven.Device.Driver = "vfio-pci"
	s, changes := s.Sync([]Offer{driven})
	if e, _ := s.At(PCI(plain.Device.Address)); e.Device.Driver != "vfio-pci" || len(changes) > 0 {
		t.Errorf("%+v %v", e, changes)
	}
	s, _ = s.Sync([]Offer{changed})
	s, _ = s.Free("s1")
	if e, _ := s.At(PCI(plain.Device.Address)); e.Device.Product != "20b1" || e.State != Available {
		t.Errorf("%+v", e)
	}
}

// TestRelatives tests that a claim makes relatives unclaimable, an allocation makes them unavailable, and that the
// last freed VF makes the PF available.
func TestRelatives(t *testing.T) {
	states := func(s Set) string {
		var list []string
		for _, e := range s.Entries() {
			list = append(list, string(e.State))
		}
		return strings.Join(list, " ")
	}
	s := New([]Offer{pf, vf1, vf2})
	expect := func(what, want string) {
		t.Helper()
		if got := states(s); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	s = s.hold(t, "s1", request(pf, 1, "card"))
	expect("PF claimed", "claimed unclaimable unclaimable")
	s, _ = s.Allocate("s1")
	expect("PF allocated", "allocated unavailable unavailable")
	s, _ = s.Free("s1")
	expect("PF freed", "available available available")
	s = s.hold(t, "s1", request(vf1, 1, "card"))
	s = s.hold(t, "s2", request(vf1, 1, "card"))
	expect("VFs claimed", "unclaimable claimed claimed")
	s, _ = s.Allocate("s2")
	expect("one VF allocated", "unavailable claimed allocated")
	s, _ = s.Free("s2")
	expect("it is freed", "unclaimable claimed available")
	s, changes := s.Free("s1")
	expect("both freed", "available available available")
	if len(changes) != 2 {
		t.Errorf("%v", changes)
	}
	if n, changes := s.Free("s1"); len(changes) > 0 || n.print() != s.print() {
		t.Errorf("%v", changes)
	}
}
