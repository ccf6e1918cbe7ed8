package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Refusal is a sentence with the reason why a claim cannot be met; "" when it can.
type Refusal string

func checkRequest(holder resource.ConsumerID, r pci.Request) Refusal {
	switch {
	case holder == "":
		return "a claim needs a holder"
	case r.ID == "":
		return Refusal(fmt.Sprintf("the request for alias %q has no request id", r.Alias))
	case r.Count < 1:
		return Refusal(fmt.Sprintf("request %s asks for %d devices", r.ID, r.Count))
	case r.Providers != nil && len(r.Providers) != r.Count:
		return Refusal(fmt.Sprintf("request %s asks for %d devices but names %d providers; it needs one for each", r.ID,
			r.Count, len(r.Providers)))
	}
	return ""
}

// refuseRepeat refuses a repeated claim whose request differs from the devices held for it.
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

// refusal returns the sentence for a request whose i-th device was not found.
func (s Set) refusal(holder resource.ConsumerID, r pci.Request, i int, near Near) Refusal {
	where, total := "the host", 0
	if r.Providers != nil {
		where = "provider " + string(r.Providers[i])
	}
	var holders, blocked, misfits []string
	for _, e := range s.Entries() {
		if !inside(s.entries[e.ID()], r, i) {
			continue
		}
		total++
		if r.Providers != nil && e.Name != "" {
			where = "provider " + e.Name
		}
		switch why := whyUnfit(s.entries[e.ID()], r); {
		case why != "":
			misfits = append(misfits, why)
		case near.rank(e.Device, r.Policy) < 0:
			misfits = append(misfits, fmt.Sprintf("it is on %s, which policy %s does not allow for a guest on %v",
				near.Host.Describe(e.Device.NUMANode), cmp.Or(r.Policy, pci.Legacy), near.Nodes))
		case e.Holder == holder:
			holders = append(holders, "this server itself")
		case e.Holder != "":
			holders = append(holders, string(e.Holder))
		case e.Disabled:
			misfits = append(misfits, s.whyDisabled(e.ID()))
		default:
			by, _ := s.blocker(e.ID())
			blocked = append(blocked, fmt.Sprintf("%s is %s because %s holds %s", e.Device.Address, e.State,
				s.entries[by].Holder, by))
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
	what := wanted(r.Requirement)
	if r.Port != nil {
		what = fmt.Sprintf("device of class %s for port %s", r.Requirement.Class, r.Port.ID)
	}
	return Refusal(fmt.Sprintf("%s has no free %s: %s", where, what, strings.Join(why, "; ")))
}

// whyUnfit returns why a device, free or not, does not meet the request; empty when it does. The class is checked for
// requests without providers whose definition has only a class.
func whyUnfit(e entry, r pci.Request) string {
	switch {
	case r.Port != nil && !e.Spent:
		return r.WhyNotPort(e.Device, e.PortTags)
	case e.ForPorts:
		return "it is for network ports"
	case e.RemoteManaged:
		return "it is remote-managed"
	case e.Spent:
		return "it has been used once and not been cleaned (`berth device clean`)"
	}
	wants := slices.DeleteFunc(append([]pci.Requirement{r.Requirement}, r.Alternatives...), func(w pci.Requirement) bool {
		return r.Providers == nil && w.Vendor == "" && w.Product == "" && w.Class != e.ResourceClass
	})
	if len(wants) == 0 {
		return fmt.Sprintf("its class is %s, not %s", e.ResourceClass, r.Requirement.Class)
	}
	return pci.Request{Requirement: wants[0], Alternatives: wants[1:]}.WhyNot(e.Device, e.LiveMigratable)
}

// wanted describes the device of a request, as in "8086:1515 type-VF".
func wanted(w pci.Requirement) string {
	kind := string(w.Type)
	if kind == "" {
		kind = "type-PCI or type-VF"
	}
	if w.Vendor == "" && w.Product == "" {
		return fmt.Sprintf("%s of class %s", kind, w.Class)
	}
	return fmt.Sprintf("%s:%s %s", cmp.Or(w.Vendor, "*"), cmp.Or(w.Product, "*"), kind)
}

// joinFew joins the distinct texts: the first three, and the number of further ones.
func joinFew(list []string) string {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// inside reports whether a device belongs to the provider of the i-th device of a request.
func inside(e entry, r pci.Request, i int) bool {
	return r.Providers == nil || e.Provider == r.Providers[i]
}
