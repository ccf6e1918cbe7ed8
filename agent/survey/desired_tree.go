// Package survey computes the desired state of a host in Placement: the host, and one provider for each PCI device
// that device_spec offers.
//
//	facts ─▶ Offers  ─▶ the devices offered, with class, traits and provider     (the device set, the host report)
//	      └▶ Desired ─▶ the tree, and notes for the operator                     (treeplan makes the plan)
//
//	cmp1  VCPU MEMORY_MB DISK_GB
//	├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 4     a PF whose four VFs are offered
//	└─ cmp1_0000:82:00.0  CUSTOM_GPU 1               a plain device
//
// A configuration that cannot be reported is refused whole, with a sentence that names addresses and rules. A device
// held by a guest never leaves the tree, even if the device or its rule is gone: an observation frees no allocation.
// The package does no I/O.
package survey

import (
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Desired returns the desired tree of the host: the root, and below it a provider for each device or PF, with the IDs
// of Facts.Actual for providers with the same names. Without Report there are no devices. NUMA.InPlacement
// adds the providers of NUMA nodes.
//
// Invalid when device_spec cannot be reported: a PF and one of its VFs both offered; VFs of one PF with different
// classes or traits; devname; one_time_use on VFs or without Report; another class for a held device; live_migratable
// where NoLive excludes it. The fault has the first of these sentences, and Problems returns all. A held device that
// has become another one is not invalid: it is kept as it was claimed, with a note.
func Desired(f Facts) (provider.Tree, []Note, error) {
	root := provider.Provider{ID: f.Root, Name: f.Host, Root: f.Root, Inventories: f.inventories(),
		Traits: union(f.Traits, f.rootTraits()...)}
	tree := provider.Tree{Providers: []provider.Provider{root}}
	if nodes := f.nodeProviders(); len(nodes) > 0 {
		delete(root.Inventories, numa.DedicatedCPUs)
		tree.Providers = append(tree.Providers, nodes...)
	}
	wrong := f.checkRules()
	found, notes := f.match()
	found, more := f.withhold(found)
	notes = append(notes, more...)
	var groups []group
	if f.Report {
		var more []error
		groups, more = f.groups(found)
		wrong = append(wrong, more...)
	}
	if len(wrong) > 0 {
		return provider.Tree{}, nil, fault.New(fault.Invalid, "%w", &invalidConfig{wrong})
	}
	for _, g := range groups {
		p, more := f.provider(g)
		notes = append(notes, more...)
		if p != nil {
			tree.Providers = append(tree.Providers, *p)
		}
	}
	return tree.Sorted(), notes, nil
}

// CheckSwitch refuses to stop reporting: as in Nova, report_in_placement cannot be disabled for a host once it was
// enabled. Without Actual there is nothing to refuse.
func CheckSwitch(f Facts) error {
	if f.Report {
		return nil
	}
	for _, p := range f.Actual.Providers {
		if p.HasTrait(ManagedPCI) {
			return fault.New(fault.Invalid,
				"[pci] report_in_placement is off, but Placement has the device provider %s of this host; "+
					"it cannot be switched off once it was on, switch it on again",
				p.Name)
		}
	}
	return nil
}

// rootTraits returns the traits of the root that follow from the rules.
func (f Facts) rootTraits() []resource.Trait {
	remote := func(r pci.Rule) bool { return r.Tags.RemoteManaged == pci.Yes }
	if slices.ContainsFunc(f.Rules, remote) {
		return []resource.Trait{OwnerNova, RemotePorts}
	}
	return []resource.Trait{OwnerNova}
}
