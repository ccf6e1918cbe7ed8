package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// path returns the path of a file or directory of the driver.
func (d directory) path(elements ...string) string {
	return filepath.Join(append([]string{d.o.Dir}, elements...)...)
}

// allDirs returns patterns of the directories of all hosts that share instances_path, as far as their guests are there.
func (d directory) allDirs() []string {
	return []string{d.root(), filepath.Join(d.root(), ownPrefix+"*")}
}

// root returns instances_path, which has the directories of all hosts that share it.
func (d directory) root() string { return cmp.Or(d.o.root, d.o.Dir) }

// contains reports whether a path is below instances_path, and exists there.
func (d directory) contains(path string) bool {
	_, err := os.Stat(path)
	return err == nil && strings.HasPrefix(filepath.Clean(path), filepath.Clean(d.root())+"/")
}

// lowerPrefix is that of the names of files below the disk of a guest that has moved in a shared directory. A disk
// names the file below it without a directory, because both get further names in the directory of the next host.
const lowerPrefix = "lower-"

// diskName returns the file name of a guest's disk. A rebuilt guest has another disk.
func diskName(build int) string { return fmt.Sprintf("disk-%d.qcow2", build) }

// nvramName returns the file name of the NVRAM of a guest with UEFI, with or without secure boot.
func nvramName(build int, secure bool) string {
	if secure {
		return fmt.Sprintf("nvram-%d-secure.fd", build)
	}
	return fmt.Sprintf("nvram-%d.fd", build)
}

// filesOf returns the files of a guest. The names contain no text of a user.
func (d directory) filesOf(domain uuid.UUID, g hypervisor.Guest) domainxml.Files {
	files := domainxml.Files{ConsoleLog: d.path(domain.String(), "console.log"),
		ConfigDrive: d.path(domain.String(), "config.iso")}
	if g.DiskGB > 0 || g.Image != "" {
		files.Disk = d.path(domain.String(), diskName(g.Build))
	}
	return files
}

// makeDir makes the directory of the guests, or of one of them. Others may pass through it, because QEMU runs as
// another user.
func (d directory) makeDir(name string) error {
	if err := os.MkdirAll(d.path(name), 0o711); err != nil {
		return fault.New(fault.Unavailable, "libvirt.makeDir", "the directory for guests cannot be made: %w; set [DEFAULT] "+
			"instances_path to a writable directory", err)
	}
	return nil
}

