package device

import (
	"strings"
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

func (s Set) stateOf(t *testing.T, o Offer) State {
	t.Helper()
	e, found := s.At(PCI(o.Device.Address))
	if !found {
		return ""
	}
	return e.State
}

// TestDevicesChangeOnTheHost tests the states of devices after changes on the host.
func TestDevicesChangeOnTheHost(t *testing.T) {
	all := []Offer{pf, vf1, vf2, plain}
	held := func(o Offer, count int) Set {
		s := New(all).hold(t, "s1", request(o, count))
		s, _ = s.Allocate("s1")
		return s
	}
	states := func(s Set, want ...State) func(*testing.T) {
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

	t.Run("new, changed and removed devices", states(synced(New([]Offer{pf, plain}), pf, vf1, changed), Available,
		Available, "", Available))
	t.Run("a VF is removed", states(synced(New(all), pf, vf2, plain), Available, "", Available, Available))
	t.Run("an allocated device is removed", states(synced(held(plain, 1), pf, vf1, vf2), Available, Available,
		Available, Allocated))
	t.Run("and freed", states(freed(synced(held(plain, 1), pf, vf1, vf2)), Available, Available, Available, ""))
	t.Run("PF allocated, a VF vanishes", states(synced(held(pf, 1), pf, vf2, plain), Allocated, "", Unavailable,
		Available))
	t.Run("VF allocated, the PF vanishes", states(synced(held(vf1, 1), vf1, vf2, plain), "", Allocated, Available,
		Available))
	t.Run("a VF appears under an allocated PF", states(synced(held(pf, 1), pf, vf1, vf2, plain), Allocated,
		Unavailable, Unavailable, Available))
	t.Run("and is available when the PF is freed",
		states(freed(synced(held(pf, 1), pf, vf1, vf2, plain)), Available, Available, Available, Available))
	t.Run("the relatives of a vanished held device become available",
		states(freed(synced(held(vf1, 1), pf, vf2, plain)), Available, "", Available, Available))
	t.Run("freeing one leaves others", func(t *testing.T) {
		s := held(vf1, 1).hold(t, "s2", request(vf2, 1, "card"))
		states(freed(s), Unclaimable, Available, Claimed, Available)(t)
	})
	t.Run("another NUMA node has effect at once, also while held", func(t *testing.T) {
		moved := plain
		moved.Device.NUMANode = 7
		if e, _ := synced(held(plain, 1), moved).At(PCI(plain.Device.Address)); e.Device.NUMANode != 7 ||
			e.State != Allocated {
			t.Errorf("%+v", e)
		}
	})
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

// TestNear tests the NUMA policies: the guest is on node 1; socket 0 has nodes 0 and 1, socket 1 has 2 and 3.
func TestNear(t *testing.T) {
	near := Near{Nodes: []int{1}, Cells: []numa.Cell{{ID: 0, Socket: 0}, {ID: 1, Socket: 0}, {ID: 2, Socket: 1},
		{ID: 3, Socket: 1}}}
	for _, c := range []struct {
		policy pci.NUMAPolicy
		node   int
		want   bool
	}{
		{pci.Required, -1, false}, {pci.Required, 0, false}, {pci.Required, 1, true},
		{pci.Legacy, -1, true}, {pci.Legacy, 0, false}, {pci.Legacy, 1, true}, {"", 0, false}, {"", -1, true},
		{pci.Preferred, -1, true}, {pci.Preferred, 0, true}, {pci.Preferred, 1, true}, {pci.Preferred, 3, true},
		{pci.Socket, -1, false}, {pci.Socket, 0, true}, {pci.Socket, 1, true}, {pci.Socket, 2, false},
	} {
		o := plain
		o.Device.NUMANode = c.node
		r := request(o, 1)
		r.Policy = c.policy
		_, picked, refusal := New([]Offer{o}).ClaimAll("s1", []pci.Request{r}, near)
		if (refusal == "") != c.want || (len(picked) == 1) != c.want {
			t.Errorf("%q, device on node %d: %q", c.policy, c.node, refusal)
		}
		if _, _, refusal := New([]Offer{o}).Claim("s1", r); refusal != "" {
			t.Errorf("%q, a guest without nodes: %q", c.policy, refusal)
		}
	}
	// The nearest devices are picked first, then the lowest addresses, each once.
	var offers []Offer
	for i, node := range []int{0, -1, 1, 1} {
		o := plain
		o.Device.Address.Slot, o.Device.NUMANode = uint8(i), node
		offers = append(offers, o)
	}
	r := request(plain, 3)
	r.Policy = pci.Preferred
	_, picked, refusal := New(offers).ClaimAll("s1", []pci.Request{r}, near)
	if addresses(picked) != "82:01.0 82:02.0 82:03.0" || refusal != "" {
		t.Errorf("%s %s", addresses(picked), refusal)
	}
}

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
	expect := func(want ...State) {
		t.Helper()
		for i, o := range offers {
			if got := s.stateOf(t, o); got != want[i] {
				t.Errorf("%s is %q, want %q", o.Device, got, want[i])
			}
		}
	}
	expect(Available, Available, Available)
	s = s.hold(t, "s1", request(plain, 1))
	expect(Claimed, Available, Available)
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

// The devices on the guest's node are selected first, then those without a node, then the others, as the policy
// allows.
func TestPolicyWithSeveralDevices(t *testing.T) {
	var offers []Offer
	for i, node := range []int{0, 1, pci.NoNUMA, 1} {
		o := plain
		o.Device.Address.Slot, o.Device.NUMANode = uint8(i), node
		if i == 3 {
			o.Device.Vendor = "8086"
		}
		offers = append(offers, o)
	}
	const here, other, none, foreign = "82:00.0", "82:01.0", "82:02.0", "82:03.0"
	for _, c := range []struct {
		policy pci.NUMAPolicy
		count  int
		node   int
		vendor string
		want   string // empty: refused
	}{
		{pci.Required, 1, 0, "10de", here}, {pci.Required, 1, 9, "10de", ""}, {pci.Required, 2, 0, "10de", ""},
		{pci.Legacy, 1, 0, "10de", here}, {pci.Legacy, 1, 9, "10de", none}, {pci.Legacy, 2, 0, "10de", here + " " + none},
		{pci.Legacy, 1, 0, "8086", ""},
		{pci.Preferred, 1, 0, "10de", here}, {pci.Preferred, 1, 9, "10de", none},
		{pci.Preferred, 2, 0, "10de", here + " " + none},
		{pci.Preferred, 1, 0, "8086", foreign}, {pci.Preferred, 3, 0, "10de", here + " " + other + " " + none},
		{pci.Preferred, 4, 0, "10de", ""},
	} {
		r := pci.Request{ID: "r", Count: c.count, Policy: c.policy, Requirement: pci.Requirement{Vendor: c.vendor}}
		_, picked, refusal := New(offers).ClaimAll("s1", []pci.Request{r}, Near{Nodes: []int{c.node}})
		if addresses(picked) != c.want || (refusal == "") != (c.want != "") {
			t.Errorf("%s, %d of %s for node %d: %s %s, want %s", c.policy, c.count, c.vendor, c.node, addresses(picked),
				refusal, c.want)
		}
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
