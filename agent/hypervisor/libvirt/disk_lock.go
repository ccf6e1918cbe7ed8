package libvirt

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// QEMU locks parts of each image that it uses, with locks of the open file description; qemu-img does the same. These
// are the bytes of QEMU's permissions, of those that it has and of those that it refuses to others.
const (
	lockStart = 100
	lockBytes = 200

	getFileLock = 36 // F_OFD_GETLK of Linux
)

// checkUnused returns fault.Unavailable if a program uses a disk of a guest that does not run for libvirt: its QEMU may
// still run, as after libvirt has lost its definitions. A second QEMU would destroy the file systems of the guest.
func (d directory) checkUnused(domain uuid.UUID) error { return d.checkFiles(domain, false) }

// checkRemovable is checkUnused for files that are about to be removed. A disk that has a further name does not count:
// its guest has moved to another host with the same directory, which uses it under that name.
func (d directory) checkRemovable(domain uuid.UUID) error { return d.checkFiles(domain, true) }

func (d directory) checkFiles(domain uuid.UUID, removing bool) error {
	files, err := match(d.path(domain.String()), "disk-*.qcow2")
	if err != nil {
		return err
	}
	for _, file := range append(files, d.path(domain.String(), "config.iso")) {
		if removing && names(file) > 1 {
			continue
		}
		used, err := isLocked(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return fault.New(fault.Unavailable, "whether %s is in use cannot be determined: %w", file, err)
		}
		if used {
			return fault.New(fault.Unavailable, "another program uses %s: maybe QEMU still runs the guest, and this "+
				"libvirt does not know that; %s", file, user(domain))
		}
	}
	return nil
}

// names returns how many names a file has in its file system; 0: it cannot be read.
func names(path string) uint64 {
	status, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return uint64(status.Sys().(*syscall.Stat_t).Nlink)
}

// isLocked reports whether another program has locked an image as QEMU does.
func isLocked(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: lockStart, Len: lockBytes}
	if err := syscall.FcntlFlock(file.Fd(), getFileLock, &lock); err != nil {
		return false, err
	}
	return lock.Type != syscall.F_UNLCK, nil
}

// user returns what to do about the program that uses the disk of a domain, with the id of its process if it is QEMU.
func user(domain uuid.UUID) string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(text), "qemu") && strings.Contains(string(text), domain.String()) {
			return fmt.Sprintf("end the process %s if the guest may stop", filepath.Base(filepath.Dir(line)))
		}
	}
	return "find it with fuser, and end it if the guest may stop"
}
