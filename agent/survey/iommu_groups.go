package survey

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
)

// With VFIO a guest gets a device only if no driver of the host has another device of the same IOMMU group: the kernel
// isolates groups, not devices. Bridges do not count, nor do drivers that only hold a device for a guest
// (drivers/vfio/vfio_main.c and drivers/iommu/iommu.c of Linux).

// obstacle is why devices cannot be given to a guest.
type obstacle struct {
	group   int          // pci.NoGroup: the device has none
	members []pci.Device // the other devices of the group that a driver of the host has, by address
}

// obstacles returns why devices cannot be given to a guest by VFIO, by address. A vDPA device is not given by VFIO.
func (f Facts) obstacles() map[pci.Address]obstacle {
	taken := map[int][]pci.Device{}
	for _, d := range f.Devices {
		if d.IOMMUGroup != pci.NoGroup && !d.IsBridge() && !holdsForGuests(d.Driver) {
			taken[d.IOMMUGroup] = append(taken[d.IOMMUGroup], d)
		}
	}
	out := map[pci.Address]obstacle{}
	for _, d := range f.Devices {
		others := slices.DeleteFunc(slices.Clone(taken[d.IOMMUGroup]), func(o pci.Device) bool {
			return o.Address == d.Address
		})
		slices.SortFunc(others, func(a, b pci.Device) int { return a.Address.Compare(b.Address) })
		if d.Type != pci.VDPA && (d.IOMMUGroup == pci.NoGroup || len(others) > 0) {
			out[d.Address] = obstacle{d.IOMMUGroup, others}
		}
	}
	return out
}

// holdsForGuests reports whether a driver leaves its device to guests: none at all, and those of VFIO, also the ones of
// vendors such as mlx5_vfio_pci.
func holdsForGuests(driver string) bool {
	return driver == "" || driver == "pci-stub" || strings.Contains(strings.ReplaceAll(driver, "_", "-"), "vfio-pci")
}

// why is the reason as a clause whose subject is the device.
func (o obstacle) why() string {
	if o.group == pci.NoGroup {
		return "has no IOMMU group, and guests get only devices that have one"
	}
	return fmt.Sprintf("is in IOMMU group %d with %s, and a guest gets no device of a group that the host uses", o.group,
		o.drivers())
}

// drivers names the other devices with their drivers.
func (o obstacle) drivers() string {
	var list []string
	for _, d := range o.members {
		list = append(list, fmt.Sprintf("%s (driver %s)", d.Address, d.Driver))
	}
	return joinFew(list)
}

// remedy is what the operator can do.
func (o obstacle) remedy() string {
	if o.group == pci.NoGroup {
		return "switch the IOMMU on in the firmware (VT-d, AMD-Vi) and with intel_iommu=on or amd_iommu=on on the " +
			"kernel's command line, and restart the host"
	}
	return fmt.Sprintf("bind each of the others to vfio-pci, as by `driverctl set-override %s vfio-pci`, or move the "+
		"card to another slot", o.members[0].Address)
}

// obstacleNotes returns a note for each IOMMU group that keeps matching devices from guests, and one for all devices
// without a group. Without VFIO they say what another hypervisor would do.
func (f Facts) obstacleNotes(found []match, of map[pci.Address]obstacle) (notes []Note) {
	byGroup, first := map[int][]string{}, map[int]obstacle{}
	for _, m := range found {
		at := m.offer.Device.Address
		o, is := of[at]
		if !is || !f.VFIO && o.group == pci.NoGroup { // a machine without IOMMU is usual where no guest gets a device
			continue
		}
		if byGroup[o.group] == nil {
			first[o.group] = o
		}
		byGroup[o.group] = append(byGroup[o.group], at.String())
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		o, devices := first[group], joinFew(byGroup[group])
		about, because := fmt.Sprintf("IOMMU group %d", group), "the host uses other devices of the group"
		if group == pci.NoGroup {
			about, because = "IOMMU", "devices without an IOMMU group cannot be given to guests"
		} else if with := o.drivers(); with != "" {
			because = fmt.Sprintf("the host uses other devices of the group: %s", with)
		}
		what := fmt.Sprintf("%s cannot be given to guests and are not offered", devices)
		if !f.VFIO {
			what = fmt.Sprintf("%s could not be given to guests of libvirt", devices)
		}
		notes = append(notes, Note{about, fmt.Sprintf("%s: %s; %s", what, because, o.remedy())})
	}
	return notes
}

// withoutObstacles returns the matching devices that guests can get. Without VFIO these are all.
func (f Facts) withoutObstacles(found []match, of map[pci.Address]obstacle) []match {
	if !f.VFIO {
		return found
	}
	return slices.DeleteFunc(found, func(m match) bool { _, is := of[m.offer.Device.Address]; return is })
}

// SplitGroups returns a note for each IOMMU group of which some devices are offered and others are not, although no
// driver of the host has them: a guest gets a device without what belongs to it, such as a GPU without its audio
// function. Bridges do not count.
func SplitGroups(verdicts []Verdict) (notes []Note) {
	offered, others := map[int][]string{}, map[int][]string{}
	for _, v := range verdicts {
		group, at := v.Device.IOMMUGroup, v.Device.Address.String()
		switch {
		case group == pci.NoGroup || v.Device.IsBridge():
		case v.Offered:
			offered[group] = append(offered[group], at)
		case holdsForGuests(v.Device.Driver):
			others[group] = append(others[group], at)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(others)) {
		if len(offered[group]) > 0 {
			notes = append(notes, Note{fmt.Sprintf("IOMMU group %d", group), fmt.Sprintf("%s is offered without %s, and no "+
				"other guest can have these; add them to device_spec, and request all by an alias with members and \"match\": "+
				"\"iommu_group\"", joinFew(offered[group]), joinFew(others[group]))})
		}
	}
	return notes
}
