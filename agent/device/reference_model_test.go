package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// referenceModel is a simple version of the state machine: a table of states that each operation rewrites. The
// states of relatives are written instead of derived, as in Nova.
type referenceModel struct {
	state  map[pci.Address]pci.State
	holder map[pci.Address]resource.ConsumerID
	gone   map[pci.Address]bool // from the host, under its holder
}

func (m referenceModel) clone() referenceModel {
	return referenceModel{maps.Clone(m.state), maps.Clone(m.holder), maps.Clone(m.gone)}
}

// relatives returns the VFs of a PF, or the PF of a VF, as far as they exist.
func (m referenceModel) relatives(at pci.Address) []pci.Address {
	family := map[pci.Address][]pci.Address{pfAt: {vf1.Device.Address, vf2.Device.Address}, vf1.Device.Address: {pfAt},
		vf2.Device.Address: {pfAt}}
	return slices.DeleteFunc(slices.Clone(family[at]), func(r pci.Address) bool { _, there := m.state[r]; return !there })
}

// updateRelatives updates the states of a device's relatives.
func (m referenceModel) updateRelatives() {
	for at, s := range m.state {
		if s == pci.Claimed || s == pci.Allocated {
			continue
		}
		m.state[at] = pci.Available
		for _, r := range m.relatives(at) {
			switch m.state[r] {
			case pci.Allocated:
				m.state[at] = pci.Unavailable
			case pci.Claimed:
				if m.state[at] == pci.Available {
					m.state[at] = pci.Unclaimable
				}
			}
		}
	}
}

func (m referenceModel) claim(holder resource.ConsumerID, at pci.Address) (referenceModel, bool) {
	n := m.clone()
	if m.holder[at] == holder {
		return n, true // the holder has it already
	}
	if m.state[at] != pci.Available {
		return m, false
	}
	n.state[at], n.holder[at] = pci.Claimed, holder
	n.updateRelatives()
	return n, true
}

func (m referenceModel) allocate(holder resource.ConsumerID) referenceModel {
	n := m.clone()
	for at, h := range n.holder {
		if h == holder {
			n.state[at] = pci.Allocated
		}
	}
	n.updateRelatives()
	return n
}

func (m referenceModel) free(holder resource.ConsumerID) referenceModel {
	n := m.clone()
	for at, h := range m.holder {
		if h != holder {
			continue
		}
		delete(n.holder, at)
		if n.state[at] = pci.Available; n.gone[at] {
			delete(n.state, at)
			delete(n.gone, at)
		}
	}
	n.updateRelatives()
	return n
}

func (m referenceModel) rename(from, to resource.ConsumerID) referenceModel {
	n := m.clone()
	for at, h := range m.holder {
		if h == from {
			n.holder[at] = to
		}
	}
	return n
}

func (m referenceModel) sync(there []Offer) referenceModel {
	n := m.clone()
	for _, d := range []Offer{pf, vf1, vf2} {
		at := d.Device.Address
		offered := slices.ContainsFunc(there, func(o Offer) bool { return o.Device.Address == at })
		_, known := n.state[at]
		switch {
		case offered && !known:
			n.state[at] = pci.Available
		case offered:
			delete(n.gone, at)
		case n.holder[at] != "":
			n.gone[at] = true
		default:
			delete(n.state, at)
		}
	}
	n.updateRelatives()
	return n
}

func (m referenceModel) print() string {
	var b strings.Builder
	for _, at := range slices.SortedFunc(maps.Keys(m.state), pci.Address.Compare) {
		fmt.Fprintf(&b, "%s %s %s %v\n", at, m.state[at], m.holder[at], m.gone[at])
	}
	return b.String()
}

// format returns a Set in the format of referenceModel.print.
func (s Set) format() string {
	var b strings.Builder
	for _, e := range s.Entries() {
		fmt.Fprintf(&b, "%s %s %s %v\n", e.Device.Address, e.State, e.Holder, e.Gone)
	}
	return b.String()
}

// pair is a set, its reference model, and the offers of the host.
type pair struct {
	set   Set
	model referenceModel
	steps string
}

// TestAgainstReferenceModel tests that every sequence of operations up to a depth results in the same states as in
// the reference model, for a PF with two VFs and two holders: with claims of each device for each holder, devices
// that vanish while held, and renamed holders.
func TestAgainstReferenceModel(t *testing.T) {
	const depth = 7
	family := []Offer{pf, vf1, vf2}
	for i := range family {
		family[i].Provider = resource.ProviderID("p" + fmt.Sprint(i)) // so that a request selects one device
	}
	start := pair{set: New(family), model: referenceModel{map[pci.Address]pci.State{},
		map[pci.Address]resource.ConsumerID{},
		map[pci.Address]bool{}}.sync(family)}
	seen, level := map[string]bool{}, []pair{start}
	for range depth {
		var next []pair
		for _, p := range level {
			for _, n := range p.successors(family) {
				if n.set.format() != n.model.print() {
					t.Fatalf("after %s the set is\n%sthe model is\n%s", n.steps, n.set.format(), n.model.print())
				}
				if key := n.model.print(); !seen[key] {
					seen[key] = true
					next = append(next, n)
				}
			}
		}
		level = next
	}
	if len(seen) < 100 {
		t.Errorf("only %d states", len(seen))
	}
	t.Logf("%d states", len(seen))
}

// successors returns the pair after each operation.
func (p pair) successors(family []Offer) []pair {
	var list []pair
	add := func(verb string, set Set, model referenceModel) {
		list = append(list, pair{set, model, p.steps + verb + "; "})
	}
	for _, h := range []resource.ConsumerID{"s1", "s2"} {
		for _, o := range family {
			r := pci.Request{ID: "r" + string(o.Provider), Count: 1, Providers: []resource.ProviderID{o.Provider},
				Requirement: pci.Requirement{Type: o.Device.Type}}
			set, _, refusal := p.set.Claim(h, r)
			model, ok := p.model.claim(h, o.Device.Address)
			verb := fmt.Sprintf("%s claims %s", h, o.Device.Address)
			if ok != (refusal == "") {
				verb += fmt.Sprintf(" (refused: %q, model: %v)", refusal, ok)
				model = referenceModel{}
			}
			add(verb, set, model)
		}
		set, _ := p.set.Allocate(h)
		add(string(h)+" runs", set, p.model.allocate(h))
		set, _ = p.set.Free(h)
		add(string(h)+" is freed", set, p.model.free(h))
	}
	add("s1 is renamed to s2", p.set.Rename("s1", "s2"), p.model.rename("s1", "s2"))
	add("a device is used and cleaned", p.set.Spend(PCI(pfAt), true).Spend(PCI(pfAt), false), p.model.clone())
	for _, there := range [][]Offer{family, family[:2], family[1:], {family[0], family[2]}, nil} {
		set, _ := p.set.Sync(there)
		add(fmt.Sprintf("%d devices exist", len(there)), set, p.model.sync(there))
	}
	return list
}
