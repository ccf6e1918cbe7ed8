package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/fault"
)

// path returns the path of a file or directory of the driver.
func (d *Driver) path(elements ...string) string {
	return filepath.Join(append([]string{d.o.Dir}, elements...)...)
}

// diskName returns the file name of a guest's disk. A rebuilt guest has another disk.
func diskName(build int) string { return fmt.Sprintf("disk-%d.qcow2", build) }

// filesOf returns the files of a guest. The names contain no text of a user.
func (d *Driver) filesOf(domain uuid.UUID, g hypervisor.Guest) domainxml.Files {
	files := domainxml.Files{ConsoleLog: d.path(domain.String(), "console.log")}
	if g.DiskGB > 0 || g.Image != "" {
		files.Disk = d.path(domain.String(), diskName(g.Build))
	}
	return files
}

// makeDir makes the directory of the guests, or of one of them. Others may pass through it, because QEMU runs as
// another user.
func (d *Driver) makeDir(name string) error {
	if err := os.MkdirAll(d.path(name), 0o711); err != nil {
		return fault.New(fault.Unavailable, "libvirt.makeDir", "the directory for guests cannot be made: %w; set [DEFAULT] "+
			"instances_path to a writable directory", err)
	}
	return nil
}

// makeFiles makes the files that the guest does not have yet. A file exists completely or not at all.
func (d *Driver) makeFiles(ctx context.Context, domain uuid.UUID, g hypervisor.Guest) error {
	if err := d.makeDir(domain.String()); err != nil {
		return err
	}
	disk := d.filesOf(domain, g).Disk
	if disk == "" {
		return nil
	}
	if _, err := os.Stat(disk); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Unavailable, "libvirt.makeFiles", err)
	}
	unfinished := disk + ".new"
	err := qemuImg(ctx, "create", "-q", "-f", "qcow2", unfinished, fmt.Sprintf("%dG", g.DiskGB))
	if err == nil {
		err = os.Rename(unfinished, disk)
	}
	if err != nil {
		_ = os.Remove(unfinished) // an incomplete file is useless and may fill the disk
		return fault.New(fault.Unavailable, "libvirt.makeFiles", "the disk of the guest %s cannot be made: %w", g.ID, err)
	}
	return nil
}

// qemuImg runs qemu-img. The error has what it printed.
func qemuImg(ctx context.Context, arguments ...string) error {
	out, err := exec.CommandContext(ctx, "qemu-img", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("qemu-img %s: %w: %s", arguments[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// removeOldDisks removes the disks of earlier builds.
func (d *Driver) removeOldDisks(domain uuid.UUID, g hypervisor.Guest) error {
	disks, err := filepath.Glob(d.path(domain.String(), "disk-*.qcow2*"))
	for _, disk := range disks {
		if filepath.Base(disk) != diskName(g.Build) {
			err = errors.Join(err, os.Remove(disk))
		}
	}
	return fault.Wrap(fault.Unavailable, "libvirt.removeOldDisks", err)
}

// removeFiles removes the files of a guest.
func (d *Driver) removeFiles(domain uuid.UUID) error {
	if err := os.RemoveAll(d.path(domain.String())); err != nil {
		return fault.New(fault.Unavailable, "libvirt.removeFiles", "the files of a guest cannot be removed: %w", err)
	}
	return nil
}
