package survey

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Verdict is the result of device_spec for one device of the host, with the reason.
type Verdict struct {
	Device   pci.Device
	Entry    *pci.Rule    // the entry of device_spec that matches it; nil: none
	Offer    device.Offer // zero unless it is offered
	Offered  bool         // to guests, if only to network ports
	Reported bool         // counted in Placement
	Why      string       // why it is not reported, as the end of a sentence that begins with the device; "" when it is
}

// Verdicts returns the verdict on each device of a host, by address, and all errors of device_spec: Desired refuses a
// configuration with any of them. It needs neither claims nor a tree in Placement. notes are the IOMMU groups that keep
// devices from guests.
func Verdicts(f Facts) (list []Verdict, wrong []string, notes []Note) {
	f.known = f.obstacles()
	for _, r := range f.Rules {
		alone := f
		alone.Rules = pci.Rules{r}
		for _, err := range alone.checkRules() {
			wrong = append(wrong, fault.TextOf(err))
		}
	}
	families := map[pci.Address][]pci.Device{}
	for _, d := range f.Devices {
		families[d.Holder()] = append(families[d.Holder()], d)
	}
	for _, holder := range slices.SortedFunc(maps.Keys(families), pci.Address.Compare) {
		family := f
		family.Devices = families[holder]
		found, _ := family.match()
		refused := false
		if f.Report {
			_, errs := family.groups(found)
			for _, err := range errs {
				wrong, refused = append(wrong, fault.TextOf(err)), true
			}
		}
		for _, d := range family.Devices {
			list = append(list, family.judge(d, found, refused))
		}
	}
	slices.SortFunc(list, func(a, b Verdict) int { return a.Device.Address.Compare(b.Device.Address) })
	all := f
	all.VFIO = false
	matching, _ := all.match()
	return list, wrong, f.obstacleNotes(matching, f.known)
}

// judge returns the verdict on one device of a family. found are the offered devices; refused: they cannot be
// reported.
func (f Facts) judge(d pci.Device, found []match, refused bool) Verdict {
	v := Verdict{Device: d}
	i := slices.IndexFunc(found, func(m match) bool { return m.offer.Device.Address == d.Address })
	if i < 0 {
		v.Why = f.unmatched(d)
		return v
	}
	m := found[i]
	v.Entry, v.Offer, v.Offered = &m.rule, m.offer, true
	switch {
	case m.rule.ForPorts() && f.ReportNetwork && f.Report && !m.counted:
		v.Why = "is for ports, and Placement counts its VFs instead: no port of vnic type direct-physical gets it"
	case f.counts(m.rule) && m.rule.ForPorts() && !refused:
		v.Reported = true
	case refused && m.rule.ForPorts() && f.ReportNetwork:
		v.Why = fmt.Sprintf("cannot be reported as %s specifies, because of other entries for %s", where(m.rule), d.Holder())
	case m.rule.Tags.PhysicalNetwork != "":
		v.Why = fmt.Sprintf("is for ports of physical_network %q, and Placement does not count it",
			m.rule.Tags.PhysicalNetwork)
	case m.rule.Tags.Networked:
		v.Why = "is for ports of tunnelled networks (physical_network null), and Placement does not count it"
	case m.rule.ForPorts():
		v.Why = "is managed remotely: it is for network ports, and Placement does not count it"
	case !f.Report:
		v.Why = "is offered, but [pci] report_in_placement is off"
	case refused:
		v.Why = fmt.Sprintf("cannot be reported as %s specifies, because of other entries for %s", where(m.rule), d.Holder())
	default:
		v.Reported = true
	}
	return v
}

// unmatched returns why a device is not offered.
func (f Facts) unmatched(d pci.Device) string {
	if o, is := f.known[d.Address]; is && f.VFIO && !d.IsBridge() && len(f.Rules) > 0 {
		var parent *pci.Device
		if d.Parent != nil {
			parent = f.byAddress()[*d.Parent]
		}
		if _, matched := f.Rules.First(d, parent); matched {
			return "is not offered: it " + o.why() + "; " + o.remedy()
		}
	}
	known := d
	known.Serial = "known"
	_, remote := f.Rules.First(known, nil)
	switch {
	case d.IsBridge():
		return "is a bridge, which no guest can be given"
	case len(f.Rules) == 0:
		return "is not offered: device_spec is not set, and then nothing is"
	case remote && d.Serial == "" && f.Rules.NeedSerial(d):
		return "is not offered: its entry of device_spec has remote_managed, but the card has no readable serial number"
	}
	return "is not offered: no entry of device_spec matches it"
}
