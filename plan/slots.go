package plan

import (
	"slices"
	"strconv"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Slot is one device that a guest needs.
type Slot struct {
	Request  *pci.Request
	Index    int                 // which of the devices of the request, from 0
	Provider resource.ProviderID // that the device must come from; "": any
}

// Slots are the devices that a guest needs, as requests and sets for a plan.
type Slots struct {
	Requests []Request
	First    []int // by request: its first slot
	Sets     []Set
	Matches  []pci.Match // by set
	match    map[int]*match
	slots    []Slot
}

// match is what the devices of the sets with one number have in common.
type match struct {
	pci.Match
	size   int                        // how many devices are in each set
	shares map[string]pci.SharedValue // if the sets are whole
}

// SlotsOf returns the requests and sets for slots: one request for the slots of a request that may have any provider,
// and one for each provider that is chosen. Slots with providers are in the order of the sets. offered are all devices
// of the host, which matter for whole sets.
func SlotsOf(slots []Slot, offered []pci.Offered, free func(pci.Offered) bool) *Slots {
	s := &Slots{match: map[int]*match{}, slots: slots}
	type key struct{ set, part int } // part is which of the sets, from 1; 0: all of them
	numbers, last := map[key]int{}, key{}
	for i, slot := range slots {
		var at key
		if m := slot.Request.Match; m != nil {
			at.set = m.Set
			if slot.Provider != "" {
				at.part = 1 + slot.Index/max(slot.Request.Count/max(m.Times, 1), 1)
			}
		}
		if i > 0 && slots[i-1].Request == slot.Request && slots[i-1].Provider == slot.Provider && at == last {
			s.Requests[len(s.Requests)-1].Count++
			continue
		}
		last = at
		s.Requests, s.First = append(s.Requests, Request{1, slot.Request.Policy}), append(s.First, i)
		if at.set == 0 {
			continue
		}
		n, known := numbers[at]
		if !known {
			n = len(s.Sets)
			numbers[at] = n
			of := Set{Family: setFamily(at.set), Times: 1}
			if at.part == 0 {
				of.Times = slot.Request.Match.Times
			}
			s.Sets, s.Matches = append(s.Sets, of), append(s.Matches, *slot.Request.Match)
		}
		s.Sets[n].Requests = append(s.Sets[n].Requests, len(s.Requests)-1)
	}
	s.findMatches(slots, offered, free)
	return s
}

// setFamily is the family by which plans know the values of the sets with a number: only those that such a set may
// have.
func setFamily(set int) string { return strconv.Itoa(set) }

// findMatches fills in match.
func (s *Slots) findMatches(slots []Slot, offered []pci.Offered, free func(pci.Offered) bool) {
	for i, slot := range slots {
		m := slot.Request.Match
		if m == nil || i > 0 && slots[i-1].Request == slot.Request {
			continue
		}
		if s.match[m.Set] == nil {
			s.match[m.Set] = &match{Match: *m}
		}
		s.match[m.Set].size += slot.Request.Count / max(m.Times, 1)
	}
	for _, m := range s.match {
		if m.Whole {
			m.shares = pci.SharedValues(m.Family, offered, free)
		}
	}
}

// Devices returns free devices for a plan, without what depends on requests and nodes.
func (s *Slots) Devices(free []pci.Offered) []Device {
	offered, cards := map[pci.Address]bool{}, map[pci.Address]int{}
	for _, d := range free {
		offered[d.Address] = true
	}
	list := make([]Device, len(free))
	for n, d := range free {
		to := &list[n]
		to.Card = NoCard
		if card := d.Device.Holder(); offered[card] && (d.Parent != nil || d.Type == pci.Physical) {
			if _, known := cards[card]; !known {
				cards[card] = len(cards)
			}
			if to.Card, to.Whole = cards[card], d.Parent == nil; !to.Whole {
				to.Later = 1 // the card is free as a whole: others may want it so
			}
		}
		for set, m := range s.match {
			if to.Values == nil {
				to.Values = map[string][]string{}
			}
			values, larger := m.values(d)
			to.Values[setFamily(set)] = values
			to.Later += larger
		}
	}
	return list
}

// values returns the values of a device that the sets may have, and how many larger values it has that a set of more
// devices may have: these are better kept together.
func (m *match) values(d pci.Offered) (values []string, larger int) {
	values = d.Values(m.Family)
	if !m.Whole {
		return values, 0
	}
	for _, v := range values {
		if of := m.shares[v]; of.Free == of.Devices && of.Devices > m.size {
			larger++
		}
	}
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return m.shares[v].Devices != m.size }), larger
}
