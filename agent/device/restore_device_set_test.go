package device

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// TestRestoreFromTheJournal tests that a claim with address, provider, request and holder gets its other fields from
// the host, and is kept without them.
func TestRestoreFromTheJournal(t *testing.T) {
	journal := func(address pci.Address, p resource.ProviderID, holder resource.ConsumerID, state pci.State) Claim {
		return Claim{Offer: Offer{Offered: pci.Offered{Device: pci.Device{Address: address}, Provider: p, Holder: holder,
			RequestID: "r-" + string(holder), State: state}}}
	}
	vf, gone := pci.Address{Bus: 0x81, Func: 1}, pci.Address{Bus: 0x99}
	offers := card(0x81, 2, "")
	s, err := Restore(offers, []Claim{journal(vf, "A", "s1", pci.Allocated), journal(gone, "Z", "s2", pci.Claimed)})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := s.At(PCI(vf))
	if e.State != pci.Allocated || e.Provider != "A" || e.ResourceClass != "CUSTOM_PCI_8086_1515" ||
		e.Device.Type != pci.Virtual ||
		e.RequestID != "r-s1" || e.Gone {
		t.Errorf("%+v", e)
	}
	e, _ = s.At(PCI(gone))
	if e.State != pci.Claimed || e.Provider != "Z" || !e.Gone {
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
	if e.Gone || e.ResourceClass != back.ResourceClass || e.Provider != "Z" || len(changes) != 1 ||
		changes[0].String() != "0000:99:00.0: claimed: it is back" {
		t.Errorf("%+v %v", e, changes)
	}

	for name, claims := range map[string][]Claim{
		"two holders": {journal(vf, "A", "s1", pci.Claimed), journal(vf, "A", "s2", pci.Claimed)},
		"no holder":   {journal(vf, "A", "", pci.Claimed)},
		"a family":    {journal(vf, "A", "s1", pci.Claimed), journal(pci.Address{Bus: 0x81}, "A", "s2", pci.Claimed)},
	} {
		offers := append(card(0x81, 2, "A"), offer(pci.Device{Address: pci.Address{Bus: 0x81}, Vendor: "8086",
			Product: "1528", Type: pci.Physical}, "A"))
		if s, err := Restore(offers, claims); !fault.Is(err, fault.Internal) ||
			!strings.Contains(fault.TextOf(err), "0000:81:00.") {
			t.Errorf("%s: %v\n%s", name, err, s.print())
		}
	}
}

// Without claims in the journal all devices are free, and plain ones have no relatives.
func TestPlainDevicesWithoutClaims(t *testing.T) {
	var offers []Offer
	for i := range 3 {
		o := plain
		o.Device.Address.Slot = uint8(i)
		offers = append(offers, o)
	}
	s, err := Restore(offers, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want ...pci.State) {
		t.Helper()
		for i, o := range offers {
			if got := s.stateOf(t, o); got != want[i] {
				t.Errorf("%s is %q, want %q", o.Device, got, want[i])
			}
		}
	}
	expect(pci.Available, pci.Available, pci.Available)
	s = s.hold(t, "s1", request(plain, 1))
	expect(pci.Claimed, pci.Available, pci.Available)
}
