package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// addDiskImages adds to the capacity what the disks can become.
func addDiskImages(images Images, c *hypervisor.Capacity) {
	if images == nil {
		c.NoDiskImages = "its agent has no image service; configure [glance]"
		return
	}
	if c.NoDiskImages = images.NoUploads(); c.NoDiskImages == "" {
		c.DiskImages = "qcow2"
	}
}

// exportDisk copies a disk, with all disks below it and without its blank parts, to a file that exists completely or
// not at all. fresh is false if the file exists already and the disk has not changed since.
func exportDisk(ctx context.Context, images Images, g hypervisor.Guest, disk, file string) (fresh bool,
	err error) {
	status, err := os.Stat(disk)
	if errors.Is(err, fs.ErrNotExist) {
		return false, fault.New(fault.NotFound, "the disk %s of the guest %s does not exist", disk, g.ID)
	}
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, err)
	}
	if copied, err := os.Stat(file); err == nil && !copied.ModTime().Before(status.ModTime()) {
		return false, nil
	}
	others, err := match(filepath.Dir(file), shelvedPrefix+"*") // of shelvings that were given up
	for _, other := range others {
		err = errors.Join(err, os.Remove(other))
	}
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, err)
	}
	return true, convertDisk(ctx, images, g, disk, file)
}

// convertDisk copies the disk of a guest that does not run to a file that exists completely or not at all.
func convertDisk(ctx context.Context, images Images, g hypervisor.Guest, disk, file string) error {
	err := restoreBase(ctx, images, disk, g)
	if err != nil {
		return err
	}
	unfinished := file + datafile.Unfinished
	if err = qemuImg(ctx, "convert", "-q", "-f", "qcow2", "-O", "qcow2", disk, unfinished); err == nil {
		err = datafile.Complete(file)
	}
	if err != nil {
		_ = os.Remove(unfinished) // an incomplete file is useless and may fill the disk
		kind := fault.Unavailable
		if ctx.Err() == nil && strings.Contains(err.Error(), "No space left") {
			kind = fault.Conflict
		}
		return fault.New(kind, "the disk of the guest %s cannot be copied to %s: %w", g.ID, file, err)
	}
	return nil
}

// restoreDisk makes a guest's disk from the data of an image, in full: the image is deleted when the guest runs.
func restoreDisk(ctx context.Context, images Images, g hypervisor.Guest, file string) error {
	if images == nil {
		return fault.New(fault.Conflict, "the image %s with the disk of the guest %s cannot be read: the host has no "+
			"image service; configure [glance]", g.DiskImage, g.ID)
	}
	base, err := images.Get(ctx, g.DiskImage)
	if err != nil {
		return err
	}
	err = qemuImg(ctx, "convert", "-q", "-f", string(base.Format), "-O", "qcow2", base.Path, file)
	if want := int64(g.DiskGB) << 30; err == nil && want > base.VirtualSize {
		err = qemuImg(ctx, "resize", "-q", "-f", "qcow2", file, fmt.Sprint(want))
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the disk of the guest %s cannot be made from the image %s: %w", g.ID,
			g.DiskImage, err)
	}
	return nil
}
