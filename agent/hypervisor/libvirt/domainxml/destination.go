package domainxml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"

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
		return "", err
	}
	to, err := parseTree(there)
	if err != nil {
		return "", err
	}
	metadata, err := EncodeGuest(g)
	if err != nil {
		return "", err
	}
	own, err := parseTree(metadata)
	if err != nil {
		return "", err
	}
	all := first(from.Root(), "metadata")
	for _, one := range slices.DeleteFunc(all.ChildElements(), isNotGuest) {
		all.RemoveChild(one)
	}
	all.AddChild(own.Root())
	replace(from.Root(), to.Root(), "cputune", "numatune")
	err = moveFirmware(first(from.Root(), "os"), first(to.Root(), "os"))
	for _, step := range []func(from, to *etree.Element) error{moveDisks, moveInterfaces, moveLogs} {
		if err == nil {
			err = step(first(from.Root(), "devices"), first(to.Root(), "devices"))
		}
	}
	if err == nil {
		err = moveDevices(first(from.Root(), "devices"), devices)
	}
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err)
	}
	text, err := from.WriteToString()
	return text, fault.Wrap(fault.Internal, err)
}

// parseTree returns a document, which keeps what libvirtxml does not know. It is written with all characters that an
// XML parser would change as references.
func parseTree(text string) (*etree.Document, error) {
	d := etree.NewDocument()
	d.WriteSettings = etree.WriteSettings{CanonicalAttrVal: true, CanonicalText: true, CanonicalEndTags: true}
	err := d.ReadFromString(text)
	if err == nil && d.Root() == nil {
		err = errors.New("it has no element")
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "the document is not complete: %w", err)
	}
	return d, nil
}

// first returns the first descendant on a path of names, or an empty element.
func first(of *etree.Element, path ...string) *etree.Element {
	for _, name := range path {
		of = of.SelectElement(name).NotNil()
	}
	return of
}

// replace removes the children with one of these names, and appends those of another element.
func replace(of, from *etree.Element, names ...string) {
	remove(of, names...)
	for _, name := range names {
		for _, one := range from.SelectElements(name) {
			of.AddChild(one.Copy())
		}
	}
}

// remove removes the children with one of these names.
func remove(of *etree.Element, names ...string) {
	for _, name := range names {
		for _, one := range of.SelectElements(name) {
			of.RemoveChild(one)
		}
	}
}

// isNotGuest reports whether an element is not the metadata of Berth.
func isNotGuest(e *etree.Element) bool {
	return !slices.ContainsFunc(e.Attr, func(a etree.Attr) bool {
		return a.Value == Namespace && (a.Space == "xmlns" || a.Key == "xmlns")
	})
}

// moveFirmware replaces the files of UEFI firmware. Secure boot cannot begin or end while the guest runs.
func moveFirmware(from, to *etree.Element) error {
	if from.SelectElement("nvram") == nil {
		return nil
	}
	here, there := attr(first(from, "loader"), "secure"), attr(first(to, "loader"), "secure")
	if to.SelectElement("nvram") == nil || (here == "yes") != (there == "yes") {
		return fmt.Errorf("the destination has not prepared the same firmware: secure boot is %q here and %q there; "+
			"migrate the server cold", cmp.Or(here, "no"), cmp.Or(there, "no"))
	}
	replace(from, to, "loader", "nvram")
	return nil
}

// attr returns the value of an attribute, or an empty text.
func attr(of *etree.Element, name string) string { return of.SelectAttrValue(name, "") }

// withAttr returns the first element whose child has an attribute with a value; nil: there is none.
func withAttr(all []*etree.Element, child, name, value string) *etree.Element {
	i := slices.IndexFunc(all, func(e *etree.Element) bool { return attr(first(e, child), name) == value })
	if i < 0 {
		return nil
	}
	return all[i]
}

// moveDisks replaces the files of disks. What libvirt knows about their backing files is dropped.
func moveDisks(from, to *etree.Element) error {
	for _, disk := range from.SelectElements("disk") {
		name := attr(first(disk, "target"), "dev")
		there := withAttr(to.SelectElements("disk"), "target", "dev", name)
		if there == nil {
			return fmt.Errorf("the destination has not prepared the disk %s", name)
		}
		remove(disk, "backingStore", "mirror")
		replace(disk, there, "source")
	}
	return nil
}

// moveInterfaces replaces what interfaces are attached to.
func moveInterfaces(from, to *etree.Element) error {
	for _, one := range from.SelectElements("interface") {
		mac := attr(first(one, "mac"), "address")
		there := withAttr(to.SelectElements("interface"), "mac", "address", mac)
		if there == nil {
			return fmt.Errorf("the destination has not prepared the interface %s", mac)
		}
		one.CreateAttr("type", attr(there, "type"))
		replace(one, there, "source", "virtualport", "target", "vlan")
	}
	return nil
}

// moveLogs replaces the files that keep the output of serial ports.
func moveLogs(from, to *etree.Element) error {
	for _, log := range append(from.FindElements("serial/log"), from.FindElements("console/log")...) {
		file := attr(first(to, "serial", "log"), "file")
		if file == "" {
			return fmt.Errorf("the destination has not prepared the log of the serial console")
		}
		log.CreateAttr("file", file)
	}
	return nil
}

// moveDevices replaces the PCI devices.
func moveDevices(from *etree.Element, devices map[device.ID]device.ID) error {
	for _, source := range from.FindElements("hostdev/source/address") {
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
			source.CreateAttr(name, value)
		}
	}
	return nil
}

// hexDigits returns a number of libvirt's XML without 0x.
func hexDigits(of *etree.Element, name string) string {
	return strings.TrimPrefix(attr(of, name), "0x")
}
