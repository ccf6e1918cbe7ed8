package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Near says where a guest lies, for devices that shall lie near it. The zero value is a guest that lies nowhere: then every device
// is as near as any other, whatever the policy.
type Near struct {
	Nodes []int       // NUMA nodes of the host on which the guest's cells lie
	Cells []numa.Cell // of the host
}

// rank is how far a device is from the guest, 0 for near, or -1 when the policy does not let it be that far.
func (n Near) rank(d pci.Device, policy pci.Policy) int {
	return numa.Rank(policy, d.NUMANode, n.Nodes, n.Cells)
}

// Far is how far all devices picked for these requests are from the guest, 0 when each is as near as can be.
func (n Near) Far(picked []Claim, requests []pci.Request) (far int) {
	for _, c := range picked {
		for _, r := range requests {
			if r.ID == c.Request {
				far += max(n.rank(c.Device, r.Policy), 0)
			}
		}
	}
	return far
}

// Claim picks the devices for one request as ClaimAll does, for a guest that lies nowhere.
func (s Set) Claim(holder resource.ConsumerID, r pci.Request) (Set, []Claim, Refusal) {
	return s.ClaimAll(holder, []pci.Request{r}, Near{})
}

// slot is one device of a request.
type slot struct {
	request pci.Request
	i       int
}

// ClaimAll picks the devices for all requests of a server, all or nothing: for each request exactly one inside each provider that it
// names, or Count of any offered ones when it names none; the nearest by its NUMA policy, and of these those with the lowest
// addresses, unless one is all that another request could have. What the holder has for a request already is picked again,
// so that the step may be repeated. The answer is the set after the claim and what was picked, or the same set and the refusal.
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

// give finds a free device for each slot, as the scheduler does.
func (s Set) assign(holder resource.ConsumerID, slots []slot, near Near) (Set, Refusal) {
	if len(slots) == 0 {
		return s, ""
	}
	var free []pci.Device
	for _, address := range s.addresses() {
		if e := s.entries[address]; s.state(address) == Available && !e.offer.Spent {
			free = append(free, e.offer.Device)
		}
	}
	picked, missing := pci.Fit(free, len(slots), func(n, d int) int {
		e := s.entries[free[d].Address]
		if !inside(e, slots[n].request, slots[n].i) || whyUnfit(e, slots[n].request) != "" {
			return -1
		}
		return near.rank(free[d], slots[n].request.Policy)
	})
	n := s.clone()
	for i, d := range picked {
		if d < 0 {
			continue
		}
		e := n.entries[free[d].Address]
		e.holder, e.request, e.allocated = holder, slots[i].request.ID, false
		n.entries[free[d].Address] = e
	}
	if missing >= 0 {
		return s, n.refusal(holder, slots[missing].request, slots[missing].i, near)
	}
	return n, ""
}

func checkRequest(holder resource.ConsumerID, r pci.Request) Refusal {
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

// again refuses a claim that was met before and is another by now.
func refuseRepeat(held []Claim, r pci.Request) Refusal {
	var has []resource.ProviderID
	for _, c := range held {
		has = append(has, c.Provider)
	}
	wants := slices.Clone(r.Providers)
	slices.Sort(has)
	slices.Sort(wants)
	if len(held) != r.Count || r.Providers != nil && !slices.Equal(has, wants) {
		return Refusal(fmt.Sprintf("%s holds %d devices for request %s already, and not those asked now; free it first",
			held[0].Holder, len(held), r.ID))
	}
	return ""
}

// inside says whether a device lies where the i-th device of a request shall come from.
func inside(e entry, r pci.Request, i int) bool {
	return r.Providers == nil || e.offer.Provider == r.Providers[i]
}

// misfit says why a device, free or not, is not for the request. Where Placement was not asked and a definition says nothing but a
// class, the class is judged here.
func whyUnfit(e entry, r pci.Request) string {
	switch {
	case e.offer.ForPorts:
		return "it is for network ports"
	case e.offer.RemoteManaged:
		return "it is remote-managed"
	case e.offer.Spent:
		return "it has been used once and not been cleaned (`berth device clean`)"
	}
	wants := slices.DeleteFunc(append([]pci.Want{r.Want}, r.Or...), func(w pci.Want) bool {
		return r.Providers == nil && w.Vendor == "" && w.Product == "" && w.Class != e.offer.Class
	})
	if len(wants) == 0 {
		return fmt.Sprintf("its class is %s, not %s", e.offer.Class, r.Want.Class)
	}
	return pci.Request{Want: wants[0], Or: wants[1:]}.Refuse(e.offer.Device, e.offer.LiveMigratable)
}

// refuse is the sentence why pick found nothing.
func (s Set) refusal(holder resource.ConsumerID, r pci.Request, i int, near Near) Refusal {
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
		switch why := whyUnfit(s.entries[e.Device.Address], r); {
		case why != "":
			misfits = append(misfits, why)
		case near.rank(e.Device, r.Policy) < 0:
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
		why = append(why, fmt.Sprintf("%d of %d held by %s", len(holders), total, joinFew(holders)))
	}
	if len(blocked) > 0 {
		why = append(why, joinFew(blocked))
	}
	if len(misfits) > 0 {
		why = append(why, fmt.Sprintf("%d of %d not fit for it: %s", len(misfits), total, joinFew(misfits)))
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
func joinFew(list []string) string {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
