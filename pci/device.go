// Package pci defines PCI addresses and devices, the device_spec that offers devices and the alias that requests
// them.
//
// It parses and matches configuration. It reads no files and uses no services; agent/sysfs reads the devices.
package pci

import "fmt"

// Type is the kind of a device, with the values of Nova's device_type.
type Type string

// The types that `device_type` of an alias may name.
const (
	Plain    Type = "type-PCI" // no SR-IOV
	Physical Type = "type-PF"  // can have virtual functions
	Virtual  Type = "type-VF"  // a virtual function of a PF
)

// VDPA is a VF that carries a vDPA device. Only network ports of that kind use it; no alias can request it.
const VDPA Type = "vdpa"

// NoNUMA is the NUMA node of a device whose firmware reports none (numa_node is -1).
const NoNUMA = -1

// NoGroup is the IOMMU group of a device without one (no IOMMU, or it is switched off).
const NoGroup = -1

// Device is one PCI function as the kernel describes it in /sys/bus/pci/devices/<address>.
type Device struct {
	Address    Address
	Vendor     string   // vendor: four lower-case hex digits, no 0x
	Product    string   // device: in the same format
	Class      uint32   // class: base class, subclass, programming interface, e.g. 0x020000 for Ethernet
	Type       Type     // from sriov_totalvfs, physfn and bus/vdpa
	Parent     *Address // physfn: the PF of a VF, else nil
	NUMANode   int      // numa_node, or NoNUMA
	Driver     string   // driver: the bound driver's name, or ""
	IOMMUGroup int      // iommu_group: its number, or NoGroup
	// Bridges are the PCIe ports and bridges above it, from its root port down through switches; none: it is on the bus of
	// a host bridge, or its path is unknown.
	Bridges   []Address
	TotalVFs  int      // sriov_totalvfs of a PF
	NumVFs    int      // sriov_numvfs of a PF: how many exist now
	VFProduct string   // sriov_vf_device of a PF: product of its VFs, four lower-case hex digits, or ""
	Serial    string   // of the card, keyword SN in vpd; "" if it has none or was not read
	Net       []string // net/: names of its network interfaces, sorted

	// PFMAC is the MAC address of its PF; of a PF or a NIC, its own. "" if there is no network interface now, or if it was
	// not read: of a VF it is read if a rule with remote_managed may match it, as Serial.
	PFMAC    string
	VFNumber int // its number at the PF: virtfn0, virtfn1 and so on of the PF lead to its VFs
}

// IsBridge reports whether the device is a bridge, which no guest can use: its base class is 06, and its subclass is
// not 80, "other". That is the class of an NVSwitch, which has no bus below it (header type 0).
func (d Device) IsBridge() bool { return d.Class>>16 == 0x06 && d.Class>>8 != 0x0680 }

func (d Device) isVDPA() bool { return d.Type == VDPA }

// Holder returns the address whose resource provider counts this device: the PF for a VF, otherwise its own address.
func (d Device) Holder() Address {
	if d.Parent != nil {
		return *d.Parent
	}
	return d.Address
}

// Root returns the child of the host bridge below which the device is: its PCIe root port or, if nothing is above it,
// the device itself, and the PF of a VF.
func (d Device) Root() Address {
	if len(d.Bridges) > 0 {
		return d.Bridges[0]
	}
	return d.Holder()
}

// String formats the device for logs: `0000:3b:00.1 8086:1515 type-VF`.
func (d Device) String() string {
	return fmt.Sprintf("%s %s:%s %s", d.Address, d.Vendor, d.Product, d.Type)
}
