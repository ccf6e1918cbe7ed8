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
	"errors"
	"fmt"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The traits that the survey itself puts on providers.
const (
	// on each device provider: its agent recognises it by this trait
	ManagedPCI     resource.Trait = "COMPUTE_MANAGED_PCI_DEVICE"
	OwnerNova      resource.Trait = "OWNER_NOVA"             // on each provider of the tree
	LiveMigratable resource.Trait = "HW_PCI_LIVE_MIGRATABLE" // live_migratable of the rule is true
	OneTimeUse     resource.Trait = "HW_PCI_ONE_TIME_USE"    // one_time_use of the rule is true
)

// Facts are the input of the survey.
type Facts struct {
	Host     string           // hypervisor hostname: the name of the root provider, and the start of the others'
	Root     provider.ID      // of the root provider
	VCPU     RootInventory    // host threads that guests share
	PCPU     RootInventory    // host threads that are given to one guest each
	MemoryMB RootInventory    // MiB
	DiskGB   RootInventory    // GiB
	Traits   []resource.Trait // of the root: capabilities of the hypervisor
	Devices  []pci.Device     // of the whole host, offered or not
	Rules    pci.Rules
	Report   bool           // [pci] report_in_placement
	NoLive   string         // why guests with devices cannot be live-migrated here; empty: they can
	Held     []device.Claim // claims of guests
	// Unreadable are the devices that exist and cannot be identified. They are not among Devices, unless they were read
	// before.
	Unreadable map[device.ID]bool
	Spent      map[device.ID]bool // devices for one-time use that have been used
	Actual     provider.Tree      // as Placement has it, with the IDs of existing providers; may be empty
}

// RootInventory is the root's inventory of one class. A total of 0 or less is not offered.
type RootInventory struct {
	Total       int
	Reserved    int     // kept for the host itself
	ReservedSet bool    // the configuration sets Reserved, which replaces Placement's value
	Ratio       float64 // allocation_ratio; 0: not configured, Placement's value stays (initially 1)
}

// Note is a sentence for the operator about a fact that does not prevent reporting.
type Note struct {
	About    string // an address or a provider's name
	Sentence string
}

// String prints the note as a sentence.
func (n Note) String() string { return n.About + ": " + n.Sentence }

// ProviderID returns the ID of a device provider that does not exist yet. It is derived from the root and the name, so
// that its creation may be repeated.
func ProviderID(root provider.ID, name string) provider.ID { return nameUUID(root, name) }

