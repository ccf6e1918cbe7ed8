package slotsurvey

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Device returns the adapter in a slot as a device of the host. Its ids are those of the inventory file in lower case.
func Device(s ioslot.Slot) pci.Device {
	d := pci.Device{Address: pci.IOSlot(uint32(s.Index)), Type: pci.Plain, NUMANode: pci.NoNUMA, IOMMUGroup: pci.NoGroup}
	vendor, _ := s.Property(ioslot.VendorID)
	product, _ := s.Property(ioslot.DeviceID)
	d.Vendor, d.Product = strings.ToLower(vendor), strings.ToLower(product)
	if s.Class.Known {
		d.Class = uint32(s.Class.Value) << 8
	}
	return d
}

// Devices returns the adapters in all slots of a system that have one, by index.
func Devices(s ioslot.System) (list []pci.Device) {
	for _, slot := range s.Slots {
		if slot.WhyNoDevice() == "" && slot.Index != 0 {
			list = append(list, Device(slot))
		}
	}
	return list
}

// Offers lists the adapters that the inventory file allows, by index, each with the provider that counts it. root is
// the ID of the host's provider. A slot that two paragraphs allow is not offered.
func Offers(f Facts, root provider.ID) (list []device.Offer) {
	for _, slot := range f.System.Slots {
		paragraph, allowed := f.Rules.Decide(slot).Allowed()
		if !allowed || slot.Index == 0 {
			continue
		}
		name := ioslot.ProviderName(f.nameHost(), slot.Index)
		o := device.Offer{Name: name, Offered: pci.Offered{Device: Device(slot), Provider: survey.ProviderID(root, name),
			ResourceClass: paragraph.ClassOr(f.defaultClass(slot)), Traits: allTraits(slot, paragraph),
			LiveMigratable: pci.No}}
		o.OneTimeUse = slices.Contains(o.Traits, pci.OneTimeUse)
		if p, exists := f.Actual.ByName(name); exists {
			o.Provider = p.ID
		}
		list = append(list, o)
	}
	return list
}

// defaultClass returns the class of a slot whose paragraph names none.
func (f Facts) defaultClass(slot ioslot.Slot) resource.Class {
	if class := ClassFromDevice(slot); f.ClassFromDevice && class != "" {
		return class
	}
	return inventoryfile.DefaultClass
}

// allTraits returns the traits of a slot's provider, sorted.
func allTraits(slot ioslot.Slot, paragraph inventoryfile.Paragraph) []resource.Trait {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(slot.Traits(), paragraph.Traits))))
}

// Verdict is what the inventory file and the owner mean for one slot.
type Verdict struct {
	Slot      ioslot.Slot
	Paragraph string           // that allows the slot, with its position; "" when none does
	Provider  string           // name; "" when the slot is not offered
	Class     resource.Class   // of an offered slot
	Traits    []resource.Trait // of an offered slot
	Why       string           // why it is not offered, or reserved; ""
}

// Verdicts returns the verdict on each slot, by index, and the sentences about slots that two paragraphs allow.
func Verdicts(f Facts) (list []Verdict, wrong []string) {
	decisions, problems := f.Rules.DecideAll(f.System.Slots)
	for _, p := range problems {
		wrong = append(wrong, p.String())
	}
	for _, d := range decisions {
		v := Verdict{Slot: d.Slot, Why: d.WhyNot()}
		if p, allowed := d.Allowed(); allowed {
			v.Paragraph, v.Provider = p.String(), ioslot.ProviderName(f.nameHost(), d.Slot.Index)
			v.Class, v.Traits = p.ClassOr(f.defaultClass(d.Slot)), allTraits(d.Slot, p)
			if d.Slot.Owner.Kind != ioslot.Unowned {
				v.Why = fmt.Sprintf("it %s, and is reserved unless an allocation explains that", d.Slot.Owner.Clause())
			}
		}
		list = append(list, v)
	}
	return list, wrong
}

// UnusedParagraphs returns a sentence about each paragraph that matches no slot, which may have a typing error (R15).
func UnusedParagraphs(f Facts) (sentences []string) {
	s := planner{Facts: f}
	decisions, _ := f.Rules.DecideAll(f.System.Slots)
	s.noteUnusedParagraphs(decisions)
	for _, n := range s.notes {
		sentences = append(sentences, n.String())
	}
	return sentences
}
