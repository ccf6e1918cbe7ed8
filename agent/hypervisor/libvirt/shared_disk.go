package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// A guest that moves cold between hosts with one directory gets no copy of its disk. Its new disk is an overlay, and
// the file below it is the disk of the source under a further name, in the directory of the new guest. So the disk at
// the source does not change and returns with a revert, and it remains under its further name when the source removes
// the guest.

// maxLower is how many files may be below a disk. The next move copies the disk, and merges them.
const maxLower = 4

// sharedDisk is a disk of another host that this host sees under the same path.
type sharedDisk struct {
	path  string   // of the disk
	lower []string // names of the files below it in its directory, the uppermost first
	image string   // path of the image below them; empty: none
	size  int64    // virtual, in bytes
}

// inspectShared returns the files of a disk. ok is false if they are not all beside the disk, except the image.
func inspectShared(disk string) (s sharedDisk, ok bool, err error) {
	s.path = disk
	if s.size, err = virtualSize(disk); err != nil {
		return s, false, err
	}
	for at := disk; ; at = filepath.Join(filepath.Dir(disk), s.lower[len(s.lower)-1]) {
		below, err := backingFile(at)
		switch {
		case err != nil:
			return s, false, fault.Wrap(fault.Unavailable, err)
		case below == "":
			return s, true, nil
		case filepath.IsAbs(below):
			s.image = below
			return s, filepath.Dir(below) != filepath.Dir(disk), nil
		case filepath.Base(below) != below || len(s.lower) == maxLower:
			return s, false, nil
		}
		s.lower = append(s.lower, below)
	}
}

// linkSuffix is that of the further name of a shared disk until its new guest has its directory.
const linkSuffix = ".link"

// place gives a guest that is not defined yet its disk: an overlay of the shared one, which has the name link, too. The
// fault is Unavailable if the guest runs at the source.
func (s *sharedDisk) place(ctx context.Context, link, dir string, g hypervisor.Guest) error {
	top := lowerPrefix + uuid.NewString() + ".qcow2"
	err := os.Link(link, filepath.Join(dir, top))
	if err = errors.Join(err, s.link(dir)); err != nil {
		return fault.New(fault.Unavailable, "the disk %s does not get a further name in %s: %w", s.path, dir, err)
	}
	if used, err := isLocked(filepath.Join(dir, top)); err != nil || used {
		return fault.New(fault.Unavailable, "a program uses the disk %s, maybe the QEMU of the guest on its former "+
			"host: %w; stop the guest there", s.path, errors.Join(os.ErrExist, err))
	}
	disk := filepath.Join(dir, diskName(g.Build))
	err = qemuImg(ctx, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", top, disk+datafile.Unfinished,
		fmt.Sprint(max(s.size, int64(g.DiskGB)<<30)))
	if err == nil {
		err = datafile.Complete(disk)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the disk of the guest %s cannot be made: %w", g.ID, err)
	}
	return nil
}

// link gives the files below a disk further names in a directory.
func (s *sharedDisk) link(dir string) error {
	for _, name := range s.lower {
		from, to := filepath.Join(filepath.Dir(s.path), name), filepath.Join(dir, name)
		if err := os.Link(from, to); err != nil && !(errors.Is(err, fs.ErrExist) && sameFile(from, to)) {
			return err
		}
	}
	return nil
}

// virtualSize returns the size of a qcow2 disk as a guest sees it, in bytes. The fault is Conflict for another file.
func virtualSize(disk string) (int64, error) {
	file, err := os.Open(disk)
	if err != nil {
		return 0, fault.Wrap(fault.Unavailable, err)
	}
	defer file.Close()
	head := make([]byte, 32) // with the virtual size at its end
	if _, err := file.ReadAt(head, 0); err != nil || string(head[:4]) != "QFI\xfb" {
		return 0, fault.New(fault.Conflict, "the disk %s is not a qcow2 file; convert it on its host", disk)
	}
	return int64(binary.BigEndian.Uint64(head[24:])), nil
}
