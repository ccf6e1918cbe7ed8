package domainxml

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// AtDestination returns the definition of a migrated domain at its destination. It is the definition here, because the
// hardware of a running guest cannot change, with what belongs to the host taken from the definition that the
// destination has prepared: the files, the firmware, the bridges and names of interfaces, the pinning and the metadata,
// which are passed as g. devices gives for each device here the one there. The fault is Invalid if one of these is
// missing.
func AtDestination(here, there string, g Guest, devices map[device.ID]device.ID) (string, error) {
	from, err := parseTree(here)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err)
	}
	to, err := parseTree(there)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err)
	}
	metadata, err := EncodeGuest(g)
	if err != nil {
		return "", err
	}
	own, err := parseTree(metadata)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err)
	}
	all := from.first("metadata")
	all.children = append(slices.DeleteFunc(all.children, isGuest), own)
	from.replace(to, "cputune", "numatune")
	if err := moveFirmware(from.first("os"), to.first("os")); err != nil {
		return "", fault.Wrap(fault.Invalid, err)
	}
	for _, step := range []func(from, to *node) error{moveDisks, moveInterfaces, moveLogs} {
		if err := step(from.first("devices"), to.first("devices")); err != nil {
			return "", fault.Wrap(fault.Invalid, err)
		}
	}
	if err := moveDevices(from.first("devices"), devices); err != nil {
		return "", fault.Wrap(fault.Invalid, err)
	}
	return from.String(), nil
}

// isGuest reports whether a node is the metadata of Berth.
func isGuest(n *node) bool {
	return slices.ContainsFunc(n.attrs, func(a xml.Attr) bool {
		return a.Value == Namespace && (a.Name.Space == "xmlns" || a.Name.Local == "xmlns")
	})
}

// moveFirmware replaces the files of UEFI firmware. Secure boot cannot begin or end while the guest runs.
func moveFirmware(from, to *node) error {
	if len(from.all("nvram")) == 0 {
		return nil
	}
	if here, there := from.first("loader").attr("secure"), to.first("loader").attr("secure"); len(to.all("nvram")) == 0 ||
		(here == "yes") != (there == "yes") {
		return fmt.Errorf("the destination has not prepared the same firmware: secure boot is %q here and %q there; "+
			"migrate the server cold", cmp.Or(here, "no"), cmp.Or(there, "no"))
	}
	from.replace(to, "loader", "nvram")
	return nil
}

// moveDisks replaces the files of disks. What libvirt knows about their backing files is dropped.
func moveDisks(from, to *node) error {
	for _, disk := range from.all("disk") {
		name := disk.first("target").attr("dev")
		i := slices.IndexFunc(to.all("disk"), func(n *node) bool { return n.first("target").attr("dev") == name })
		if i < 0 {
			return fmt.Errorf("the destination has not prepared the disk %s", name)
		}
		disk.remove("backingStore", "mirror")
		disk.replace(to.all("disk")[i], "source")
	}
	return nil
}

// moveInterfaces replaces what interfaces are attached to.
func moveInterfaces(from, to *node) error {
	for _, one := range from.all("interface") {
		mac := one.first("mac").attr("address")
		i := slices.IndexFunc(to.all("interface"), func(n *node) bool { return n.first("mac").attr("address") == mac })
		if i < 0 {
			return fmt.Errorf("the destination has not prepared the interface %s", mac)
		}
		there := to.all("interface")[i]
		one.setAttr("type", there.attr("type"))
		one.replace(there, "source", "virtualport", "target", "vlan")
	}
	return nil
}

// moveLogs replaces the files that keep the output of serial ports.
func moveLogs(from, to *node) error {
	for _, kind := range []string{"serial", "console"} {
		for _, log := range from.all(kind, "log") {
			file := to.first("serial", "log").attr("file")
			if file == "" {
				return fmt.Errorf("the destination has not prepared the log of the serial console")
			}
			log.setAttr("file", file)
		}
	}
	return nil
}

// moveDevices replaces the PCI devices.
func moveDevices(from *node, devices map[device.ID]device.ID) error {
	for _, source := range from.all("hostdev", "source", "address") {
		here, err := pci.ParseAddress(hexDigits(source, "domain") + ":" + hexDigits(source, "bus") + ":" +
			hexDigits(source, "slot") + "." + hexDigits(source, "function"))
		if err != nil {
			return err
		}
		there, given := devices[device.PCI(here)]
		if !given {
			return fmt.Errorf("there is no destination for the device %s", here)
		}
		at, err := pci.ParseAddress(there.String())
		if err != nil {
			return fmt.Errorf("the device %s at the destination is not a PCI device: %w", there, err)
		}
		for name, value := range map[string]string{"domain": fmt.Sprintf("0x%04x", at.Domain),
			"bus": fmt.Sprintf("0x%02x", at.Bus), "slot": fmt.Sprintf("0x%02x", at.Slot),
			"function": fmt.Sprintf("0x%x", at.Func)} {
			source.setAttr(name, value)
		}
	}
	return nil
}

// hexDigits returns a number of libvirt's XML without 0x.
func hexDigits(n *node, name string) string { return strings.TrimPrefix(n.attr(name), "0x") }
