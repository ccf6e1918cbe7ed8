package libvirt

import (
	"context"
	"os"
	"syscall"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// makeRescueDisk makes the disk of a rescue image, in full, also if there is one of an earlier rescue.
func makeRescueDisk(ctx context.Context, d *Driver, g hypervisor.Guest, file string) error {
	d.making.RLock()
	defer d.making.RUnlock()
	unfinished := file + datafile.Unfinished
	from := hypervisor.Guest{ID: g.ID, DiskImage: g.Rescue}
	err := checkRescueSize(ctx, d, g)
	if err == nil {
		err = restoreDisk(ctx, d.o.Images, from, unfinished)
	}
	if err == nil {
		err = datafile.Complete(file)
	}
	if err != nil {
		_ = os.Remove(unfinished) // an incomplete file is useless and may fill the disk
	}
	return err
}

// checkRescueSize returns fault.Conflict if the disk of a rescue image is larger than what is free on the host. No
// flavor limits it, and the data of a small image may be compressed: without space all guests of the host are paused.
func checkRescueSize(ctx context.Context, d *Driver, g hypervisor.Guest) error {
	if d.o.Images == nil {
		return nil // restoreDisk refuses it
	}
	base, err := d.o.Images.Get(ctx, g.Rescue)
	if err != nil {
		return err
	}
	var system syscall.Statfs_t
	if err := syscall.Statfs(d.o.Dir, &system); err != nil {
		return fault.New(fault.Unavailable, "the free space of %s cannot be read: %w", d.o.Dir, err)
	}
	if free := int64(system.Bavail) * system.Bsize; base.VirtualSize > free {
		return fault.New(fault.Conflict, "the rescue image %s has a disk of %d bytes, and its host has %d bytes free "+
			"in [DEFAULT] instances_path; choose a smaller rescue image", g.Rescue, base.VirtualSize, free)
	}
	return nil
}
