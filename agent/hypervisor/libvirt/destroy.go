package libvirt

import (
	"context"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Start removes the files of guests that were never complete, or whose removal was interrupted, according to their
// records, and marks libvirt as the one that has the guests. A directory without such a record stays: that libvirt has
// no domain for it does not mean that its guest does not exist. The fault is Invalid if the directory of the guests is
// that of a host with another name and the same libvirt.
func (d *Driver) Start(ctx context.Context) error {
	if err := d.makeDir(""); err != nil {
		return err
	}
	if err := claimDir(ctx, d); err != nil {
		return err
	}
	records, _, err := d.records() // before the domains, because a record is made before its domain
	if err != nil {
		return err
	}
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	all, err := c.Domains(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	used := map[uuid.UUID]bool{}
	for _, one := range all {
		used[one.UUID] = true
	}
	for id, record := range records {
		if used[id] || !record.Removing && (record.Made || record.Incoming) { // it may have arrived
			continue
		}
		if err := d.checkRemovable(id); err != nil {
			d.o.Log.Warn("files of an unfinished or removed guest are in use", "domain", id, "error", err)
			continue
		}
		if err := d.removeFiles(id); err != nil { // such as a file that another program has open on NFS
			d.o.Log.Warn("files of an unfinished or removed guest not deleted", "domain", id, "error", err)
			continue
		}
		d.o.Log.Info("files of an unfinished or removed guest deleted", "domain", id, "guest", record.ID)
	}
	thawAll(ctx, d, c, all)
	return fault.Wrap("", d.mark(ctx, c))
}

// Destroy ends the guest, undefines its domain and removes its files. libvirt returns managed devices to their drivers
// when the guest has ended.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	domains, used, err := d.list(ctx, c)
	if err != nil {
		return fault.Wrap("", err)
	}
	if err := forgetIncoming(d, id); err != nil {
		return fault.Wrap("", err)
	}
	for _, incoming := range []bool{false, true} {
		if found, there := findDomain(domains, id, incoming); there {
			if disk := found.xml.Disk(); found.guest.Server != "" && disk != "" { // it has moved
				endPools(ctx, c, id, disk)
			}
			return fault.Wrap("", d.remove(ctx, c, found))
		}
	}
	if own, err := uuid.Parse(id); err == nil && !used[own] { // it was never complete, or its removal was interrupted
		return fault.Wrap("", d.removeUnlisted(own, id))
	}
	return nil
}

// remove ends and undefines a domain and removes its files. The record has first that this was begun, so that Start
// completes it. A guest stays as it is while a QEMU that libvirt does not know uses its disk.
func (d *Driver) remove(ctx context.Context, c *rpc.Client, of domain) error {
	if !of.running() {
		if err := d.checkRemovable(of.UUID); err != nil {
			return err
		}
	}
	record := of.xml.Guest
	record.Removing = true
	switch err := d.writeRecord(of.UUID, record); {
	case isFull(err): // only the removal frees space; compute repeats an interrupted one
		d.o.Log.Warn("removal of a guest not recorded", "guest", record.ID, "error", err)
	case err != nil:
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
