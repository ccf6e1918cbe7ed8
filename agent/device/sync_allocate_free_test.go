package device

import (
	"slices"
	"testing"

	"github.com/openberth/berth/pci"
)

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
		{[]Offer{vf1}, []string{"0000:82:00.0: claimed: the host does not offer it any more while s1 holds it: it is " +
			"gone, or the configuration does not allow it; it leaves when it is freed"}},
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
	if len(changes) != 1 || changes[0].Now != pci.Removed || s.Len() != 2 {
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
	if e, _ := s.At(PCI(plain.Device.Address)); e.Device.Product != "20b1" || e.State != pci.Available {
		t.Errorf("%+v", e)
	}
}

// TestDevicesChangeOnTheHost tests the states of devices after changes on the host.
func TestDevicesChangeOnTheHost(t *testing.T) {
	all := []Offer{pf, vf1, vf2, plain}
	held := func(o Offer, count int) Set {
		s := New(all).hold(t, "s1", request(o, count))
		s, _ = s.Allocate("s1")
		return s
	}
	states := func(s Set, want ...pci.State) func(*testing.T) {
		return func(t *testing.T) {
			for i, o := range all {
				if got := s.stateOf(t, o); got != want[i] {
					t.Errorf("%s is %q, want %q", o.Device, got, want[i])
				}
			}
		}
	}
	synced := func(s Set, offers ...Offer) Set { s, _ = s.Sync(offers); return s }
	freed := func(s Set) Set { s, _ = s.Free("s1"); return s }

	t.Run("new, changed and removed devices", states(synced(New([]Offer{pf, plain}), pf, vf1, changed), pci.Available,
		pci.Available, "", pci.Available))
	t.Run("a VF is removed", states(synced(New(all), pf, vf2, plain), pci.Available, "", pci.Available, pci.Available))
	t.Run("an allocated device is removed", states(synced(held(plain, 1), pf, vf1, vf2), pci.Available,
		pci.Available,
		pci.Available, pci.Allocated))
	t.Run("a removed allocated device is freed", states(freed(synced(held(plain, 1), pf, vf1, vf2)), pci.Available,
		pci.Available,
		pci.Available, ""))
	t.Run("PF allocated, a VF vanishes", states(synced(held(pf, 1), pf, vf2, plain), pci.Allocated, "", pci.Unavailable,
		pci.Available))
	t.Run("VF allocated, the PF vanishes", states(synced(held(vf1, 1), vf1, vf2, plain), "", pci.Allocated, pci.Available,
		pci.Available))
	t.Run("a VF appears under an allocated PF", states(synced(held(pf, 1), pf, vf1, vf2, plain), pci.Allocated,
		pci.Unavailable, pci.Unavailable, pci.Available))
	t.Run("a VF that appeared under an allocated PF is available when the PF is freed",
		states(freed(synced(held(pf, 1), pf, vf1, vf2, plain)), pci.Available,
			pci.Available, pci.Available, pci.Available))
	t.Run("the relatives of a vanished held device become available",
		states(freed(synced(held(vf1, 1), pf, vf2, plain)), pci.Available, "", pci.Available, pci.Available))
	t.Run("freeing one leaves others", func(t *testing.T) {
		s := held(vf1, 1).hold(t, "s2", request(vf2, 1, "card"))
		states(freed(s), pci.Unclaimable, pci.Available, pci.Claimed, pci.Available)(t)
	})
	t.Run("another NUMA node has effect at once, also while held", func(t *testing.T) {
		moved := plain
		moved.Device.NUMANode = 7
		if e, _ := synced(held(plain, 1), moved).At(PCI(plain.Device.Address)); e.Device.NUMANode != 7 ||
			e.State != pci.Allocated {
			t.Errorf("%+v", e)
		}
	})
}

// TestVFBecomesPF tests a VF that becomes a PF: requests of VFs get the two others, a request of a PF gets it.
func TestVFBecomesPF(t *testing.T) {
	three := card(0x81, 3, "A")
	s := New(three)
	ask := func(count int, kind pci.Type) (Set, Refusal) {
		r := request(three[0], count)
		r.Requirement.Type = kind
		n, picked, refusal := s.Claim("s1", r)
		if (refusal == "") != (len(picked) == count) {
			t.Errorf("%d picked: %s", len(picked), refusal)
		}
		return n, refusal
	}
	if _, refusal := ask(3, pci.Virtual); refusal != "" {
		t.Errorf("before: %s", refusal)
	}
	if _, refusal := ask(1, pci.Physical); refusal == "" {
		t.Error("before: a VF serves a request of a PF")
	}
	turned := three[2]
	turned.Device.Type, turned.Device.Parent, turned.Provider = pci.Physical, nil, "B"
	s, _ = s.Sync([]Offer{three[0], three[1], turned})
	if _, refusal := ask(3, pci.Virtual); refusal == "" {
		t.Error("the PF serves a request of VFs")
	}
	if _, refusal := ask(2, pci.Virtual); refusal != "" {
		t.Errorf("the other VFs: %s", refusal)
	}
	n, refusal := ask(1, pci.Physical)
	if e, _ := n.At(PCI(turned.Device.Address)); refusal != "" || e.Holder != "s1" || e.Provider != "B" {
		t.Errorf("the PF: %+v %s", e, refusal)
	}
}
