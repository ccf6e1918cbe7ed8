package libvirt

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/fault"
)

// withNames returns the host with the names of the devices that a guest does not get as PCI devices. They are read each
// time, because the kernel gives them when a driver is bound. A device without a name is missing in the result.
func (d *Driver) withNames(host domainxml.Host, g hypervisor.Guest) (domainxml.Host, error) {
	host.Names = maps.Clone(host.Names)
	for _, i := range g.Interfaces {
		if !domainxml.HasName(i) {
			continue
		}
		name, err := nameOf(d.o.Sysfs, i)
		if err != nil {
			return host, fault.New(fault.Unavailable, "the name of the device %s of port %s cannot be "+
				"read: %w", i.Device, i.Port, err)
		}
		if host.Names == nil {
			host.Names = map[device.ID]string{}
		}
		host.Names[i.Device] = name
	}
	return host, nil
}

// nameOf returns the network interface of a VF, or for a port of the type vdpa the path of its character device; empty:
// it has none.
func nameOf(sysfs fs.FS, i hypervisor.Interface) (string, error) {
	dir := path.Join("bus/pci/devices", i.Device.String())
	if i.VNIC != "vdpa" {
		name, err := firstEntry(sysfs, path.Join(dir, "net"), "")
		return name, err
	}
	carried, err := firstEntry(sysfs, dir, "vdpa")
	if carried == "" || err != nil {
		return "", err
	}
	name, err := firstEntry(sysfs, path.Join(dir, carried), "vhost-vdpa-")
	if name == "" || err != nil {
		return "", err
	}
	return "/dev/" + name, nil
}

// firstEntry returns the first directory with a prefix in another one; empty: there is none.
func firstEntry(sysfs fs.FS, dir, prefix string) (string, error) {
	entries, err := fs.ReadDir(sysfs, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) && entry.IsDir() {
			return entry.Name(), nil
		}
	}
	return "", err
}
