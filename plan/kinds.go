package plan

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/openberth/berth/pci"
)

// mergeRequests fills in the requests and sets that need devices.
func (s *search) mergeRequests() {
	number := map[int]int{} // of requests in sets
	for n, of := range s.guest.Sets {
		times, some := max(of.Times, 1), Set{Family: of.Family, Times: max(of.Times, 1)}
		for _, r := range of.Requests {
			if s.guest.Requests[r].Count/times > 0 {
				number[r] = len(s.requests)
				some.Requests = append(some.Requests, len(s.requests))
				s.requests = append(s.requests, request{s.guest.Requests[r], []int{r}, []int{len(s.sets)}})
			}
		}
		if len(some.Requests) > 0 {
			s.sets = append(s.sets, set{Set: some, index: n})
		}
	}
	for r, request := range s.guest.Requests {
		if _, inSet := number[r]; !inSet && request.Count > 0 {
			s.addRequest(r, request)
		}
	}
}

// addRequest adds a request that is in no set.
func (s *search) addRequest(r int, add Request) {
	for i, other := range s.requests {
		if len(other.sets) == 0 && other.Policy == add.Policy &&
			!slices.ContainsFunc(s.host.Devices, func(d Device) bool { return d.Fits[r] != d.Fits[other.of[0]] }) {
			s.requests[i].Count += add.Count
			s.requests[i].of = append(other.of, r)
			return
		}
	}
	s.requests = append(s.requests, request{add, []int{r}, nil})
}

// findKinds sorts the devices that some request can use into kinds, in the order of the first device of each.
func (s *search) findKinds() {
	exclusive := s.exclusiveCards()
	at := map[string]int{}
	var key, last []byte
	n := -1 // the kind of the last device
	for i, d := range s.host.Devices {
		if !s.serves(d) {
			continue
		}
		if !exclusive[d.Card] {
			d.Card, d.Whole = NoCard, false
		}
		if key = s.kindKey(key[:0], d); n < 0 || !bytes.Equal(key, last) {
			known := false
			if n, known = at[string(key)]; !known {
				n = len(s.kinds)
				at[string(key)] = n
				s.kinds = append(s.kinds, s.kindOf(d))
			}
			key, last = last, key
		}
		s.kinds[n].list = append(s.kinds[n].list, i)
	}
}

// serves reports whether some request can use a device.
func (s *search) serves(d Device) bool {
	for _, r := range s.requests {
		if d.Fits[r.of[0]] {
			return true
		}
	}
	return false
}

// exclusiveCards returns the cards of which both the whole and parts can serve a request.
func (s *search) exclusiveCards() map[int]bool {
	var whole, parts map[int]bool
	for _, d := range s.host.Devices {
		if d.Card == NoCard || !s.serves(d) {
			continue
		}
		if whole == nil {
			whole, parts = map[int]bool{}, map[int]bool{}
		}
		if d.Whole {
			whole[d.Card] = true
		} else {
			parts[d.Card] = true
		}
	}
	for card := range whole {
		whole[card] = parts[card]
	}
	return whole
}

// kindOf returns the kind of a device: what of it can matter for the guest.
func (s *search) kindOf(d Device) kind {
	k := kind{card: d.Card, whole: d.Whole, later: d.Later, fits: make([]bool, len(s.requests))}
	for r, request := range s.requests {
		k.fits[r] = d.Fits[request.of[0]]
	}
	k.near, k.beside = s.nodesOf(d)
	for n := range s.sets {
		k.values = append(k.values, s.valuesOf(d, n))
	}
	return k
}

// nodesOf returns the nearest nodes of a device, and the nodes on their sockets, if they can matter for the guest.
func (s *search) nodesOf(d Device) (near, beside []int) {
	if len(s.guest.Cells) == 0 && len(s.guest.Nodes) == 0 {
		return nil, nil
	}
	for _, r := range s.requests {
		if r.Policy == pci.Socket && d.Fits[r.of[0]] {
			return d.Near, d.Beside
		}
	}
	return d.Near, nil
}

// valuesOf returns the values of a device of the family of a set, if it can be in the set.
func (s *search) valuesOf(d Device, set int) []string {
	of := &s.sets[set]
	for _, r := range of.Requests {
		if d.Fits[s.requests[r].of[0]] {
			return d.Values[of.Family]
		}
	}
	return nil
}

// kindKey appends a text that is the same for devices of one kind.
func (s *search) kindKey(b []byte, d Device) []byte {
	for _, r := range s.requests {
		if d.Fits[r.of[0]] {
			b = append(b, '+')
		} else {
			b = append(b, '-')
		}
	}
	b = binary.AppendVarint(b, int64(d.Card))
	if d.Whole {
		b = append(b, '+')
	}
	b = binary.AppendVarint(b, int64(d.Later))
	near, beside := s.nodesOf(d)
	for _, nodes := range [...][]int{near, beside} {
		b = binary.AppendVarint(b, int64(len(nodes)))
		for _, n := range nodes {
			b = binary.AppendVarint(b, int64(n))
		}
	}
	for n := range s.sets {
		values := s.valuesOf(d, n)
		b = binary.AppendVarint(b, int64(len(values)))
		for _, v := range values {
			b = append(binary.AppendVarint(b, int64(len(v))), v...)
		}
	}
	return b
}

// findValues lists the values of each set, in the order of their names, and the cards.
func (s *search) findValues() {
	for n := range s.sets {
		of := &s.sets[n]
		of.any = make([]bool, len(s.kinds))
		for k, kind := range s.kinds {
			for _, name := range kind.values[n] {
				at, known := slices.BinarySearchFunc(of.values, name, func(v value, name string) int {
					return compareText(v.name, name)
				})
				if !known {
					of.values = slices.Insert(of.values, at, value{name: name, has: make([]bool, len(s.kinds))})
				}
				of.values[at].has[k], of.any[k] = true, true
				of.values[at].kinds = append(of.values[at].kinds, k)
			}
		}
	}
	number := map[int]int{}
	for k, of := range s.kinds {
		if of.card == NoCard {
			continue
		}
		n, known := number[of.card]
		if !known {
			n = len(s.cards)
			number[of.card], s.cards = n, append(s.cards, card{})
		}
		if of.whole {
			s.cards[n].whole = append(s.cards[n].whole, k)
		} else {
			s.cards[n].parts = append(s.cards[n].parts, k)
		}
	}
}
