package slotsurvey

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Name is the name of the kind.
const Name = "ioslot"

// Part is what a host has of the kind: the physical I/O slots of a PowerVM host, and the operator's rules that say
// which of them guests may have.
type Part struct {
	System ioslot.System
	Rules  inventoryfile.Rules
	// PlainNames uses the names of the specification, without the host: for a cloud with one such host.
	PlainNames bool
	// ClassFromDevice derives the class of slots whose paragraph names none from the PCI class.
	ClassFromDevice bool
}

// Kind returns the kind of the I/O slots of PowerVM hosts.
func Kind() kind.Kind {
	return kind.Kind{Name: Name, Is: pci.Address.IsIOSlot, Owns: owns, Offers: offered, Desired: desiredOf,
		Requests: requests, SharedNames: sharedNames, NameTaken: nameTaken}
}

// factsOf returns the input of the package for a host.
func factsOf(h kind.Host) Facts {
	f := Facts{Host: h.Name, Part: h.Part.(Part), Actual: h.Actual, Consumers: h.Consumers}
	for _, c := range h.Held {
		f.Held = append(f.Held, Claim{Slot: ioslot.Index(c.Device.Address.DRC), Holder: c.Holder, Class: c.ResourceClass})
	}
	return f
}

// owns reports whether a provider is that of an I/O slot of the host, with either form of the name.
func owns(p, root provider.Provider) bool {
	host, _, ok, err := ioslot.ParseProviderName(p.Name)
	return ok && err == nil && p.Parent != "" && p.Parent == root.ID && (host == "" || host == root.Name)
}

func offered(h kind.Host) kind.Offered {
	f := factsOf(h)
	// While the list is not complete, a slot that is not listed may exist.
	return kind.Offered{Offers: Offers(f, h.Root), Devices: Devices(f.System),
		Complete: f.System.Reported && !f.System.Incomplete}
}

func desiredOf(tree provider.Tree, h kind.Host) (kind.Desired, error) {
	r, err := Desired(tree, factsOf(h))
	if err != nil {
		return kind.Desired{}, err
	}
	out := kind.Desired{Tree: r.Tree, Exact: slices.Sorted(maps.Keys(r.Slots)), Notes: r.Notes}
	for _, p := range r.Orphans {
		out.Orphans = append(out.Orphans, p.ID)
	}
	return out, nil
}

// requests returns one request for each I/O slot that an allocation names and the assignment does not, as for a flavor
// with plain groups of resources. A provider that is named like a slot without being one is refused (R47, R48).
func requests(a kind.Allocated) (list []pci.Request, refusal string) {
	for _, id := range slices.Sorted(maps.Keys(a.Allocation)) {
		p, ours := a.Tree.ByID(id)
		_, index, slot, err := ioslot.ParseProviderName(p.Name)
		if !ours || !slot || a.Named[id] {
			continue
		}
		if err != nil {
			return nil, fmt.Sprintf("server %s has an allocation of a provider that is not an I/O slot: %s", a.Server,
				fault.TextOf(err))
		}
		for _, class := range a.Allocation[id].Sorted() {
			if now, other := a.ClassChanged(id, class); other {
				return nil, fmt.Sprintf("server %s has %s of provider %s, but the inventory file now gives it %s", a.Server,
					class, p.Name, now)
			}
			list = append(list, pci.Request{ID: "io-slot-" + index.String(), Count: a.Allocation[id][class],
				Requirement: pci.Requirement{Class: class}, Providers: []resource.ProviderID{id}})
		}
	}
	return list, ""
}

// sharedNames returns the names of the providers of the offered slots if they do not contain the host.
func sharedNames(h kind.Host) (names []string, remedy string) {
	f := factsOf(h)
	if !f.PlainNames {
		return nil, ""
	}
	verdicts, _ := Verdicts(f)
	for _, v := range verdicts {
		if v.Provider != "" {
			names = append(names, v.Provider)
		}
	}
	return names, "[powervm] plain_provider_names is for one host of a cloud; remove the option here or there"
}

// nameTaken returns the sentence for a name without the host (C7).
func nameTaken(name string) string {
	if host, _, slot, wrong := ioslot.ParseProviderName(name); !slot || wrong != nil || host != "" {
		return ""
	}
	return "names are unique in Placement, and DRC indices only on a system; remove [powervm] plain_provider_names"
}
