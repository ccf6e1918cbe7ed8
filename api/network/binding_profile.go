package network

import (
	"maps"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// The keys of binding:profile that belong to the host of a port, as Nova writes them.
const (
	ProfileAllocation = "allocation"
	ProfileSlot       = "pci_slot"
	ProfileMAC        = "device_mac_address" // the network service gives it to a direct-physical port
	profileVendor     = "pci_vendor_info"
	profileNetwork    = "physical_network"
	profileSerial     = "card_serial_number" // this and the next two: of remote-managed ports
	profilePFMAC      = "pf_mac_address"
	profileVF         = "vf_num"
)

// hostKeys are all keys that belong to the host of a port.
var hostKeys = []string{ProfileAllocation, profileVendor, ProfileSlot, profileNetwork, profileSerial, ProfileMAC,
	profilePFMAC, profileVF, "arq_uuid"}

// ProfileDevice is the device of a port.
type ProfileDevice struct {
	pci.Device
	PhysicalNetwork *string // of its rule, empty for null; nil: none
	RemoteManaged   bool
}

// SlotOf returns the PCI address of a port's device, or "".
func SlotOf(profile map[string]any) string {
	slot, _ := profile[ProfileSlot].(string)
	return slot
}

// UnboundProfile returns a binding profile without what belongs to the host of a port.
func UnboundProfile(old map[string]any) map[string]any {
	rest := map[string]any{}
	maps.Copy(rest, old)
	for _, key := range hostKeys {
		delete(rest, key)
	}
	return rest
}

// BoundProfile returns the binding profile of a port that is bound with an allocation, the provider of each group, and
// with a device; nil: it has none. Keys that do not belong to a host stay. A device that no rule has for ports any more
// is as the profile has it: the guest has the device, and a binding without its network would cut it off. Numbers are
// as in a decoded profile, with which the result is compared.
func BoundProfile(old map[string]any, port string, allocation map[string]provider.ID,
	device *ProfileDevice) map[string]any {
	all := UnboundProfile(old)
	switch {
	case device == nil:
	case device.PhysicalNetwork == nil && !device.RemoteManaged && SlotOf(old) == device.Address.String():
		maps.Copy(all, old)
	default:
		device.addTo(all, old)
	}
	return WithAllocation(all, port, allocation)
}

// addTo adds the device to a profile that was another one before.
func (d ProfileDevice) addTo(profile, old map[string]any) {
	profile[ProfileSlot], profile[profileVendor] = d.Address.String(), d.Vendor+":"+d.Product
	if name := d.PhysicalNetwork; name != nil && *name != "" {
		profile[profileNetwork] = *name
	}
	switch {
	case d.RemoteManaged:
		addCard(profile, d.Device)
	case pci.PortClass(d.Device) == pci.PortNIC:
		addMAC(profile, old, d.Device)
	}
}

// WithAllocation returns a binding profile with another allocation of a port: the provider of each group. That of a
// request without group ids is one text.
func WithAllocation(profile map[string]any, port string, allocation map[string]provider.ID) map[string]any {
	out := map[string]any{}
	maps.Copy(out, profile)
	delete(out, ProfileAllocation)
	if len(allocation) == 0 {
		return out
	}
	groups := map[string]any{}
	for group, at := range allocation {
		groups[group] = string(at)
	}
	out[ProfileAllocation] = groups
	if one, legacy := groups[port]; legacy {
		out[ProfileAllocation] = one
	}
	return out
}

// addCard adds how the card of a remote-managed VF finds it. A network without a physical network is null then.
func addCard(profile map[string]any, d pci.Device) {
	profile[profileSerial], profile[profilePFMAC], profile[profileVF] = d.Serial, d.PFMAC, float64(d.VFNumber)
	if _, named := profile[profileNetwork]; !named {
		profile[profileNetwork] = nil
	}
}

// addMAC adds the MAC address of the NIC of a direct-physical port, which the guest sees. While a guest has the NIC, a
// restarted agent cannot read the address; then the profile keeps it.
func addMAC(profile, old map[string]any, d pci.Device) {
	switch {
	case d.PFMAC != "":
		profile[ProfileMAC] = d.PFMAC
	case old[ProfileSlot] == profile[ProfileSlot] && old[ProfileMAC] != nil:
		profile[ProfileMAC] = old[ProfileMAC]
	}
}
