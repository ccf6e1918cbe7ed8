package libvirt

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// liveDisk is the disk of a guest that is migrated live.
type liveDisk struct {
	d      *Driver
	domain domain // here
	host   string // the destination
	target *rpc.Client
	dial   func(ctx context.Context) (*rpc.Client, error) // a further connection to the destination
}

// check returns whether the destination, which has prepared a domain, uses the disk of the guest in place, because
// both hosts have the directory. Then the prepared disk is the disk of the guest under a further name. Otherwise only
// the disk is migrated, and not what is below it: the fault is Conflict if the destination does not have the same
// there.
func (m *liveDisk) check(ctx context.Context, there domain) (shared bool, err error) {
	disk, prepared := m.domain.xml.Disk(), there.xml.Disk()
	if disk == "" || prepared == "" {
		return false, nil
	}
	files, beside, err := inspectShared(disk)
	if err != nil {
		return false, err
	}
	differs := m.checkBase(ctx, files, there.xml.Guest.Base)
	if shared = m.isShared(ctx, disk, prepared); shared && beside && (files.image == "" || differs == nil) {
		if linked, err := m.link(files, prepared); err != nil || linked {
			return linked, err
		}
	}
	switch {
	case differs != nil:
		return false, differs
	case len(files.lower) > 0:
		return false, fault.New(fault.Conflict, "the disk %s has files below it in its directory, which host %s does "+
			"not have; migrate the server cold", disk, m.host)
	case disk != prepared && sameFile(disk, prepared): // a copy would write the disk that it reads
		return false, fault.New(fault.Conflict, "the disk %s has the name %s, too, and cannot get another one; migrate "+
			"the server again", disk, prepared)
	}
	return false, nil
}

// checkBase returns fault.Conflict unless the disk of the guest is an overlay of an image with this SHA-512 sum, or of
// none if that is empty.
func (m *liveDisk) checkBase(ctx context.Context, files sharedDisk, sum string) error {
	if files.image == "" && sum == "" {
		return nil
	}
	have := m.baseSum(ctx, files)
	switch {
	case files.image != "" && have != "" && have == sum:
		return nil
	case files.image == "":
		return fault.New(fault.Conflict, "the disk of the guest %s has the data of its image, and that at host %s is "+
			"prepared for a disk without them; migrate the server cold", m.domain.guest.ID, m.host)
	}
	return fault.New(fault.Conflict, "the image %s of the disk and that of host %s are not known to have the same "+
		"data (SHA-512 sums: %q, %q); migrate the server cold", files.image, m.host, have, sum)
}

// baseSum returns the SHA-512 sum of the image below the disk of the guest; empty: there is none, or it is not known.
func (m *liveDisk) baseSum(ctx context.Context, files sharedDisk) string {
	if files.image == "" {
		return ""
	}
	record := filepath.Join(filepath.Dir(files.path), baseRecordName(m.domain.guest.Build))
	if sum := recordedSum(record, files.image); sum != "" {
		return sum
	}
	if _, err := os.Stat(files.image); err != nil || m.d.o.Images == nil {
		return ""
	}
	base, err := m.d.o.Images.Get(ctx, m.domain.guest.Image)
	if err != nil || base.Path != files.image {
		return ""
	}
	return base.SHA512
}

// isShared reports whether the destination has the directory of the disk that it has prepared under the same path as
// this host. Hosts that share instances_path have different directories in it. If that cannot be determined, the disk
// is copied.
func (m *liveDisk) isShared(ctx context.Context, disk, prepared string) bool {
	if disk == prepared || !m.d.contains(prepared) {
		return false
	}
	at := &diskSource{client: m.target, dial: m.dial, driver: m.d}
	at.from.Host, at.from.Guest = m.host, m.domain.guest.ID
	defer at.endPools(ctx)
	shared, err := isShared(ctx, filepath.Dir(prepared), at.readSmall)
	if err != nil {
		m.d.o.Log.Warn("disk is copied: whether its directory is shared is not known", "guest", m.domain.guest.ID, "error",
			err)
	}
	return shared && err == nil
}

// link gives the disk of the guest the name of the disk that the destination has prepared, beside its own name, and
// does the same with the files below it. It returns false if the file system does not allow that.
func (m *liveDisk) link(files sharedDisk, prepared string) (bool, error) {
	below, err := fileBelow(prepared)
	if err == nil && files.image != "" && !sameFile(files.path, prepared) && below != files.image {
		return false, nil // its image is elsewhere
	}
	link := prepared + linkSuffix
	if err == nil {
		err = errors.Join(remove(link), files.link(filepath.Dir(prepared)))
	}
	if err == nil {
		if err = os.Link(files.path, link); err != nil {
			m.d.o.Log.Warn("disk in a shared directory is copied: it gets no further name", "guest", m.domain.guest.ID,
				"error", err)
			return false, nil
		}
		err = errors.Join(os.Rename(link, prepared), remove(link)) // a name of the same file is not replaced
	}
	if err != nil {
		return false, fault.New(fault.Unavailable, "the disk %s does not get the name %s: %w", files.path, prepared, err)
	}
	m.d.o.Log.Info("disk not copied: its directory is shared", "guest", m.domain.guest.ID, "to", m.host, "disk",
		prepared)
	return true, nil
}
