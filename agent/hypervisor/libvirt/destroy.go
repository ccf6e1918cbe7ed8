package libvirt

import (
	"context"
	"os"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Start removes the directories of guests that have no domain: a Build or a Destroy was interrupted. It lists them
// before the domains, because a domain is defined before its directory is made. The fault is Invalid if another host
// has its guests in the same directory.
func (d *Driver) Start(ctx context.Context) error {
	const op = "libvirt.Start"
	if err := d.makeDir(""); err != nil {
		return err
	}
	if err := d.claimDir(); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.o.Dir)
	if err != nil {
		return fault.New(fault.Unavailable, op, "%w", err)
	}
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	all, err := c.Domains(ctx)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	used := map[string]bool{}
	for _, one := range all {
		used[one.UUID.String()] = true
	}
	for _, entry := range entries {
		if _, err := uuid.Parse(entry.Name()); err != nil || used[entry.Name()] {
			continue
		}
		if err := os.RemoveAll(d.path(entry.Name())); err != nil {
			return fault.New(fault.Unavailable, op, "the files of a removed guest remain: %w", err)
		}
		d.o.Log.Info("files of a removed guest deleted", "domain", entry.Name())
	}
	return nil
}

// claimDir records that this host has its guests in the directory. The directory cannot be shared: a host removes what
// does not belong to its domains, and a live migration would write a disk that is in use.
func (d *Driver) claimDir() error {
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
	if err := os.WriteFile(d.path(hostsDir, d.o.Host), nil, 0o600); err != nil {
		return fault.New(fault.Unavailable, op, "%w", err)
	}
	return nil
}

// hostsDir has an empty file for each host that has its guests here.
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
	if own, err := uuid.Parse(id); err == nil && !used[own] { // undefined, but its files may remain
		return fault.Wrap("", op, d.removeFiles(own))
	}
	return nil
}

// remove ends and undefines a domain and removes its files, in this order: the files of a domain without files are
// found by Start.
func (d *Driver) remove(ctx context.Context, c *rpc.Client, of domain) error {
	if err := end(ctx, c, of.Domain); err != nil {
		return err
	}
	if err := c.Undefine(ctx, of.Domain); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return d.removeFiles(of.UUID)
}
