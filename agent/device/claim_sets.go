package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/resource"
)

// assignSets is assign for requests of which some devices must have a value in common.
func (s Set) assignSets(holder resource.ConsumerID, slots []slot, near Near) (Set, Refusal) {
	var free, offered []pci.Offered
	available := map[pci.Address]bool{}
	for _, id := range s.ids() {
		e := s.entries[id]
		offered = append(offered, e.Offered)
		if s.state(id) == pci.Available && !e.Spent && s.whyDisabled(id) == "" {
			free = append(free, e.Offered)
			available[e.Address] = true
		}
	}
	wanted := plan.SlotsOf(planSlots(slots), offered, func(d pci.Offered) bool { return available[d.Address] })
	host := plan.Host{Devices: wanted.Devices(free)}
	for n, d := range free {
		to := &host.Devices[n]
		to.Near = near.Host.Near(d.NUMANode)
		to.Beside = near.Host.Beside(to.Near)
		if slices.Contains(near.Nodes, d.NUMANode) && !slices.Contains(to.Near, d.NUMANode) {
			to.Near = append(slices.Clone(to.Near), d.NUMANode)
		}
		for _, first := range wanted.First {
			e, of := s.entries[PCI(d.Address)], slots[first]
			to.Fits = append(to.Fits, inside(e, of.request, of.i) && whyUnfit(e, of.request) == "")
		}
	}
	made, refused := plan.Make(host, plan.Guest{Nodes: near.Nodes, Requests: wanted.Requests, Sets: wanted.Sets})
	switch {
	case refused != nil && refused.Undecided:
		return s, "whether the host fits is not decided: the search for its devices has reached its limit"
	case refused != nil && refused.Set >= 0:
		reason, nearest := wanted.Disagreement(refused.Set, host.Devices)
		return s, Refusal(strings.TrimSuffix("the host does not fit: "+reason+"; "+nearest, "; "))
	case refused != nil:
		short := slots[wanted.First[refused.Request]]
		return s, s.refusal(holder, short.request, short.i, near)
	}
	n := s.clone()
	for r, list := range made.Devices {
		for _, d := range list {
			n.claim(PCI(free[d].Address), holder, slots[wanted.First[r]].request.ID)
		}
	}
	return n, ""
}

// planSlots returns slots for a plan.
func planSlots(slots []slot) []plan.Slot {
	list := make([]plan.Slot, len(slots))
	for i := range slots {
		of := &slots[i]
		list[i] = plan.Slot{Request: &of.request, Index: of.i}
		if i > 0 && of.i > 0 {
			list[i].Request = list[i-1].Request
		}
		if of.request.Providers != nil {
			list[i].Provider = of.request.Providers[of.i]
		}
	}
	return list
}

// MatchedSet is devices of a guest that have a value of a property in common.
type MatchedSet struct {
	Property, Value string
	Devices         []ID // by address
}

// MatchedSets returns the sets of a guest that agree in properties of device_spec, with the value of each. A refusal
// means that the devices do not agree any more.
func (s Set) MatchedSets(holder resource.ConsumerID, requests []pci.Request) (list []MatchedSet, why Refusal) {
	sets, refusal := s.heldSets(holder, requests, func(m pci.Match) bool { return pci.IsProperty(m.Family) })
	for _, of := range sets {
		one := MatchedSet{Property: of.family, Value: of.value}
		for _, devices := range of.devices {
			one.Devices = append(one.Devices, devices...)
		}
		slices.SortFunc(one.Devices, ID.Compare)
		list = append(list, one)
	}
	return list, refusal
}

// InSets returns claims of a guest in an order in which the devices of each request are in the order of the sets, so
// that the devices of two guests can be paired up set by set. The claims of other requests stay in their places.
func (s Set) InSets(holder resource.ConsumerID, requests []pci.Request, claims []Claim) []Claim {
	sets, _ := s.heldSets(holder, requests, func(m pci.Match) bool { return m.Times > 1 })
	if len(sets) == 0 {
		return claims
	}
	ordered, byID := slices.Clone(claims), map[ID]Claim{}
	for _, c := range claims {
		byID[c.ID()] = c
	}
	next := map[string][]ID{}
	for _, of := range sets {
		for request, devices := range of.devices {
			next[request] = append(next[request], devices...)
		}
	}
	for i, c := range claims {
		if list := next[c.RequestID]; len(list) > 0 {
			ordered[i], next[c.RequestID] = byID[list[0]], list[1:]
		}
	}
	return ordered
}

// heldSet is a set of devices that a guest has.
type heldSet struct {
	family, value string
	devices       map[string][]ID // by request
}

// heldSets returns sets of the devices of a guest that agree. A refusal means that they do not agree any more.
func (s Set) heldSets(holder resource.ConsumerID, requests []pci.Request, which func(pci.Match) bool) (list []heldSet,
	why Refusal) {
	var slots []slot
	for _, r := range requests {
		if r.Match != nil && which(*r.Match) {
			r.Providers = nil // the devices are known
			for i := range r.Count {
				slots = append(slots, slot{r, i})
			}
		}
	}
	if len(slots) == 0 {
		return nil, ""
	}
	var held, offered []pci.Offered
	for _, id := range s.ids() {
		e := s.entries[id]
		offered = append(offered, e.Offered)
		if e.Holder == holder {
			held = append(held, e.Offered)
		}
	}
	wanted := plan.SlotsOf(planSlots(slots), offered, func(d pci.Offered) bool { return d.Holder == holder })
	host := plan.Host{Devices: wanted.Devices(held)}
	for n, d := range held {
		for _, first := range wanted.First {
			host.Devices[n].Fits = append(host.Devices[n].Fits, d.RequestID == slots[first].request.ID)
		}
	}
	made, refused := plan.Make(host, plan.Guest{Requests: wanted.Requests, Sets: wanted.Sets})
	if refused != nil && refused.Undecided {
		return nil, "which of the devices belong together is not decided: the search has reached its limit"
	}
	if refused != nil {
		of := slots[wanted.First[refused.Request]].request
		return nil, Refusal(fmt.Sprintf("the devices of %s have no %s in common any more", of.Name(), of.Match.Family))
	}
	for n, of := range wanted.Sets {
		for i, value := range made.Values[n] {
			one := heldSet{family: wanted.Matches[n].Family, value: value, devices: map[string][]ID{}}
			for _, r := range of.Requests {
				each, request := wanted.Requests[r].Count/of.Times, slots[wanted.First[r]].request.ID
				for _, d := range made.Devices[r][i*each : (i+1)*each] {
					one.devices[request] = append(one.devices[request], PCI(held[d].Address))
				}
			}
			list = append(list, one)
		}
	}
	return list, ""
}
