package survey

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// match is an offered device with the rule that offers it.
type match struct {
	offer   device.Offer
	rule    pci.Rule
	counted bool // by Placement
}

// reported reports whether Placement counts the device.
func (m match) reported() bool { return m.counted }

// String names device and rule for a message.
func (m match) String() string {
	return fmt.Sprintf("%s (%s)", m.offer.Device.Address, where(m.rule))
}

// Offers lists the devices that device_spec offers, by address, each with its class, its traits, the provider of the
// bandwidth of its NIC and, when it is reported, the provider that counts it.
func Offers(f Facts) []device.Offer {
	found, _ := f.match()
	f.withBandwidth(found)
	list := make([]device.Offer, 0, len(found))
	for _, m := range found {
		list = append(list, m.offer)
	}
	return list
}

// match returns the offered devices, by address. Bridges are never offered, nor, with VFIO, devices that guests cannot
// get.
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
		found = append(found, match{f.offer(d, rule), rule, f.counts(rule)})
	}
	of := f.known
	if of == nil {
		of = f.obstacles()
	}
	notes = append(notes, f.obstacleNotes(found, of)...)
	found = f.withoutObstacles(found, of)
	f.chooseParts(found)
	return found, notes
}

func (f Facts) offer(d pci.Device, rule pci.Rule) device.Offer {
	o := device.Offer{
		Offered: pci.Offered{Device: d, ResourceClass: rule.Class(d), Traits: union(rule.Traits),
			PortTags: rule.Tags.ForPort(), ForPorts: rule.Tags.Networked && f.Report,
			LiveMigratable: rule.Tags.LiveMigratable, Properties: rule.Properties},
		Networked: rule.Tags.Networked && rule.Tags.RemoteManaged != pci.Yes, Managed: rule.Tags.Managed}
	if rule.Tags.LiveMigratable == pci.Yes {
		o.Traits = union(o.Traits, LiveMigratable)
	}
	if rule.Tags.OneTimeUse == pci.Yes {
		o.Traits = union(o.Traits, pci.OneTimeUse)
		o.Spent = f.Spent[device.PCI(d.Address)]
	}
	o.OneTimeUse = slices.Contains(o.Traits, pci.OneTimeUse)
	if rule.ForPorts() && f.counts(rule) {
		o.ResourceClass, o.Traits = pci.PortClass(d), union(o.Traits, networkTraits(d, rule)...)
	}
	if rule.Shapes && d.Type == pci.Physical {
		o.Slices = cmp.Or(f.VFs[device.PCI(d.Address)], d.NumVFs, 1)
	}
	if f.counts(rule) {
		o.Name = d.Holder().ProviderName(f.Host)
		o.Provider = f.id(o.Name)
	}
	return o
}

// where names a rule for a message: its position in the configuration, if known, and its text.
func where(r pci.Rule) string {
	if r.At != "" {
		return fmt.Sprintf("device_spec at %s, %s", r.At, r)
	}
	return fmt.Sprintf("device_spec %s", r)
}