// Desired returns the desired tree of the host: the root, and below it a provider for each device or PF, with the IDs
// of Facts.Actual for providers with the same names. Without Report it is the root alone.
//
// Invalid when device_spec cannot be reported: a PF and one of its VFs both offered; VFs of one PF with different
// classes or traits; devname; one_time_use on VFs or without Report; another class for a held device; live_migratable
// where NoLive excludes it. The fault has the first of these sentences, and Problems returns all. A held device that
// has become another one is not invalid: it is kept as it was claimed, with a note.
func Desired(f Facts) (provider.Tree, []Note, error) {
	root := provider.Provider{ID: f.Root, Name: f.Host, Root: f.Root, Inventories: f.inventories(),
		Traits: union(f.Traits, OwnerNova)}
	tree := provider.Tree{Providers: []provider.Provider{root}}
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
		return provider.Tree{}, nil, fault.New(fault.Invalid, "survey.Desired", "%w", &invalidConfig{wrong})
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

// invalidConfig is all errors of a configuration, in order.
type invalidConfig struct{ errs []error }

// Error returns the first error: correcting it may correct the others.
func (s *invalidConfig) Error() string { return fault.TextOf(s.errs[0]) }

// Problems lists the sentences of a fault of Desired; none for another error.
func Problems(err error) (sentences []string) {
	if s, ok := errors.AsType[*invalidConfig](err); ok {
		for _, one := range s.errs {
			sentences = append(sentences, fault.TextOf(one))
		}
	}
	return sentences
}

// Offers lists the devices that device_spec offers, by address, each with its class, its traits and, when it is
// reported, the provider that counts it.
func Offers(f Facts) []device.Offer {
	found, _ := f.match()
	list := make([]device.Offer, 0, len(found))
	for _, m := range found {
		list = append(list, m.offer)
	}
	return list
}

// CheckSwitch refuses to stop reporting: as in Nova, report_in_placement cannot be disabled for a host once it was
// enabled. Without Actual there is nothing to refuse.
func CheckSwitch(f Facts) error {
	if f.Report {
		return nil
	}
	for _, p := range f.Actual.Providers {
		if p.HasTrait(ManagedPCI) {
			return fault.New(fault.Invalid, "survey.CheckSwitch",
				"[pci] report_in_placement is off, but Placement has the device provider %s of this host; "+
					"it cannot be switched off once it was on, switch it on again",
				p.Name)
		}
	}
	return nil
}

// Ratios returns the classes of the root with a configured allocation_ratio, sorted.
func Ratios(f Facts) []resource.Class {
	var list []resource.Class
	for class, share := range f.rootInventories() {
		if share.Total > 0 && share.Ratio != 0 {
			list = append(list, class)
		}
	}
	slices.Sort(list)
	return list
}

// ReservedClasses returns the classes of the root with a configured reserved amount, sorted.
func ReservedClasses(f Facts) []resource.Class {
	var list []resource.Class
	for class, share := range f.rootInventories() {
		if share.Total > 0 && share.ReservedSet {
			list = append(list, class)
		}
	}
	slices.Sort(list)
	return list
}

func (f Facts) rootInventories() map[resource.Class]RootInventory {
	return map[resource.Class]RootInventory{"VCPU": f.VCPU, "PCPU": f.PCPU, "MEMORY_MB": f.MemoryMB, "DISK_GB": f.DiskGB}
}

// inventories returns the inventories of the root.
func (f Facts) inventories() map[resource.Class]resource.Inventory {
	out := map[resource.Class]resource.Inventory{}
	for class, share := range f.rootInventories() {
		if share.Total <= 0 {
			continue
		}
		inv := resource.Whole(share.Total)
		inv.Reserved = share.Reserved
		if share.Ratio != 0 {
			inv.AllocationRatio = share.Ratio
		}
		out[class] = inv
	}
	return out
}

// match is an offered device with the rule that offers it.
type match struct {
	offer device.Offer
	rule  pci.Rule
}

// reported reports whether Placement counts the device.
func (m match) reported() bool { return !m.rule.ForPorts() }

// String names device and rule for a message.
func (m match) String() string {
	return fmt.Sprintf("%s (%s)", m.offer.Device.Address, where(m.rule))
}

// where names a rule for a message: its position in the configuration, if known, and its text.
func where(r pci.Rule) string {
	if r.At != "" {
		return fmt.Sprintf("device_spec at %s, %s", r.At, r)
	}
	return fmt.Sprintf("device_spec %s", r)
}

// match returns the offered devices, by address. Bridges are never offered.
func (f Facts) match() ([]match, []Note) {
	devices := slices.SortedFunc(slices.Values(f.Devices), func(a,
		b pci.Device) int {
		return a.Address.Compare(b.Address)
	})
	index := make(map[pci.Address]*pci.Device, len(devices))
	for i := range devices {
		index[devices[i].Address] = &devices[i]
	}
	var found []match
	var notes []Note
	for _, d := range devices {
		var parent *pci.Device
		if d.Parent != nil {
			parent = index[*d.Parent]
		}
		rule, matched := f.Rules.First(d, parent)
		if !matched {
			continue
		}
		if d.IsBridge() {
			if exact, ok := rule.Address.Exact(); ok && exact == d.Address {
				notes = append(notes, Note{d.Address.String(), fmt.Sprintf("is a bridge and not offered, though %s names it",
					where(rule))})
			}
			continue
		}
		found = append(found, match{f.offer(d, rule), rule})
	}
	return found, notes
}

func (f Facts) offer(d pci.Device, rule pci.Rule) device.Offer {
	o := device.Offer{Device: d, Class: rule.Class(d), Traits: union(rule.Traits), ForPorts: rule.Tags.Networked &&
		f.Report,
		RemoteManaged: rule.Tags.RemoteManaged == pci.Yes, Managed: rule.Tags.Managed,
		LiveMigratable: rule.Tags.LiveMigratable}
	if rule.Tags.LiveMigratable == pci.Yes {
		o.Traits = union(o.Traits, LiveMigratable)
	}
	if rule.Tags.OneTimeUse == pci.Yes {
		o.Traits = union(o.Traits, OneTimeUse)
		o.Spent = f.Spent[device.PCI(d.Address)]
	}
	if f.Report && !rule.ForPorts() {
		o.Name = d.Holder().ProviderName(f.Host)
		o.Provider = f.id(o.Name)
	}
	return o
}

// id returns the ID of a device provider by its name.
func (f Facts) id(name string) provider.ID {
	if p, there := f.Actual.ByName(name); there {
		return p.ID
	}
	return ProviderID(f.Root, name)
}

// union returns a sorted set of traits.
func union(traits []resource.Trait, more ...resource.Trait) []resource.Trait {
	all := append(slices.Clone(traits), more...)
	slices.Sort(all)
	return slices.Compact(all)
}
