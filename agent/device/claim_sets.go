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
	var slots []slot
	for _, r := range requests {
		if r.Match != nil && pci.IsProperty(r.Match.Family) {
			r.Providers = nil // the devices are known
			for i := range r.Count {
				slots = append(slots, slot{r, i})
			}
		}
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
	if refused != nil {
		of := slots[wanted.First[refused.Request]].request
		return nil, Refusal(fmt.Sprintf("the devices of %s have no %s in common any more", of.Name(), of.Match.Family))
	}
	for n, of := range wanted.Sets {
		for i, value := range made.Values[n] {
			one := MatchedSet{Property: wanted.Matches[n].Family, Value: value}
			for _, r := range of.Requests {
				each := wanted.Requests[r].Count / of.Times
				for _, d := range made.Devices[r][i*each : (i+1)*each] {
					one.Devices = append(one.Devices, PCI(held[d].Address))
				}
			}
			slices.SortFunc(one.Devices, ID.Compare)
			list = append(list, one)
		}
	}
	return list, ""
}
