package domainxml

import (
	"cmp"
	"encoding/xml"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// hostDevPhysical is the VIF type of a port that gets a whole PCI device.
const hostDevPhysical = "hostdev_physical"

// integrationBridge is the bridge of Open vSwitch that has the ports of guests, unless the network service names
// another one.
const integrationBridge = "br-int"

// The VNIC types of ports with a device of the host that is not the guest's whole PCI device.
const (
	macvtap = "macvtap"
	vdpa    = "vdpa"
)

// wholeVF are the VNIC types of ports whose guest gets the VF itself. libvirt sets the MAC address of that of a
// remote-managed port, which nothing else on the host configures.
var wholeVF = []string{"direct", "remote-managed"}

// HasName reports whether the device of an interface is attached by its name, which Host.Names must have.
func HasName(i hypervisor.Interface) bool {
	return i.Device != (device.ID{}) && (i.VNIC == macvtap || i.VNIC == vdpa)
}

// InterfaceOf returns the element of a network interface of a guest. It returns fault.Invalid for
// a kind of interface that the driver does not support, and fault.Unavailable if the host has no name for its device.
func InterfaceOf(host Host, i hypervisor.Interface, g hypervisor.Guest) (Interface, error) {
	out := Interface{MAC: MAC{i.MAC}}
	switch {
	case i.Device != (device.ID{}) && (slices.Contains(wholeVF, i.VNIC) || HasName(i)):
		return deviceInterface(host, i, g.Devices)
	case i.VIF == "ovs":
		i.Bridge = cmp.Or(i.Bridge, integrationBridge)
		out.Virtual = &VirtualPort{Type: "openvswitch", Parameters: Parameters{InterfaceID: i.Port}}
		if i.VLAN != 0 { // Open vSwitch calls the VLAN of frames without a tag 0
			out.VLAN = &VLAN{Tags: []Tag{{max(i.VLAN, 0)}}}
		}
	case i.VIF != "bridge":
		return out, fault.New(fault.Invalid, "the port %s has the VIF type %q and the VNIC type "+
			"%q; the driver libvirt supports bridge, ovs, and devices of VNIC type direct, direct-physical, macvtap, vdpa and "+
			"remote-managed", i.Port, i.VIF, i.VNIC)
	}
	out.Type, out.Source = "bridge", &InterfaceSource{Bridge: i.Bridge}
	out.Model, out.Target = &InterfaceModel{Type: cmp.Or(g.Hardware.NICModel, virtio)}, &Target{Dev: tapName(i.Port)}
	if i.MTU > 0 {
		out.MTU = &MTU{i.MTU}
	}
	return out, nil
}

// deviceInterface returns the element of an interface with a device: a VF that the guest gets (direct, remote-managed),
// the network interface of a VF that only the guest uses (macvtap), or the virtio device that a VF emulates (vdpa).
func deviceInterface(host Host, i hypervisor.Interface, devices []hypervisor.Device) (Interface, error) {
	out := Interface{MAC: MAC{i.MAC}}
	n := slices.IndexFunc(devices, func(d hypervisor.Device) bool { return d.ID == i.Device })
	if n < 0 {
		return out, noDevice(i)
	}
	if i.VLAN != 0 && i.VNIC != vdpa { // libvirt refuses a VLAN for vdpa
		out.VLAN = &VLAN{Tags: []Tag{{i.VLAN}}}
	}
	if !HasName(i) {
		at, err := pci.ParseAddress(i.Device.String())
		if err != nil {
			return out, fault.New(fault.Invalid, "the device %s of port %s is not a PCI device: %w", i.Device, i.Port, err)
		}
		place := address(at)
		place.Type = "pci"
		out.Type, out.Managed, out.Source = "hostdev", yesNo(!devices[n].Unmanaged), &InterfaceSource{Address: &place}
		return out, nil
	}
	name := host.Names[i.Device]
	if err := checkTexts([]string{name}); err != nil {
		return out, err
	}
	out.Model = &InterfaceModel{Type: virtio}
	switch {
	case name == "" && i.VNIC == vdpa:
		return out, fault.New(fault.Unavailable, "the device %s of port %s has no vhost-vdpa device on the host; create "+
			"a vDPA device on it (`vdpa dev add`), and load the module vhost_vdpa", i.Device, i.Port)
	case name == "":
		return out, fault.New(fault.Unavailable, "the device %s of port %s has no network interface on the host, which "+
			"macvtap needs; bind the VF to its driver for networks", i.Device, i.Port)
	case i.VNIC == vdpa:
		out.Type, out.Source = vdpa, &InterfaceSource{Dev: name}
	default:
		out.Type, out.Source = "direct", &InterfaceSource{Dev: name, Mode: "passthrough"}
	}
	return out, nil
}

// PortDevice returns the XML of the device of an interface, as an element that can be attached to a domain. devices are
// those of its guest. Faults are those of InterfaceOf.
func PortDevice(host Host, i hypervisor.Interface, devices []hypervisor.Device) (string, error) {
	if i.VIF == hostDevPhysical {
		n := slices.IndexFunc(devices, func(d hypervisor.Device) bool { return d.ID == i.Device })
		if n < 0 {
			return "", noDevice(i)
		}
		element, err := hostDev(devices[n])
		if err != nil {
			return "", err
		}
		return encodeElement(xml.Name{Local: "hostdev"}, element)
	}
	element, err := InterfaceOf(host, i, hypervisor.Guest{Devices: devices})
	if err != nil {
		return "", err
	}
	return EncodeInterface(element)
}

// noDevice returns the fault for an interface whose device its guest does not have.
func noDevice(i hypervisor.Interface) error {
	return fault.New(fault.Invalid, "the port %s needs the device %s, which the guest does not "+
		"have", i.Port, i.Device)
}

// DeviceIn returns the XML of the element that has the device of an interface in a domain: its PCI device, or an
// interface with its MAC address; empty: there is none.
func DeviceIn(d Devices, i hypervisor.Interface) (string, error) {
	for _, one := range d.HostDevs {
		if one.Source.Address.is(i.Device) {
			return encodeElement(xml.Name{Local: "hostdev"}, one)
		}
	}
	for _, one := range d.Interfaces {
		if HasName(i) && one.MAC.Address == i.MAC ||
			one.Source != nil && one.Source.Address != nil && one.Source.Address.is(i.Device) {
			return EncodeInterface(one)
		}
	}
	return "", nil
}

// PlaceOf returns the PCI address of an interface in its guest, such as 0000:01:00.0; empty: the domain has none.
func PlaceOf(d Devices, i hypervisor.Interface) string {
	var place *PCIAddress
	for _, one := range d.HostDevs {
		if one.Source.Address.is(i.Device) {
			place = one.Address
		}
	}
	for _, one := range d.Interfaces {
		if one.MAC.Address == i.MAC {
			place = one.Address
		}
	}
	if place == nil || place.Type != "pci" {
		return ""
	}
	at, err := place.parse()
	if err != nil {
		return ""
	}
	return at.String()
}

// parse returns the address as a value.
func (a PCIAddress) parse() (pci.Address, error) {
	return pci.ParseAddress(hexDigits(a.Domain) + ":" + hexDigits(a.Bus) + ":" + hexDigits(a.Slot) + "." +
		hexDigits(a.Function))
}

// is reports whether the address is that of a device of the host.
func (a PCIAddress) is(id device.ID) bool {
	found, err := a.parse()
	return err == nil && device.PCI(found) == id
}

// tapName returns the name of a port's TAP device on the host, as Nova and Neutron's agents form it: a name of a Linux
// interface has at most 15 bytes.
func tapName(port string) string { return "tap" + port[:min(len(port), 11)] }

// EncodeInterface returns the XML of an interface.
func EncodeInterface(i Interface) (string, error) {
	return encodeElement(xml.Name{Local: "interface"}, i)
}
