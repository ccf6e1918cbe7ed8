package device

import (
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
)

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

// TestRelativesOfVDPA tests that a vDPA device blocks its PF like a VF, and is blocked by it.
func TestRelativesOfVDPA(t *testing.T) {
	family := []Offer{pf, vf1, vf2}
	for i := range family[1:] {
		family[i+1].Device.Type = pci.VDPA
	}
	vdpa := request(family[1], 1, "card")
	both := vdpa
	both.Count, both.Providers = 2, append(both.Providers, both.Providers...)
	for name, c := range map[string]struct {
		first  pci.Request
		states [2]string // claimed, allocated
		then   pci.Request
	}{
		"a vDPA device": {vdpa, [2]string{"unclaimable claimed available", "unavailable allocated available"},
			request(pf, 1, "card")},
		"both": {both, [2]string{"unclaimable claimed claimed", "unavailable allocated allocated"}, vdpa},
		"the PF": {request(pf, 1, "card"), [2]string{"claimed unclaimable unclaimable",
			"allocated unavailable unavailable"}, vdpa},
	} {
		s := New(family).hold(t, "s1", c.first)
		for i, want := range c.states {
			var got []string
			for _, e := range s.Entries() {
				got = append(got, string(e.State))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %v, want %s", name, got, want)
			}
			if n, _, refusal := s.Claim("s2", c.then); refusal == "" || !n.equal(s) {
				t.Errorf("%s: %s can be claimed too", name, c.then.Requirement.Type)
			}
			if i == 0 {
				s, _ = s.Allocate("s1")
			}
		}
		if s, _ = s.Free("s1"); !s.equal(New(family)) {
			t.Errorf("%s: after it is freed: %s", name, s.print())
		}
	}
}
