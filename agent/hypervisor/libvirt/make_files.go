package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// makeFiles makes the files that the guest does not have yet. A file exists completely or not at all. places are the
// PCI addresses of the guest's interfaces, by port. kept: the guest has had its disk and its NVRAM, which are not made
// again; the fault is Conflict if they are missing.
func (d *Driver) makeFiles(ctx context.Context, domain uuid.UUID, g hypervisor.Guest, kept bool,
	places map[string]string) error {
	files := d.filesOf(domain, g)
	disk := files.Disk
	_, missing := os.Stat(disk)
	if disk != "" && kept && errors.Is(missing, fs.ErrNotExist) {
		return fault.New(fault.Conflict, "the disk %s of the guest %s is missing, and the guest gets "+
			"no blank one; mount the file system or restore the file, or rebuild the server, which makes a new disk", disk, g.ID)
	}
	if err := d.makeDir(domain.String()); err != nil {
		return err
	}
	if err := d.writeConfigDrive(ctx, files.ConfigDrive, g, places); err != nil {
		return err
	}
	if err := d.makeNVRAM(domain, g, kept); err != nil {
		return err
	}
	switch {
	case disk == "" || missing == nil:
		return nil
	case !errors.Is(missing, fs.ErrNotExist):
		return fault.Wrap(fault.Unavailable, missing)
	}
	d.making.RLock()
	defer d.making.RUnlock()
	unfinished := disk + datafile.Unfinished
	err := makeDisk(ctx, d, g, unfinished)
	if err == nil {
		err = datafile.Complete(disk)
	}
	if err != nil {
		_ = os.Remove(unfinished) // an incomplete file is useless and may fill the disk
		return fault.Wrap("", err)
	}
	return nil
}

// makeDisk makes the disk of a guest in a file.
func makeDisk(ctx context.Context, d *Driver, g hypervisor.Guest, file string) error {
	if g.DiskImage != "" {
		return restoreDisk(ctx, d.o.Images, g, file)
	}
	arguments, err := diskArguments(ctx, d.o.Images, g, file)
	if err != nil {
		return err
	}
	if err := qemuImg(ctx, arguments...); err != nil {
		return fault.New(fault.Unavailable, "the disk of the guest %s cannot be made: %w", g.ID, err)
	}
	return nil
}

// writeConfigDrive writes the config drive of a guest. A guest that runs keeps the one with which it was started.
func (d *Driver) writeConfigDrive(ctx context.Context, path string, g hypervisor.Guest,
	places map[string]string) error {
	var s configdrive.Server
	if d.o.FirstBoot != nil {
		var err error
		if s, err = d.o.FirstBoot(ctx, cmp.Or(g.Server, g.ID)); err != nil {
			kind := fault.Unavailable
			if fault.Is(err, fault.NotFound) {
				kind = fault.NotFound
			}
			return fault.New(kind, "what the guest %s reads when it boots is not available: %w", g.ID, err)
		}
	}
	s.ID, s.Name = cmp.Or(g.Server, g.ID), g.Name
	s.Interfaces = describeInterfaces(g.Interfaces, s.Interfaces, places)
	drive, err := configdrive.Make(s)
	if err != nil {
		return fault.Wrap("", err)
	}
	if err = datafile.Replace(path, drive); err != nil {
		return fault.New(fault.Unavailable, "the config drive of the guest %s cannot be written: %w", g.ID, err)
	}
	return nil
}

// describeInterfaces returns the interfaces of a guest for its config drive, with what is known of their ports.
func describeInterfaces(of []hypervisor.Interface, known []configdrive.Interface,
	places map[string]string) (list []configdrive.Interface) {
	for _, i := range of {
		one := configdrive.Interface{Port: i.Port}
		at := slices.IndexFunc(known, func(k configdrive.Interface) bool { return k.Port == i.Port })
		if at >= 0 {
			one = known[at]
		}
		one.MAC, one.MTU, one.Place = i.MAC, cmp.Or(i.MTU, one.MTU), places[i.Port]
		if i.Device != (device.ID{}) {
			one.HostVLAN = i.VLAN
		}
		list = append(list, one)
	}
	return list
}

// diskArguments returns the arguments of qemu-img that make a guest's disk: blank, or an overlay of its image, which
// has been inspected. The fault is Conflict if the image is larger than the disk.
func diskArguments(ctx context.Context, images Images, g hypervisor.Guest, file string) ([]string, error) {
	create := []string{"create", "-q", "-f", "qcow2"}
	if g.Image == "" {
		return append(create, file, fmt.Sprintf("%dG", g.DiskGB)), nil
	}
	if images == nil {
		return nil, fault.New(fault.Conflict, "the guest %s cannot have the image %s: the host has no images", g.ID,
			g.Image)
	}
	base, err := images.Get(ctx, g.Image)
	if err != nil {
		return nil, err
	}
	size := int64(g.DiskGB) << 30
	switch {
	case size == 0:
		size = base.VirtualSize
	case size < base.VirtualSize:
		return nil, fault.New(fault.Conflict, "the image %s has a disk of %d bytes, and the flavor has one of %d GiB; "+
			"choose a flavor with a larger disk", g.Image, base.VirtualSize, g.DiskGB)
	}
	create = append(create, "-F", string(base.Format), "-b", base.Path, file, fmt.Sprint(size))
	return create, recordBase(filepath.Dir(file), g.Build, base)
}
