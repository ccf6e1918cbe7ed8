package domainxml

import (
	"cmp"
	"slices"

	"libvirt.org/go/libvirtxml"

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
func InterfaceOf(host Host, i hypervisor.Interface, g hypervisor.Guest) (libvirtxml.DomainInterface, error) {
	out := libvirtxml.DomainInterface{MAC: &libvirtxml.DomainInterfaceMAC{Address: i.MAC}}
	switch {
	case i.Device != (device.ID{}) && (slices.Contains(wholeVF, i.VNIC) || HasName(i)):
		return deviceInterface(host, i, g.Devices)
	case i.VIF == "ovs":
		i.Bridge = cmp.Or(i.Bridge, integrationBridge)
		out.VirtualPort = &libvirtxml.DomainInterfaceVirtualPort{Params: &libvirtxml.DomainInterfaceVirtualPortParams{
			OpenVSwitch: &libvirtxml.DomainInterfaceVirtualPortParamsOpenVSwitch{InterfaceID: i.Port}}}
		if i.VLAN != 0 { // Open vSwitch calls the VLAN of frames without a tag 0
			out.VLan = vlan(max(i.VLAN, 0))
		}
	case i.VIF != "bridge":
		return out, fault.New(fault.Invalid, "the port %s has the VIF type %q and the VNIC type "+
			"%q; the driver libvirt supports bridge, ovs, and devices of VNIC type direct, direct-physical, macvtap, vdpa and "+
			"remote-managed", i.Port, i.VIF, i.VNIC)
	}
	out.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: i.Bridge}}
	out.Model = &libvirtxml.DomainInterfaceModel{Type: cmp.Or(g.Hardware.NICModel, virtio)}
	out.Target = &libvirtxml.DomainInterfaceTarget{Dev: tapName(i.Port)}
	if i.MTU > 0 {
		out.MTU = &libvirtxml.DomainInterfaceMTU{Size: uint(i.MTU)}
	}
	return out, nil
}

func vlan(id int) *libvirtxml.DomainInterfaceVLan {
	return &libvirtxml.DomainInterfaceVLan{Tags: []libvirtxml.DomainInterfaceVLanTag{{ID: uint(id)}}}
}

// deviceInterface returns the element of an interface with a device: a VF that the guest gets (direct, remote-managed),
// the network interface of a VF that only the guest uses (macvtap), or the virtio device that a VF emulates (vdpa).
func deviceInterface(host Host, i hypervisor.Interface, devices []hypervisor.Device) (libvirtxml.DomainInterface,
	error) {
	out := libvirtxml.DomainInterface{MAC: &libvirtxml.DomainInterfaceMAC{Address: i.MAC},
		Source: &libvirtxml.DomainInterfaceSource{}}
	n := slices.IndexFunc(devices, func(d hypervisor.Device) bool { return d.ID == i.Device })
	if n < 0 {
		return out, noDevice(i)
	}
	if i.VLAN != 0 && i.VNIC != vdpa { // libvirt refuses a VLAN for vdpa
		out.VLan = vlan(i.VLAN)
	}
	if !HasName(i) {
		at, err := pci.ParseAddress(i.Device.String())
		if err != nil {
			return out, fault.New(fault.Invalid, "the device %s of port %s is not a PCI device: %w", i.Device, i.Port, err)
		}
		out.Managed = yesNo(!devices[n].Unmanaged)
		out.Source.Hostdev = &libvirtxml.DomainInterfaceSourceHostdev{
			PCI: &libvirtxml.DomainHostdevSubsysPCISource{Address: address(at)}}
		return out, nil
	}
	name := host.Names[i.Device]
	if err := checkTexts([]string{name}); err != nil {
		return out, err
	}
	out.Model = &libvirtxml.DomainInterfaceModel{Type: virtio}
	switch {
	case name == "" && i.VNIC == vdpa:
		return out, fault.New(fault.Unavailable, "the device %s of port %s has no vhost-vdpa device on the host; create "+
			"a vDPA device on it (`vdpa dev add`), and load the module vhost_vdpa", i.Device, i.Port)
	case name == "":
		return out, fault.New(fault.Unavailable, "the device %s of port %s has no network interface on the host, which "+
			"macvtap needs; bind the VF to its driver for networks", i.Device, i.Port)
	case i.VNIC == vdpa:
		out.Source.VDPA = &libvirtxml.DomainInterfaceSourceVDPA{Device: name}
	default:
		out.Source.Direct = &libvirtxml.DomainInterfaceSourceDirect{Dev: name, Mode: "passthrough"}
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
		return encoded(&element)
	}
	element, err := InterfaceOf(host, i, hypervisor.Guest{Devices: devices})
	if err != nil {
		return "", err
	}
	return encoded(&element)
}

// noDevice returns the fault for an interface whose device its guest does not have.
func noDevice(i hypervisor.Interface) error {
	return fault.New(fault.Invalid, "the port %s needs the device %s, which the guest does not "+
		"have", i.Port, i.Device)
}

// DeviceIn returns the XML of the element that has the device of an interface in a domain: its PCI device, or an
// interface with its MAC address; empty: there is none.
func DeviceIn(d Domain, i hypervisor.Interface) (string, error) {
	for _, one := range d.list().Hostdevs {
		if isAt(hostAddress(one), i.Device) {
			return encoded(&one)
		}
	}
	for _, one := range d.list().Interfaces {
		if HasName(i) && macOf(one) == i.MAC || isAt(interfaceAddress(one), i.Device) {
			return encoded(&one)
		}
	}
	return "", nil
}

// PlaceOf returns the PCI address of an interface in its guest, such as 0000:01:00.0; empty: the domain has none.
func PlaceOf(d Domain, i hypervisor.Interface) string {
	var place *libvirtxml.DomainAddress
	for _, one := range d.list().Hostdevs {
		if isAt(hostAddress(one), i.Device) {
			place = one.Address
		}
	}
	for _, one := range d.list().Interfaces {
		if macOf(one) == i.MAC {
			place = one.Address
		}
	}
	if place == nil || place.PCI == nil {
		return ""
	}
	at, err := parse(place.PCI)
	if err != nil {
		return ""
	}
	return at.String()
}

// tapName returns the name of a port's TAP device on the host, as Nova and Neutron's agents form it: a name of a Linux
// interface has at most 15 bytes.
func tapName(port string) string { return "tap" + port[:min(len(port), 11)] }

// EncodeInterface returns the XML of an interface.
func EncodeInterface(i libvirtxml.DomainInterface) (string, error) { return encoded(&i) }

// Host is what the driver knows about the host and its configuration.
type Host struct {
	KVM      bool   // the host can accelerate guests
	VNC      bool   // guests have displays, unless their image chooses no video device
	Arch     string // such as x86_64
	Machine  string // machine type, such as q35
	CPUModel string // [libvirt] cpu_models; empty: that of the host with KVM, otherwise the best that QEMU emulates

	// Names are the host's names of the devices of ports that guests do not get as PCI devices: the network interface of
	// a VF for macvtap, such as ens1f0v1, and the path of its character device for vdpa, such as /dev/vhost-vdpa-0.
	Names map[device.ID]string
}
