package device

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/pci"
)

// Identity describes the kind of a device: ids, type and PF, such as "8086:1515 type-VF of 0000:81:00.0".
func Identity(d pci.Device) string {
	text := fmt.Sprintf("%s:%s %s", d.Vendor, d.Product, d.Type)
	if d.Parent != nil {
		text += " of " + d.Parent.String()
	}
	return text
}

// sameDevice reports whether two devices at one address may be the same one: equal ids, type and PF. The PCI class is
// compared where both are known; a journal of an older agent has none.
func sameDevice(a, b pci.Device) bool {
	return a.Vendor == b.Vendor && a.Product == b.Product && a.Type == b.Type && a.Holder() == b.Holder() &&
		(a.Class == b.Class || a.Class == 0 || b.Class == 0)
}

// Changed reports whether the device that the host now has at the claim's address is not the claimed one, as after a
// change of cards or firmware. It is false for a claim with only an address.
func (c Claim) Changed(now pci.Device) bool {
	return c.Device.Type != "" && !sameDevice(c.Device, now)
}

// Difference describes the claimed device and the one that is at its address now, when Changed is true.
func (c Claim) Difference(now pci.Device) (was, is string) {
	was, is = Identity(c.Device), Identity(now)
	if was == is {
		was, is = fmt.Sprintf("%s class %06x", was, c.Device.Class), fmt.Sprintf("%s class %06x", is, now.Class)
	}
	return was, is
}

// Mismatch returns a sentence about the first of a guest's devices whose address has another device now, or "". A
// missing device is not a mismatch.
func Mismatch(claims []Claim, host []pci.Device) string {
	for _, c := range claims {
		i := slices.IndexFunc(host, func(d pci.Device) bool { return d.Address == c.Device.Address })
		if i >= 0 && c.Changed(host[i]) {
			was, is := c.Difference(host[i])
			return fmt.Sprintf("%s was claimed as %s and is %s now", c.Device.Address, was, is)
		}
	}
	return ""
}

// same reports whether two offers are equal for a holder of the device: a new driver or network name does not matter,
// nor does the class of a device that no provider counts yet.
func (o Offer) same(p Offer) bool {
	return sameDevice(o.Device, p.Device) && (o.ResourceClass == p.ResourceClass || o.Provider == "") &&
		(o.Provider == p.Provider || o.Provider == "" || p.Provider == "")
}
