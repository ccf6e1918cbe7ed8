package libvirt

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Guests lists the guests. One that does not run, for whatever reason, is stopped. One whose definition libvirt has
// lost is listed from its record. One that has not arrived yet is not listed.
func (d *Driver) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	c, _, err := d.connect(ctx)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	domains, _, err := d.list(ctx, c)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	return guestsOf(domains), nil
}

// list returns the domains of the driver on this host with those that only their records have, and the UUIDs that no
// new domain can have. It keeps what an operator must know about domains for Capacity.
func (d *Driver) list(ctx context.Context, c *rpc.Client) (own []domain, used map[uuid.UUID]bool, err error) {
	records, findings, err := d.records()
	if err != nil {
		return nil, nil, err
	}
	l := lister{d: d, c: c, records: records, used: map[uuid.UUID]bool{}, saved: map[uuid.UUID]bool{}}
	if err := l.list(ctx); err != nil {
		return nil, nil, err
	}
	l.recordArrived()
	left, err := d.leftDisks(l.used)
	if err != nil {
		return nil, nil, err
	}
	d.connecting.Lock()
	d.findings = slices.Concat(findings, l.findings, left, d.damagedMarker())
	d.connecting.Unlock()
	return l.own, l.used, nil
}

// recordArrived writes the records of guests that have arrived by live migration: a record that says that its guest has
// not arrived does not keep the guest if libvirt loses its definition.
func (l *lister) recordArrived() {
	for i, one := range l.own {
		if !one.made() || one.incoming() || one.missing || !l.records[one.UUID].Incoming {
			continue
		}
		if now, err := l.d.readRecord(one.UUID); err != nil || !now.Incoming || now.Removing { // changed meanwhile
			continue
		}
		if err := l.d.writeRecord(one.UUID, one.xml.Guest); err != nil {
			l.d.o.Log.Warn("arrival of a guest not recorded, will retry", "guest", one.guest.ID, "error", err)
			continue
		}
		l.own[i].unsaved = false
	}
}

// listOf returns the domains of the driver of another host.
func (d *Driver) listOf(ctx context.Context, c *rpc.Client) ([]domain, error) {
	l := lister{d: d, c: c, used: map[uuid.UUID]bool{}, saved: map[uuid.UUID]bool{}}
	err := l.list(ctx)
	return l.own, err
}

// locate returns the connection to libvirt, the domain of a guest, and whether there is one.
func locate(ctx context.Context, d *Driver, id string) (c *rpc.Client, found domain, there bool, err error) {
	if c, _, err = d.connect(ctx); err != nil {
		return nil, domain{}, false, err
	}
	domains, _, err := d.list(ctx, c)
	if err != nil {
		return nil, domain{}, false, err
	}
	found, there = find(domains, id)
	return c, found, there, nil
}

// Rename changes the metadata; the domain keeps its name and UUID.
func (d *Driver) Rename(ctx context.Context, was, id, server string) error {
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	d.defining.Lock()
	defer d.defining.Unlock()
	domains, _, err := d.list(ctx, c)
	if err != nil {
		return fault.Wrap("", err)
	}
	old, there := find(domains, was)
	if !there {
		return nil
	}
	if _, taken := find(domains, id); taken {
		return fault.New(fault.Conflict, "there is a guest %s and a guest %s", was, id)
	}
	g := old.guest
	g.ID, g.Server, g.Stopped = id, server, old.xml.Guest.Stopped
	return fault.Wrap("", d.storeGuest(ctx, c, old, g))
}

// storeGuest replaces the guest in the metadata of a domain.
func (d *Driver) storeGuest(ctx context.Context, c *rpc.Client, of domain, g hypervisor.Guest) error {
	return d.storeMetadata(ctx, c, of, of.stored(g))
}

// storeMetadata replaces the record of a guest, and the metadata of its domain if libvirt has it.
func (d *Driver) storeMetadata(ctx context.Context, c *rpc.Client, of domain, g domainxml.Guest) error {
	if err := d.writeRecord(of.UUID, g); err != nil {
		return err
	}
	if of.missing {
		return nil
	}
	text, err := domainxml.EncodeGuest(g)
	if err != nil {
		return err
	}
	affected := rpc.ImpactOn(of.running())
	if of.transient {
		affected = rpc.RunningDomain
	}
	return c.SetMetadata(ctx, of.Domain, affected, domainxml.Namespace, "berth", text)
}
