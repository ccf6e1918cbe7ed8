package libvirt

import (
	"context"
	"fmt"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
)

// pausedGuests returns a remark for each guest that runs no instruction although it should. QEMU pauses a
// guest when its disk cannot be written and when its CPU fails, as with the KVM of some virtual machines; an
// administrator may do it, too. Such a guest stays as it is, because it continues when the cause is gone.
func pausedGuests(ctx context.Context, d directory, c *rpc.Client) (out hypervisor.Remarks, err error) {
	domains, err := c.Domains(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range domains {
		id, own := domainxml.GuestOf(one.Name)
		if !own || one.ID < 0 {
			continue
		}
		state, reason, err := c.State(ctx, one)
		if fault.Is(err, fault.NotFound) {
			continue // it was undefined meanwhile
		}
		if err != nil {
			return nil, err
		}
		record, err := d.readRecord(one.UUID)
		if err == nil && record.Paused { // its user has paused it
			continue
		}
		if why := pauseOf(state, reason); why != "" {
			out = append(out, hypervisor.Remark{Subject: id, Text: fmt.Sprintf("the guest %s is paused: %s", id, why)})
		}
	}
	return out, nil
}

// pauseOf returns why a domain is paused, and what to do, or nothing if it is not paused or for a moment only.
func pauseOf(state rpc.State, reason int) string {
	if state != rpc.Paused {
		return ""
	}
	switch reason {
	case rpc.PausedByUser:
		return "with libvirt, such as by `virsh suspend`; `virsh resume` continues it"
	case rpc.PausedByDisk:
		return "its disk cannot be read or written; correct that, and continue it by `virsh resume`"
	case rpc.PausedByQEMU, rpc.PausedByCrash:
		return "its CPU or its kernel has failed; if its log in /var/log/libvirt/qemu names KVM, set [libvirt] virt_type = " +
			"qemu and rebuild the server"
	}
	return ""
}

// progress returns which images are downloaded or uploaded, a sentence each. It is in tenths of the size, so that the
// report of the host seldom changes.
func progress(downloads []imagecache.Download) (all []hypervisor.Transfer) {
	for _, d := range downloads {
		text := "the image %s is being downloaded: %s"
		if d.Upload {
			text = "a disk is being uploaded as the image %s: %s"
		}
		all = append(all, hypervisor.Transfer{Subject: d.Image, Text: fmt.Sprintf(text, d.Image, tenths(d.Bytes, d.Size))})
	}
	return all
}

// tenths returns how much of a size is done, in MiB and rounded down to a tenth of the size.
func tenths(done, size int64) string {
	if size <= 0 {
		return "of unknown size"
	}
	done = done * 10 / size * size / 10
	return fmt.Sprintf("%d of %d MiB", done>>20, (size+1<<20-1)>>20)
}
