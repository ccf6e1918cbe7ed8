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

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// path returns the path of a file or directory of the driver.
func (d directory) path(elements ...string) string {
	return filepath.Join(append([]string{d.o.Dir}, elements...)...)
}

// allDirs returns the directories of all hosts that share instances_path, as far as their guests are there.
func (d directory) allDirs() ([]string, error) {
	others, err := match(d.root(), ownPrefix+"*")
	return append(others, d.root()), err
}

// match returns the paths of the files in a directory whose names match a pattern; none if the directory does not
// exist. filepath.Glob would ignore a directory that cannot be read, and take characters of its path for a pattern: a
// disk that exists would count as missing, and an image in use as unused.
func match(dir, pattern string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the directory %s cannot be read: %w", dir, err)
	}
	for _, one := range entries {
		if is, _ := filepath.Match(pattern, one.Name()); is { // the patterns are valid
			files = append(files, filepath.Join(dir, one.Name()))
		}
	}
	return files, nil
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

// The prefixes of the names of files with copies of a guest's disk; the id of an image follows.
const (
	copyPrefix    = "copy-"    // of a guest that stays
	shelvedPrefix = "shelved-" // of a guest that is shelved
)

// uploads returns the image for which the directory of a domain has a copy of the disk, or a part of one; empty: none.
func uploads(d directory, domain uuid.UUID) string {
	files, _ := copiesOf(d, domain) // of a directory that cannot be read now, the next list has them
	if len(files) == 0 {
		return ""
	}
	_, name, _ := strings.Cut(filepath.Base(files[0]), "-")
	image, _, _ := strings.Cut(name, ".")
	return image
}

// frozenSuffix ends the name of the mark beside a copy: the file systems of the guest may be frozen for it.
const frozenSuffix = ".frozen"

// quiescedSuffix ends the name of the mark beside a copy of a disk whose file systems were frozen.
const quiescedSuffix = ".quiesced"

// copiesOf lists the files of copies of a disk, without the mark of a guest that may be frozen: it stays until the
// guest is not frozen.
func copiesOf(d directory, domain uuid.UUID) ([]string, error) {
	copies, err := match(d.path(domain.String()), copyPrefix+"*")
	shelved, failed := match(d.path(domain.String()), shelvedPrefix+"*")
	files, err := slices.Concat(copies, shelved), errors.Join(err, failed)
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, frozenSuffix) }), err
}

// filesOf returns the files of a guest. The names contain no text of a user.
func (d directory) filesOf(domain uuid.UUID, g hypervisor.Guest) domainxml.Files {
	files := domainxml.Files{ConsoleLog: d.path(domain.String(), "console.log"),
		ConfigDrive: d.path(domain.String(), "config.iso")}
	if g.DiskGB > 0 || g.Image != "" {
		files.Disk = d.path(domain.String(), diskName(g.Build))
	}
	if g.Rescue != "" {
		files.Rescue = d.path(domain.String(), rescueName)
	}
	return files
}

// rescueName is the file name of the disk that a guest boots that is rescued.
const rescueName = "rescue.qcow2"

// makeDir makes the directory of the guests, or of one of them. Others may pass through it, because QEMU runs as
// another user.
func (d directory) makeDir(name string) error {
	for _, path := range []string{d.path(name), d.path(), d.root()} {
		if err := datafile.MakePassable(path); err != nil {
			return fault.New(fault.Unavailable, "the directory for guests cannot be made: %w; set [DEFAULT] "+
				"instances_path to a writable directory", err)
		}
	}
	return nil
}

// qemuImg runs qemu-img. The error has what it printed.
func qemuImg(ctx context.Context, arguments ...string) error {
	out, err := exec.CommandContext(ctx, "qemu-img", arguments...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fault.New(fault.Unavailable, "the program qemu-img is not installed; install the package qemu-utils")
	}
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
	return fault.Wrap(fault.Unavailable, err)
}

// namesOf returns the names of the files that a build of a guest can have and another one does not.
func namesOf(build int) []string {
	return []string{diskName(build), nvramName(build, false), nvramName(build, true)}
}

// removeOldDisks removes the disks and the NVRAMs of earlier builds.
func (d directory) removeOldDisks(domain uuid.UUID, g hypervisor.Guest) error {
	var err error
	// A new disk has no lower ones.
	for _, pattern := range []string{"disk-*.qcow2*", "nvram-*.fd*", lowerPrefix + "*"} {
		files, failed := match(d.path(domain.String()), pattern)
		err = errors.Join(err, failed)
		for _, file := range files {
			if !slices.Contains(namesOf(g.Build), filepath.Base(file)) {
				err = errors.Join(err, os.Remove(file))
			}
		}
	}
	return fault.Wrap(fault.Unavailable, err)
}

// hasDisk reports whether the directory of a domain has a disk.
func (d directory) hasDisk(domain uuid.UUID) (bool, error) {
	disks, err := match(d.path(domain.String()), "disk-*.qcow2")
	return len(disks) > 0, err
}

// remove removes a file, if it exists.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
