package device

import (
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Claim picks the devices for one request as ClaimAll does, for a guest without placement.
func (s Set) Claim(holder resource.ConsumerID, r pci.Request) (Set, []Claim, Refusal) {
	return s.ClaimAll(holder, []pci.Request{r}, Near{})
}

// slot is one device of a request.
type slot struct {
	request pci.Request
	i       int
}

// ClaimAll picks the devices for all requests of a server, or none. A request that names providers gets one device of
// each; another one gets Count of any offered devices. The nearest devices by the NUMA policy are selected first, then
// the lowest addresses, unless another request needs one of them. Disabled devices are not selected. Devices that the
// holder already has for a request are picked again, so the call may be repeated. It returns the new set and the picked
// devices, or the same set and the refusal.
func (s Set) ClaimAll(holder resource.ConsumerID, requests []pci.Request, near Near) (Set, []Claim, Refusal) {
	var slots []slot
	for _, r := range requests {
		if refusal := checkRequest(holder, r); refusal != "" {
			return s, nil, refusal
		}
		if held := s.serving(holder, r.ID); len(held) > 0 {
			if refusal := refuseRepeat(held, r); refusal != "" {
				return s, nil, refusal
			}
			continue
		}
		for i := range r.Count {
			slots = append(slots, slot{r, i})
		}
	}
	n, refusal := s.assign(holder, slots, near)
	if refusal != "" {
		return s, nil, refusal
	}
	var all []Claim
	for _, r := range requests {
		all = append(all, n.serving(holder, r.ID)...)
	}
	return n, all, ""
}

// assign assigns a free device to each slot, by the scheduler's algorithm.
func (s Set) assign(holder resource.ConsumerID, slots []slot, near Near) (Set, Refusal) {
	if len(slots) == 0 {
		return s, ""
	}
	if slices.ContainsFunc(slots, func(s slot) bool { return s.request.Match != nil }) {
		return s.assignSets(holder, slots, near)
	}
	var free []pci.Device
	for _, id := range s.ids() {
		if e := s.entries[id]; s.state(id) == pci.Available && !e.Spent && s.whyDisabled(id) == "" {
			free = append(free, e.Device)
		}
	}
	picked, missing := pci.Fit(free, len(slots), func(n, d int) int {
		e := s.entries[PCI(free[d].Address)]
		if !inside(e, slots[n].request, slots[n].i) || whyUnfit(e, slots[n].request) != "" {
			return -1
		}
		return near.rank(free[d], slots[n].request.Policy)
	})
	n := s.clone()
	for i, d := range picked {
		if d >= 0 {
			n.claim(PCI(free[d].Address), holder, slots[i].request.ID)
		}
	}
	if missing >= 0 {
		return s, n.refusal(holder, slots[missing].request, slots[missing].i, near)
	}
	return n, ""
}

// claim makes a device one of a holder, for a request.
func (s Set) claim(id ID, holder resource.ConsumerID, request string) {
	e := s.entries[id]
	e.Holder, e.RequestID, e.State = holder, request, pci.Claimed
	s.entries[id] = e
}

// serving lists the devices of a holder for one request, by address.
func (s Set) serving(holder resource.ConsumerID, request string) []Claim {
	return slices.DeleteFunc(s.Held(holder), func(c Claim) bool { return c.RequestID != request })
}
