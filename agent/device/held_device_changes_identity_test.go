package device

import (
	"slices"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// TestHeldDeviceIdentityChanges tests that a held device that becomes another one stays as it was claimed, also
// after a restart. Neither it nor its present relatives can be claimed. When it is freed, it is offered as it is.
func TestHeldDeviceIdentityChanges(t *testing.T) {
	newPF := pci.Address{Bus: 0x90}
	with := func(o Offer, how func(*pci.Device)) Offer {
		o.Device.Driver = ""
		how(&o.Device)
		o.ResourceClass, o.Provider = pci.ClassFor(o.Device.Vendor, o.Device.Product), "now"
		return o
	}
	asVF := func(d *pci.Device) { d.Type, d.Parent, d.Vendor, d.Product = pci.Virtual, &newPF, "8086", "1515" }
	other := offer(pci.Device{Address: newPF, Vendor: "8086", Product: "1528", Type: pci.Physical}, "other")
	child := offer(pci.Device{Address: pci.Address{Bus: 0x82, Func: 1}, Vendor: "8086", Product: "1515",
		Type: pci.Virtual, Parent: &plain.Device.Address}, "child")
	for name, c := range map[string]struct {
		held    Offer
		now     []Offer
		blocked []Offer // present offers that cannot be claimed while it is held
	}{
		"other ids":                {plain, []Offer{with(plain, func(d *pci.Device) { d.Product = "20b1" })}, nil},
		"another PCI class":        {plain, []Offer{with(plain, func(d *pci.Device) { d.Class = 0x010802 })}, nil},
		"a PF that is a VF":        {pf, []Offer{with(pf, asVF), other}, []Offer{other}},
		"a plain one that is a VF": {plain, []Offer{with(plain, asVF), other}, []Offer{other}},
		"a plain one that is a PF": {plain, []Offer{with(plain, func(d *pci.Device) { d.Type = pci.Physical }), child},
			[]Offer{child}},
		"a VF that is plain": {vf1, []Offer{with(vf1, func(d *pci.Device) { d.Type, d.Parent = pci.Plain, nil }),
			vf2}, nil},
		"a VF that is gone, where its PF was is a plain device": {vf1, []Offer{with(pf,
			func(d *pci.Device) { d.Type = pci.Plain })},
			[]Offer{with(pf, func(d *pci.Device) { d.Type = pci.Plain })}},
		"a VF that is gone, where its PF was is another PF": {vf1, []Offer{with(pf,
			func(d *pci.Device) { d.Vendor = "15b3" })},
			[]Offer{with(pf, func(d *pci.Device) { d.Vendor = "15b3" })}},
	} {
		t.Run(name, func(t *testing.T) {
			c.held.Device.Class = 0x020000
			s := New([]Offer{c.held}).hold(t, "s1", request(c.held, 1))
			s, _ = s.Allocate("s1")
			was := s.Claims()
			restarted, err := Restore(c.now, was)
			if err != nil {
				t.Fatal(err)
			}
			running, _ := s.Sync(c.now)
			for _, n := range []Set{restarted, running} {
				got := n.Claims()
				if len(got) != 1 || Identity(got[0].Device) != Identity(was[0].Device) ||
					got[0].ResourceClass != was[0].ResourceClass || got[0].Provider != was[0].Provider ||
					got[0].State != pci.Allocated {
					t.Errorf("the claim has changed: %+v", got)
				}
				for _, o := range c.now {
					_, _, refusal := n.Claim("s2", request(o, 1, o.Provider))
					withheld := o.Device.Address == c.held.Device.Address || slices.ContainsFunc(c.blocked,
						func(b Offer) bool { return b.Device.Address == o.Device.Address })
					if withheld != (refusal != "") {
						t.Errorf("%s for another server: %q", o.Device, refusal)
					}
				}
				n, _ := n.Free("s1")
				if want := New(c.now); !n.equal(want) {
					t.Errorf("after Free:\n%s\nwant\n%s", n.print(), want.print())
				}
			}
		})
	}
}

// TestRestoreAfterCardWasReplaced tests that claims of a VF and of the device at its PF's address do not
// contradict each other, unless that device was claimed as a PF.
func TestRestoreAfterCardWasReplaced(t *testing.T) {
	replaced := pf
	replaced.Device.Type, replaced.Device.Vendor = pci.Plain, "10de"
	claims := []Claim{{Offer: vf1}, {Offer: replaced}}
	for i, holder := range []resource.ConsumerID{"s1", "s2"} {
		claims[i].Holder, claims[i].RequestID, claims[i].State = holder, "r", pci.Allocated
	}
	s, err := Restore([]Offer{replaced}, claims)
	if err != nil || len(s.Claims()) != 2 {
		t.Errorf("%v\n%s", err, s.print())
	}
}

func TestMismatch(t *testing.T) {
	claim := []Claim{{Offer: vf2}, {Offer: plain}}
	for want, there := range map[string][]pci.Device{
		"": {vf2.Device, plain.Device},
		"0000:82:00.0 was claimed as 10de:20b0 type-PCI and is 10de:20b1 type-PCI now": {vf2.Device,
			changed.Device},
		"0000:81:00.2 was claimed as 8086:1515 type-VF of 0000:81:00.0 and is 8086:1515 type-PCI " +
			"now": {{Address: vf2.Device.Address, Vendor: "8086", Product: "1515", Type: pci.Plain}},
	} {
		if got := Mismatch(claim, there); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Mismatch(claim, nil); got != "" {
		t.Errorf("missing devices: %q", got)
	}
	if got := Mismatch([]Claim{{Offer: Offer{Offered: pci.Offered{Device: pci.Device{Address: plain.Device.Address}}}}},
		[]pci.Device{plain.Device}); got != "" {
		t.Errorf("a claim with only an address: %q", got)
	}
}
