package libvirt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/openberth/berth/fault"
)

// An operator may have made an external snapshot of a guest (`virsh snapshot-create-as --disk-only`): then the guest
// writes to another file, an overlay of the disk that the driver has made. A definition that the driver makes names its
// own disk, so a guest that got one would start with older data.

// checkSnapshots returns fault.Conflict if the current disk of a guest is not the file that a new definition would
// have. The definition that libvirt has names the current disk; without one, an overlay in the directory of the guest
// does.
func (d directory) checkSnapshots(of domain) error {
	own := d.filesOf(of.UUID, of.guest).Disk
	if own == "" {
		return nil
	}
	if !of.missing && of.guest.Lost != lostEarlier {
		now := of.xml.Disk()
		if now == "" || now == own || sameFile(now, own) {
			return nil
		}
		return fault.New(fault.Conflict, "the disk of the guest %s is %s, a snapshot that Berth has not made, and with "+
			"%s it would lose what was written since; merge them with `virsh blockcommit %s %[2]s --active --pivot` while "+
			"the guest runs, or with `qemu-img commit %[2]s` and `virsh edit` while it is stopped", of.guest.ID, now, own,
			of.Name)
	}
	overlay, err := overlayOf(own)
	if err != nil {
		return fault.New(fault.Unavailable, "the snapshots of the disk %s cannot be read: %w", own, err)
	}
	if overlay == "" {
		return nil
	}
	return fault.New(fault.Conflict, "%s is a snapshot of the disk %s of the guest %s, and without a definition it "+
		"is not known which one the guest uses; merge them with `qemu-img commit %[1]s` and move it away, or move "+
		"it away without merging if the guest does not use it", overlay, own, of.guest.ID)
}

// overlayOf returns a file beside a disk that is an overlay of it; empty: there is none.
func overlayOf(disk string) (string, error) {
	files, err := match(filepath.Dir(disk), "*")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		below, err := fileBelow(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if below == disk || below != "" && sameFile(below, disk) {
			return file, nil
		}
	}
	return "", nil
}

// sameFile reports whether two paths are of one file that exists.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
