package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Near says where a guest lies, for devices that shall lie near it. The zero value is a guest that lies nowhere: then every device
// is as near as any other, whatever the policy ("PCI requests never create a NUMA topology").
type Near struct {
	Nodes   []int       // NUMA nodes of the host on which the guest's cells lie
	Sockets map[int]int // NUMA node of the host → socket; a node whose socket is unknown is absent
}

// rank is how far a device is from the guest, 0 for near, and whether the policy lets it be that far.
func (n Near) rank(d pci.Device, policy pci.Policy) (far int, allowed bool) {
	if len(n.Nodes) == 0 || slices.Contains(n.Nodes, d.NUMANode) {
		return 0, true
	}
	switch policy {
	case pci.Required:
		return 0, false
	case pci.Socket:
		socket, known := n.Sockets[d.NUMANode]
		return 1, known && slices.ContainsFunc(n.Nodes, func(node int) bool {
			of, known := n.Sockets[node]
			return known && of == socket
		})
	case pci.Preferred:
		if d.NUMANode != pci.NoNUMA {
			return 2, true
		}
		return 1, true
	default: // legacy
		return 1, d.NUMANode == pci.NoNUMA
	}
}

func (n Near) allows(d pci.Device, policy pci.Policy) bool {
	_, allowed := n.rank(d, policy)
	return allowed
}

// Claim picks the devices for one request as ClaimNear does, for a guest that lies nowhere.
func (s Set) Claim(holder resource.ConsumerID, r pci.Request) (Set, []Claim, Refusal) {
	return s.ClaimNear(holder, r, Near{})
}

// ClaimNear picks the devices for one request: exactly one inside each provider that the request names, or Count of any offered
// ones when it names none, those that are nearest by the request's NUMA policy and of these the lowest addresses first; all or nothing. What the holder has for this request already is
// picked again, so that the step may be repeated. The answer is the set after the claim and what was picked, or the same
// set and the refusal.
func (s Set) ClaimNear(holder resource.ConsumerID, r pci.Request, near Near) (Set, []Claim, Refusal) {
	if refusal := wellFormed(holder, r); refusal != "" {
		return s, nil, refusal
	}
	if held := s.serving(holder, r.ID); len(held) > 0 {
		return s.again(held, r)
	}
	n := s.clone()
	for i := range r.Count {
		address, found := n.pick(r, i, near)
		if !found {
			return s, nil, n.refuse(holder, r, i, near)
		}
		e := n.entries[address]
		e.holder, e.request, e.allocated = holder, r.ID, false
		n.entries[address] = e
	}
	return n, n.serving(holder, r.ID), ""
}

// ClaimAll picks for all requests of a server as ClaimNear does, all or nothing, so that two requests never want the same device.
func (s Set) ClaimAll(holder resource.ConsumerID, requests []pci.Request, near Near) (Set, []Claim, Refusal) {
	n := s
	var all []Claim
	for _, r := range requests {
		next, picked, refusal := n.ClaimNear(holder, r, near)
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

// pick finds the nearest free device for the i-th device of a request, of several the one with the lowest address.
func (s Set) pick(r pci.Request, i int, near Near) (best pci.Address, found bool) {
	nearest := 0
	for _, address := range s.addresses() {
		e := s.entries[address]
		far, allowed := near.rank(e.offer.Device, r.Policy)
		if !allowed || found && far >= nearest || !inside(e, r, i) || misfit(e, r) != "" || s.state(address) != Available {
			continue
		}
		best, nearest, found = address, far, true
	}
	return best, found
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
	case e.offer.Spent:
		return "it has been used once and not been cleaned (`berth device clean`)"
	case r.Providers == nil && r.Want.Vendor == "" && r.Want.Product == "" && r.Want.Class != e.offer.Class:
		return fmt.Sprintf("its class is %s, not %s", e.offer.Class, r.Want.Class)
	}
	return r.Want.Refuse(e.offer.Device)
}

// refuse is the sentence why pick found nothing.
func (s Set) refuse(holder resource.ConsumerID, r pci.Request, i int, near Near) Refusal {
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
		case !near.allows(e.Device, r.Policy):
			misfits = append(misfits, fmt.Sprintf("it is on NUMA node %d, which %s does not let the guest have that is on %v", e.Device.NUMANode, cmp.Or(r.Policy, pci.Legacy), near.Nodes))
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