// makeFiles makes the files that the guest does not have yet. A file exists completely or not at all. places are the
// PCI addresses of the guest's interfaces, by port. kept: the guest has had its disk and its NVRAM, which are not made
// again; the fault is Conflict if they are missing.
func (d *Driver) makeFiles(ctx context.Context, domain uuid.UUID, g hypervisor.Guest, kept bool,
	places map[string]string) error {
	files := d.filesOf(domain, g)
	disk := files.Disk
	_, missing := os.Stat(disk)
	if disk != "" && kept && errors.Is(missing, fs.ErrNotExist) {
		return fault.New(fault.Conflict, "libvirt.makeFiles", "the disk %s of the guest %s is missing, and the guest gets "+
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
		return fault.Wrap(fault.Unavailable, "libvirt.makeFiles", missing)
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
		return fault.Wrap("", "libvirt.makeFiles", err)
	}
	return nil
}

// makeDisk makes the disk of a guest in a file.
func makeDisk(ctx context.Context, d *Driver, g hypervisor.Guest, file string) error {
	if g.DiskImage != "" {
		return restoreDisk(ctx, d.o.Images, g, file)
	}
	arguments, err := d.diskArguments(ctx, g, file)
	if err != nil {
		return err
	}
	if err := qemuImg(ctx, arguments...); err != nil {
		return fault.New(fault.Unavailable, "libvirt.makeFiles", "the disk of the guest %s cannot be made: %w", g.ID, err)
	}
	return nil
}

// writeConfigDrive writes the config drive of a guest. A guest that runs keeps the one with which it was started.
func (d *Driver) writeConfigDrive(ctx context.Context, path string, g hypervisor.Guest,
	places map[string]string) error {
	const op = "libvirt.writeConfigDrive"
	var s configdrive.Server
	if d.o.FirstBoot != nil {
		var err error
		if s, err = d.o.FirstBoot(ctx, cmp.Or(g.Server, g.ID)); err != nil {
			kind := fault.Unavailable
			if fault.Is(err, fault.NotFound) {
				kind = fault.NotFound
			}
			return fault.New(kind, op, "what the guest %s reads when it boots is not available: %w", g.ID, err)
		}
	}
	s.ID, s.Name = cmp.Or(g.Server, g.ID), g.Name
	s.Interfaces = describeInterfaces(g.Interfaces, s.Interfaces, places)
	drive, err := configdrive.Make(s)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	if err = datafile.Replace(path, drive); err != nil {
		return fault.New(fault.Unavailable, op, "the config drive of the guest %s cannot be written: %w", g.ID, err)
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
func (d *Driver) diskArguments(ctx context.Context, g hypervisor.Guest, file string) ([]string, error) {
	const op = "libvirt.makeFiles"
	create := []string{"create", "-q", "-f", "qcow2"}
	if g.Image == "" {
		return append(create, file, fmt.Sprintf("%dG", g.DiskGB)), nil
	}
	if d.o.Images == nil {
		return nil, fault.New(fault.Conflict, op, "the guest %s cannot have the image %s: the host has no images", g.ID,
			g.Image)
	}
	base, err := d.o.Images.Get(ctx, g.Image)
	if err != nil {
		return nil, err
	}
	size := int64(g.DiskGB) << 30
	switch {
	case size == 0:
		size = base.VirtualSize
	case size < base.VirtualSize:
		return nil, fault.New(fault.Conflict, op, "the image %s has a disk of %d bytes, and the flavor has one of %d GiB; "+
			"choose a flavor with a larger disk", g.Image, base.VirtualSize, g.DiskGB)
	}
	create = append(create, "-F", string(base.Format), "-b", base.Path, file, fmt.Sprint(size))
	return create, recordBase(filepath.Dir(file), g.Build, base)
}

// qemuImg runs qemu-img. The error has what it printed.
func qemuImg(ctx context.Context, arguments ...string) error {
	out, err := exec.CommandContext(ctx, "qemu-img", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("qemu-img %s: %w: %s", arguments[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// removeDisk removes the disk and the NVRAM of a guest's build, if they exist.
func (d directory) removeDisk(domain uuid.UUID, g hypervisor.Guest) error {
	var err error
	for _, name := range namesOf(g.Build) {
		err = errors.Join(err, remove(d.path(domain.String(), name)))
	}
	return fault.Wrap(fault.Unavailable, "libvirt.removeDisk", err)
}

// namesOf returns the names of the files that a build of a guest can have and another one does not.
func namesOf(build int) []string {
	return []string{diskName(build), nvramName(build, false), nvramName(build, true)}
}

// removeOldDisks removes the disks and the NVRAMs of earlier builds.
func (d directory) removeOldDisks(domain uuid.UUID, g hypervisor.Guest) error {
	disks, err := filepath.Glob(d.path(domain.String(), "disk-*.qcow2*"))
	nvrams, _ := filepath.Glob(d.path(domain.String(), "nvram-*.fd*"))  // the patterns are valid
	lower, _ := filepath.Glob(d.path(domain.String(), lowerPrefix+"*")) // which a new disk does not have
	for _, file := range slices.Concat(disks, nvrams, lower) {
		if !slices.Contains(namesOf(g.Build), filepath.Base(file)) {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return fault.Wrap(fault.Unavailable, "libvirt.removeOldDisks", err)
}

// removeFiles removes the files of a guest, and its record last.
func (d directory) removeFiles(domain uuid.UUID) error {
	dir := d.path(domain.String())
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.Name() != recordName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "libvirt.removeFiles", "the files of a guest cannot be removed: %w", err)
	}
	return nil
}

// hasDisk reports whether the directory of a domain has a disk.
func (d directory) hasDisk(domain uuid.UUID) bool {
	disks, _ := filepath.Glob(d.path(domain.String(), "disk-*.qcow2")) // the pattern is valid
	return len(disks) > 0
}

// removeUnfinished removes what an interrupted build or removal has left in the directory of a new domain. The fault is
// Conflict if the directory has a disk of which this host has recorded nothing, or that of a guest that was complete or
// may have arrived by live migration; incoming: its guest runs on another host.
func (d directory) removeUnfinished(domain uuid.UUID, incoming bool) error {
	record, err := d.readRecord(domain)
	unfinished := err == nil && d.unfinished(record) ||
		err == nil && incoming && record.Incoming && !record.Made && record.Host == d.o.Host
	if !unfinished && d.hasDisk(domain) {
		return fault.New(fault.Conflict, "libvirt.Build", "the directory %s has the disk of a guest that is not known, and "+
			"it is not replaced by a new one; move it away if it is not needed", d.path(domain.String()))
	}
	return d.removeFiles(domain)
}

// unfinished reports whether a record says that the files beside it are not needed: they were never complete, or are
// being removed.
func (d directory) unfinished(record domainxml.Guest) bool {
	return record.Host == d.o.Host && (record.Removing || !record.Made && !record.Incoming)
}

// removeUnlisted removes the files of a guest that is not listed. A disk stays, unless the record of this guest says
// that it is not needed: Destroy is also called after a Build that has refused to replace a disk.
func (d directory) removeUnlisted(domain uuid.UUID, guest string) error {
	record, err := d.readRecord(domain)
	if d.hasDisk(domain) && (err != nil || record.ID != guest || !d.unfinished(record)) {
		d.o.Log.Warn("disk of a guest that is not known left alone", "guest", guest, "directory", d.path(domain.String()))
		return nil
	}
	if err := d.checkRemovable(domain); err != nil {
		return err
	}
	return d.removeFiles(domain)
}

// leftDisks returns a sentence for each directory with a disk that belongs to no guest, and that is not removed because
// its record does not allow that. used are the domains of this host. Damaged records have findings of their own.
func (d directory) leftDisks(used map[uuid.UUID]bool) (findings []string, err error) {
	entries, err := os.ReadDir(d.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "libvirt.list", "the directory of guests cannot be read: %w", err)
	}
	for _, entry := range entries {
		id, err := uuid.Parse(entry.Name())
		if err != nil || id.String() != entry.Name() || used[id] || !d.hasDisk(id) {
			continue
		}
		record, err := d.readRecord(id)
		why := ""
		switch {
		case errors.Is(err, fs.ErrNotExist):
			why = "and no record of a guest"
		case err == nil && record.Host != d.o.Host:
			why = fmt.Sprintf("of a guest of host %q", record.Host)
		case err == nil && record.Incoming && !record.Removing:
			why = "of a guest that may have arrived by live migration, and libvirt does not have it"
		default:
			continue
		}
		findings = append(findings, fmt.Sprintf("the directory %s has a disk %s, so it is left alone; move it away if it is "+
			"not needed", d.path(entry.Name()), why))
	}
	return findings, nil
}
