package device

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// equal compares the content that print returns, but faster.
func (s Set) equal(n Set) bool {
	return maps.EqualFunc(s.entries, n.entries, func(a, b entry) bool {
		same := a.Holder == b.Holder && a.RequestID == b.RequestID && a.State == b.State && a.Gone == b.Gone &&
			(a.latest == nil) == (b.latest == nil)
		return same && sameOffer(a.Offer, b.Offer) && (a.latest == nil || sameOffer(*a.latest, *b.latest))
	})
}

func sameOffer(a, b Offer) bool { return a.Device.String() == b.Device.String() && a.same(b) }

// testState is a set and the host's offers.
type testState struct {
	set    Set
	offers []Offer
}

// TestEverySequence visits all reachable states and tries every operation in each: no device has two holders, a PF
// and its VFs are never held together, a refusal changes nothing, a claim gets exactly the requested devices, a
// restart changes nothing, and after all devices are freed the state is the initial one.
func TestEverySequence(t *testing.T) {
	all := []Offer{pf, vf1, vf2, plain}
	holders := []resource.ConsumerID{"s1", "s2"}
	requests := []pci.Request{request(pf, 1), request(pf, 1, "card"), request(vf1, 1), request(vf1, 1, "card"),
		request(vf1, 2, "card", "card"),
		request(plain, 1, "gpu"), request(vf1, 1, "gpu")}
	hosts := [][]Offer{all, {pf, vf1, plain}, {vf1, vf2, plain}, {pf, changed}, nil}

	start := testState{New(all), all}
	seen := map[string]bool{start.set.print(): true}
	queue := []testState{start}
	visit := func(from testState, n Set, offers []Offer, changes []Change) {
		checkChanges(t, from.set, n, changes)
		if key := n.print() + fmt.Sprint(len(offers)); !seen[key] {
			seen[key] = true
			queue = append(queue, testState{n, offers})
		}
	}
	for len(queue) > 0 && !t.Failed() {
		w := queue[0]
		queue = queue[1:]
		before := w.set.clone()
		checkState(t, w, start)
		for _, holder := range holders {
			for _, r := range requests {
				n, picked, refusal := w.set.Claim(holder, r)
				checkClaim(t, w.set, n, holder, r, picked, refusal)
				visit(w, n, w.offers, w.set.changes(n, nil))
			}
			n, changes := w.set.Allocate(holder)
			visit(w, n, w.offers, changes)
			n, changes = w.set.Free(holder)
			visit(w, n, w.offers, changes)
		}
		for _, offers := range hosts {
			n, changes := w.set.Sync(offers)
			visit(w, n, offers, changes)
		}
		if !w.set.equal(before) {
			t.Errorf("an operation changed its receiver:\n%s\n%s", before.print(), w.set.print())
		}
	}
	if len(seen) < 500 {
		t.Errorf("only %d states were visited", len(seen))
	}
	t.Logf("%d worlds", len(seen))
}

func checkState(t *testing.T, w, start testState) {
	t.Helper()
	s := w.set
	holder := map[pci.Address]resource.ConsumerID{}
	for _, c := range s.Claims() {
		if _, twice := holder[c.Device.Address]; twice {
			t.Errorf("%s has two claims:\n%s", c.Device.Address, s.print())
		}
		holder[c.Device.Address] = c.Holder
	}
	for _, vf := range []Offer{vf1, vf2} {
		if holder[pfAt] != "" && holder[vf.Device.Address] != "" {
			t.Errorf("PF and VF are held together:\n%s", s.print())
		}
	}
	for _, e := range s.Entries() {
		related := false
		for address := range holder {
			related = related || s.related(address, e.Device.Address)
		}
		if free := e.Holder == "" && !related; (e.State == pci.Available) != free {
			t.Errorf("%s is %s:\n%s", e.Device, e.State, s.print())
		}
		if (e.Holder != "") != (e.State == pci.Claimed || e.State == pci.Allocated) || e.State == pci.Removed || e.Gone &&
			e.Holder == "" {
			t.Errorf("%s is %s of %q:\n%s", e.Device, e.State, e.Holder, s.print())
		}
	}
	restored, err := Restore(w.offers, s.Claims())
	if err != nil || !restored.equal(s) {
		t.Errorf("a restart changes it: %v\n%s\n%s", err, s.print(), restored.print())
	}
	for _, h := range s.Holders() {
		s, _ = s.Free(h)
	}
	if want := New(w.offers); !s.equal(want) {
		t.Errorf("after Free:\n%s\nwant\n%s", s.print(), want.print())
	}
	if s, _ = s.Sync(start.offers); !s.equal(start.set) {
		t.Errorf("not the initial state after Free and Sync:\n%s", s.print())
	}
}

// related reports, independently of the set, whether one device is the other's PF.
func (s Set) related(a, b pci.Address) bool {
	of := func(x, y pci.Address) bool {
		p := s.entries[PCI(x)].Device.Parent
		return p != nil && *p == y
	}
	return of(a, b) || of(b, a)
}

func checkClaim(t *testing.T, s, n Set, holder resource.ConsumerID, r pci.Request, picked []Claim, refusal Refusal) {
	t.Helper()
	if refusal != "" {
		if len(picked) > 0 || !n.equal(s) {
			t.Errorf("refused (%s), but the set has changed:\n%s\n%s", refusal, s.print(), n.print())
		}
		return
	}
	if len(picked) != r.Count {
		t.Errorf("%v: %d picked", r, len(picked))
	}
	var providers []resource.ProviderID
	for _, c := range picked {
		providers = append(providers, c.Provider)
		e, _ := n.At(PCI(c.Device.Address))
		if e.Holder != holder || e.RequestID != r.ID || c.State != e.State || r.Requirement.WhyNot(c.Device) != "" {
			t.Errorf("%v: picked %v, entry %v", r, c, e)
		}
		if was, _ := s.At(PCI(c.Device.Address)); was.State != pci.Available &&
			(was.Holder != holder || was.RequestID != r.ID) {
			t.Errorf("%v: picked %s, which was %s", r, c.Device, was.State)
		}
	}
	if slices.Sort(providers); r.Providers != nil && !slices.Equal(providers, slices.Sorted(slices.Values(r.Providers))) {
		t.Errorf("%v: picked in %v", r, providers)
	}
	again, same, refusal := n.Claim(holder, r)
	if refusal != "" || !again.equal(n) || len(same) != len(picked) {
		t.Errorf("%v again: %v %v %s", r, picked, same, refusal)
	}
}

// checkChanges applies the reported changes to the states before, and compares the result with the states after.
func checkChanges(t *testing.T, s, n Set, changes []Change) {
	t.Helper()
	states := map[pci.Address]pci.State{}
	for _, e := range s.Entries() {
		states[e.Device.Address] = e.State
	}
	for _, c := range changes {
		if states[c.ID.Address()] != c.Was {
			t.Errorf("%v, but it was %q", c, states[c.ID.Address()])
		}
		states[c.ID.Address()] = c.Now
		if c.Now == pci.Removed {
			delete(states, c.ID.Address())
		}
	}
	for _, e := range n.Entries() {
		if states[e.Device.Address] != e.State {
			t.Errorf("%s is %s, but was reported as %q", e.Device, e.State, states[e.Device.Address])
		}
		delete(states, e.Device.Address)
	}
	if len(states) > 0 {
		t.Errorf("reported, but not in the set: %v", states)
	}
}
