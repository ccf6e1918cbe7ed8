// Package domainxml describes the domains that the libvirt driver defines: what a guest has, as values of
// libvirt.org/go/libvirtxml, and their XML. The package is pure. encoding/xml escapes all texts, so that no name of a
// user can add an element.
//
// The files, from the bottom to the top: metadata.go has the guest in the metadata; domain.go encodes and reads
// domains; hardware.go, interfaces.go and guest_to_domain.go make the domain of a guest; destination.go makes that of a
// guest that migrates.
package domainxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Domain is the definition of a domain: that of libvirt, with the guest in its metadata.
type Domain struct {
	libvirtxml.Domain
	Guest Guest
}

// Encode returns the XML of a domain. Metadata of other programs are not part of it.
func Encode(d Domain) (string, error) {
	metadata, err := EncodeGuest(d.Guest)
	if err != nil {
		return "", err
	}
	d.Metadata = &libvirtxml.DomainMetadata{XML: metadata}
	return d.Marshal()
}

// Decode parses the XML of a domain. The error names the line.
func Decode(text string) (d Domain, err error) {
	if d.Guest, err = GuestIn(text); err != nil {
		return d, err
	}
	return d, decode(text, "", &d.Domain)
}

// decode parses XML whose names without a prefix belong to a namespace. The error names the line.
func decode(text, namespace string, into any) error {
	d := xml.NewDecoder(strings.NewReader(text))
	d.DefaultSpace = namespace
	err := d.Decode(into)
	if _, hasLine := errors.AsType[*xml.SyntaxError](err); err == nil || hasLine {
		return err
	}
	line, _ := d.InputPos()
	return fmt.Errorf("line %d: %w", line, err)
}

// GuestIn returns the guest in the XML of any domain; the zero value: it has none. The rest of the definition is not
// parsed, because it may have what Decode refuses, such as an attribute of a later libvirt.
func GuestIn(text string) (Guest, error) {
	var found struct {
		Metadata struct {
			Guest Guest `xml:"https://github.com/openberth/berth/libvirt/1 guest"`
		} `xml:"metadata"`
	}
	err := decode(text, "", &found)
	return found.Metadata.Guest, err
}

// GuestOfElement returns the guest in the metadata that libvirt returns for Namespace; the zero value: there are none.
func GuestOfElement(text string) (g Guest, err error) {
	if text != "" {
		err = decode(text, Namespace, &g)
	}
	return g, err
}

// list returns the devices of a domain.
func (d Domain) list() libvirtxml.DomainDeviceList {
	if d.Devices == nil {
		return libvirtxml.DomainDeviceList{}
	}
	return *d.Devices
}

// Disk returns the path of the file of the guest's disk, which may be a snapshot of the one that the driver has made;
// empty: it has none, or it is not a file.
func (d Domain) Disk() string {
	disks := d.list().Disks
	i := slices.IndexFunc(disks, func(one libvirtxml.DomainDisk) bool {
		return one.Device == "disk" && one.ReadOnly == nil // the config drive can only be read
	})
	if i < 0 || disks[i].Source == nil || disks[i].Source.File == nil {
		return ""
	}
	return disks[i].Source.File.File
}

// DiskTarget returns the name of the guest's disk within its domain, such as vda; empty: there is no disk.
func (d Domain) DiskTarget() string {
	for _, one := range d.list().Disks {
		if one.Device == "disk" && one.ReadOnly == nil && one.Target != nil {
			return one.Target.Dev
		}
	}
	return ""
}

// HasInterface reports whether a domain has an interface with a MAC address.
func (d Domain) HasInterface(mac string) bool {
	return slices.ContainsFunc(d.list().Interfaces, func(one libvirtxml.DomainInterface) bool { return macOf(one) == mac })
}

func macOf(i libvirtxml.DomainInterface) string {
	if i.MAC == nil {
		return ""
	}
	return i.MAC.Address
}

// address returns a PCI address for libvirt.
func address(at pci.Address) *libvirtxml.DomainAddressPCI {
	return &libvirtxml.DomainAddressPCI{Domain: new(uint(at.Domain)), Bus: new(uint(at.Bus)), Slot: new(uint(at.Slot)),
		Function: new(uint(at.Func))}
}

// parse returns a PCI address of libvirt.
func parse(at *libvirtxml.DomainAddressPCI) (pci.Address, error) {
	if at == nil || at.Domain == nil || at.Bus == nil || at.Slot == nil || at.Function == nil {
		return pci.Address{}, errors.New("the PCI address is not complete")
	}
	return pci.ParseAddress(fmt.Sprintf("%04x:%02x:%02x.%x", *at.Domain, *at.Bus, *at.Slot, *at.Function))
}

// isAt reports whether a PCI address of libvirt is that of a device of the host.
func isAt(at *libvirtxml.DomainAddressPCI, id device.ID) bool {
	found, err := parse(at)
	return err == nil && device.PCI(found) == id
}

// hostAddress returns the PCI address of a device on the host; nil: it has none.
func hostAddress(d libvirtxml.DomainHostdev) *libvirtxml.DomainAddressPCI {
	if d.SubsysPCI == nil || d.SubsysPCI.Source == nil {
		return nil
	}
	return d.SubsysPCI.Source.Address
}

// interfaceAddress returns the PCI address of the device of an interface on the host; nil: it has none.
func interfaceAddress(i libvirtxml.DomainInterface) *libvirtxml.DomainAddressPCI {
	if i.Source == nil || i.Source.Hostdev == nil || i.Source.Hostdev.PCI == nil {
		return nil
	}
	return i.Source.Hostdev.PCI.Address
}

// encoded returns the XML of a device.
func encoded(device interface{ Marshal() (string, error) }) (string, error) {
	text, err := device.Marshal()
	return text, fault.Wrap(fault.Internal, err)
}

// hostDev returns the element of a PCI device.
func hostDev(d hypervisor.Device) (libvirtxml.DomainHostdev, error) {
	at, err := pci.ParseAddress(d.ID.String())
	if err != nil {
		return libvirtxml.DomainHostdev{}, fault.New(fault.Invalid, "device %s is not a PCI device: %w", d.ID, err)
	}
	return libvirtxml.DomainHostdev{Managed: yesNo(!d.Unmanaged), SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
		Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: address(at)}}}, nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
