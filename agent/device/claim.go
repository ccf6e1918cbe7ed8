package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Claim picks the devices for one request: exactly one inside each provider that the request names, or Count of any offered
// ones when it names none, the lowest addresses first; all or nothing. What the holder has for this request already is
// picked again, so that the step may be repeated. The answer is the set after the claim and what was picked, or the same
// set and the refusal.
func (s Set) Claim(holder resource.ConsumerID, r pci.Request) (Set, []Claim, Refusal) {
	if refusal := wellFormed(holder, r); refusal != "" {
		return s, nil, refusal
	}
	if held := s.serving(holder, r.ID); len(held) > 0 {
		return s.again(held, r)
	}
	n := s.clone()
	for i := range r.Count {
		address, found := n.pick(r, i)
		if !found {
			return s, nil, n.refuse(holder, r, i)
		}
		e := n.entries[address]
		e.holder, e.request, e.allocated = holder, r.ID, false
		n.entries[address] = e
	}
	return n, n.serving(holder, r.ID), ""
}

// ClaimAll picks for all requests of a server as Claim does, all or nothing, so that two requests never want the same device.
func (s Set) ClaimAll(holder resource.ConsumerID, requests []pci.Request) (Set, []Claim, Refusal) {
	n := s
	var all []Claim
	for _, r := range requests {
		next, picked, refusal := n.Claim(holder, r)
		if refusal != "" {
			return s, nil, refusal
		}
		n, all = next, append(all, picked...)
	}
	return n, all, ""
}

func wellFormed(holder resource.ConsumerID, r pci.Request) Refusal {
	switch {
	case holder == "":
		return "a claim needs a holder"
	case r.ID == "":
		return Refusal(fmt.Sprintf("the request for alias %q has no request id", r.Alias))
	case r.Count < 1:
		return Refusal(fmt.Sprintf("request %s asks for %d devices", r.ID, r.Count))
	case r.Providers != nil && len(r.Providers) != r.Count:
		return Refusal(fmt.Sprintf("request %s asks for %d devices but names %d providers; it needs one for each", r.ID, r.Count, len(r.Providers)))
	}
	return ""
}

// serving lists what a holder has for one request, by address.
func (s Set) serving(holder resource.ConsumerID, request string) []Claim {
	return slices.DeleteFunc(s.Held(holder), func(c Claim) bool { return c.Request != request })
}

// again answers a claim that was met before, or refuses one that is another by now.
func (s Set) again(held []Claim, r pci.Request) (Set, []Claim, Refusal) {
	var has []resource.ProviderID
	for _, c := range held {
		has = append(has, c.Provider)
	}
	wants := slices.Clone(r.Providers)
	slices.Sort(has)
	slices.Sort(wants)
	if len(held) != r.Count || r.Providers != nil && !slices.Equal(has, wants) {
		return s, nil, Refusal(fmt.Sprintf("%s holds %d devices for request %s already, and not those asked now; free it first",
			held[0].Holder, len(held), r.ID))
	}
	return s, held, ""
}

// pick finds the lowest free device for the i-th device of a request.
func (s Set) pick(r pci.Request, i int) (pci.Address, bool) {
	for _, address := range s.addresses() {
		e := s.entries[address]
		if inside(e, r, i) && misfit(e, r) == "" && s.state(address) == Available {
			return address, true
		}
	}
	return pci.Address{}, false
}

// inside says whether a device lies where the i-th device of a request shall come from.
func inside(e entry, r pci.Request, i int) bool {
	return r.Providers == nil || e.offer.Provider == r.Providers[i]
}

// misfit says why a device, free or not, is not for the request. Where Placement was not asked and the request says nothing but a
// class, the class is judged here.
func misfit(e entry, r pci.Request) string {
	switch {
	case e.offer.ForPorts:
		return "it is for network ports"
	case r.Providers == nil && r.Want.Vendor == "" && r.Want.Product == "" && r.Want.Class != e.offer.Class:
		return fmt.Sprintf("its class is %s, not %s", e.offer.Class, r.Want.Class)
	}
	return r.Want.Refuse(e.offer.Device)
}

// refuse is the sentence why pick found nothing.
func (s Set) refuse(holder resource.ConsumerID, r pci.Request, i int) Refusal {
	where, total := "the host", 0
	if r.Providers != nil {
		where = "provider " + string(r.Providers[i])
	}
	var holders, blocked, misfits []string
	for _, e := range s.Entries() {
		if !inside(s.entries[e.Device.Address], r, i) {
			continue
		}
		total++
		if r.Providers != nil && e.Name != "" {
			where = "provider " + e.Name
		}
		switch why := misfit(s.entries[e.Device.Address], r); {
		case why != "":
			misfits = append(misfits, why)
		case e.Holder == holder:
			holders = append(holders, "this server itself")
		case e.Holder != "":
			holders = append(holders, string(e.Holder))
		default:
			by, _ := s.blocker(e.Device.Address)
			blocked = append(blocked, fmt.Sprintf("%s is %s because %s holds %s", e.Device.Address, e.State, s.entries[by].holder, by))
		}
	}
	var why []string
	if len(holders) > 0 {
		why = append(why, fmt.Sprintf("%d of %d held by %s", len(holders), total, few(holders)))
	}
	if len(blocked) > 0 {
		why = append(why, few(blocked))
	}
	if len(misfits) > 0 {
		why = append(why, fmt.Sprintf("%d of %d not fit for it: %s", len(misfits), total, few(misfits)))
	}
	if total == 0 {
		why = append(why, "this host offers no device there")
	}
	return Refusal(fmt.Sprintf("%s has no free %s: %s", where, wanted(r.Want), strings.Join(why, "; ")))
}

// wanted says what a request is for, as in "8086:1515 type-VF".
func wanted(w pci.Want) string {
	kind := string(w.Type)
	if kind == "" {
		kind = "type-PCI or type-VF"
	}
	if w.Vendor == "" && w.Product == "" {
		return fmt.Sprintf("%s of class %s", kind, w.Class)
	}
	return fmt.Sprintf("%s:%s %s", cmp.Or(w.Vendor, "*"), cmp.Or(w.Product, "*"), kind)
}

// few joins different words, the first three and how many more there are.
func few(list []string) string {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
