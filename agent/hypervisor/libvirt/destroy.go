package libvirt

import (
	"context"
	"os"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Start removes the files of guests that were never complete, or whose removal was interrupted, according to their
// records, and marks libvirt as the one that has the guests. A directory without such a record stays: that libvirt has
// no domain for it does not mean that its guest does not exist. The fault is Invalid if another host has its guests in
// the same directory.
func (d *Driver) Start(ctx context.Context) error {
	const op = "libvirt.Start"
	if err := d.makeDir(""); err != nil {
		return err
	}
	if err := d.claimDir(); err != nil {
		return err
	}
	records, _, err := d.records() // before the domains, because a record is made before its domain
	if err != nil {
		return err
	}
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	all, err := c.Domains(ctx)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	used := map[uuid.UUID]bool{}
	for _, one := range all {
		used[one.UUID] = true
	}
	for id, record := range records {
		if used[id] || !record.Removing && (record.Made || record.Incoming) { // it may have arrived
			continue
		}
		if err := d.checkUnused(id); err != nil {
			d.o.Log.Warn("files of an unfinished or removed guest are in use", "domain", id, "error", err)
			continue
		}
		if err := d.removeFiles(id); err != nil {
			return err
		}
		d.o.Log.Info("files of an unfinished or removed guest deleted", "domain", id, "guest", record.ID)
	}
	return fault.Wrap("", op, d.mark(ctx, c))
}

// claimDir records that this host has its guests in the directory. The directory cannot be shared: a host removes what
// does not belong to its domains, and a live migration would write a disk that is in use.
func (d directory) claimDir() error {
	const op = "libvirt.Start"
	if d.o.Host == "" {
		return nil
	}
	dir := d.path(hostsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(fault.Unavailable, op, "%w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.New(fault.Unavailable, op, "%w", err)
	}
	for _, other := range entries {
		if other.Name() != d.o.Host {
			return fault.New(fault.Invalid, op, "the guests of host %s are in %s, too, and a shared directory is not "+
				"supported; set another [DEFAULT] instances_path, or remove %s if that host does not use it any more", other.Name(),
				d.o.Dir, d.path(hostsDir, other.Name()))
		}
	}
	if len(entries) > 0 {
		return nil
	}
	file, err := os.OpenFile(d.markerPath(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return fault.New(fault.Unavailable, op, "%w", err)
	}
	return nil
}

// hostsDir has a file for each host that has its guests here.
const hostsDir = "hosts"

// Destroy ends the guest, undefines its domain and removes its files. libvirt returns managed devices to their drivers
// when the guest has ended.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	const op = "libvirt.Destroy"
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	domains, used, err := d.list(ctx, c)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	if err := forgetIncoming(d, id); err != nil {
		return fault.Wrap("", op, err)
	}
	for _, incoming := range []bool{false, true} {
		if found, there := findDomain(domains, id, incoming); there {
			if disk := (&diskSource{domain: found}).disk(); found.guest.Server != "" && disk != "" { // it has moved
				endPools(ctx, c, id, disk)
			}
			return fault.Wrap("", op, d.remove(ctx, c, found))
		}
	}
	if own, err := uuid.Parse(id); err == nil && !used[own] { // it was never complete, or its removal was interrupted
		return fault.Wrap("", op, d.removeUnlisted(own, id))
	}
	return nil
}

// remove ends and undefines a domain and removes its files. The record has first that this was begun, so that Start
// completes it. A guest stays as it is while a QEMU that libvirt does not know uses its disk.
func (d *Driver) remove(ctx context.Context, c *rpc.Client, of domain) error {
	if !of.running() {
		if err := d.checkUnused(of.UUID); err != nil {
			return err
		}
	}
	record := of.xml.Metadata.Guest
	record.Removing = true
	if err := d.writeRecord(of.UUID, record); err != nil {
		return err
	}
	if err := end(ctx, c, of.Domain); err != nil {
		return err
	}
	if err := c.Undefine(ctx, of.Domain); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return d.removeFiles(of.UUID)
}
