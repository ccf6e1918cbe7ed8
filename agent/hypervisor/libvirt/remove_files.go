package libvirt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

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
		return fault.New(fault.Unavailable, "the files of a guest cannot be removed: %w", err)
	}
	return nil
}

// removeUnfinished removes what an interrupted build or removal has left in the directory of a new domain. The fault is
// Conflict if the directory has a disk of which this host has recorded nothing, or that of a guest that was complete or
// may have arrived by live migration; incoming: its guest runs on another host.
func (d directory) removeUnfinished(domain uuid.UUID, incoming bool) error {
	record, err := d.readRecord(domain)
	unfinished := err == nil && d.unfinished(record) ||
		err == nil && incoming && record.Incoming && !record.Made && record.Host == d.o.Host
	has, failed := d.hasDisk(domain)
	if failed != nil {
		return failed
	}
	if !unfinished && has {
		return fault.New(fault.Conflict, "the directory %s has the disk of a guest that is not known, and "+
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
	has, failed := d.hasDisk(domain)
	if failed != nil {
		return failed
	}
	record, err := d.readRecord(domain)
	if has && (err != nil || record.ID != guest || !d.unfinished(record)) {
		d.o.Log.Warn("disk of a guest that is not known left alone", "guest", guest, "directory", d.path(domain.String()))
		return nil
	}
	if err := d.checkRemovable(domain); err != nil {
		return err
	}
	return d.removeFiles(domain)
}

// removeLeft removes what an interrupted rebuild and a refused rescue have left of a guest that was started: the disks
// of earlier builds, and the disk of a rescue image that it does not boot. A disk that another one refers to, as after
// work of an operator, stays.
func (d directory) removeLeft(domain uuid.UUID, g hypervisor.Guest) error {
	files, err := match(d.path(domain.String()), "*")
	for build := range g.Build {
		disk := d.path(domain.String(), diskName(build))
		if !slices.Contains(files, disk) {
			continue
		}
		above, failed := overlayOf(disk)
		if failed == nil && above == "" {
			failed = d.removeDisk(domain, hypervisor.Guest{Build: build})
		}
		err = errors.Join(err, failed)
	}
	if g.Rescue == "" {
		rescue := d.path(domain.String(), rescueName)
		err = errors.Join(err, remove(rescue), remove(rescue+datafile.Unfinished))
	}
	return fault.Wrap(fault.Unavailable, err)
}

// leftDisks returns a sentence for each directory with a disk that belongs to no guest, and that is not removed because
// its record does not allow that. used are the domains of this host. Damaged records have findings of their own.
func (d directory) leftDisks(used map[uuid.UUID]bool) (findings hypervisor.Remarks, err error) {
	entries, err := os.ReadDir(d.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "the directory of guests cannot be read: %w", err)
	}
	for _, entry := range entries {
		id, err := uuid.Parse(entry.Name())
		if err != nil || id.String() != entry.Name() || used[id] {
			continue
		}
		if has, err := d.hasDisk(id); !has && err == nil {
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
		path := d.path(entry.Name())
		findings = append(findings, hypervisor.Remark{Subject: path, Text: fmt.Sprintf("the directory %s has a disk %s, so "+
			"it is left alone; move it away if it is not needed", path, why)})
	}
	return findings, nil
}
