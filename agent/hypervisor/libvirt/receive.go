package libvirt

import (
	"context"
	"errors"
	"reflect"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/fault"
)

// Receive defines the domain of a guest that will arrive, with the devices, interfaces and files that it will have
// here, and makes its files. The definition is also the message to the driver of the source, which reads it. When the
// guest has arrived, libvirt replaces it by one that is not incoming any more.
func (d *Driver) Receive(ctx context.Context, g hypervisor.Guest) error {
	if _, err := uuid.Parse(g.ID); err != nil {
		return fault.New(fault.Invalid, "%q is not a valid guest id: %w", g.ID, err)
	}
	for _, i := range g.Interfaces {
		if i.VNIC != "" && i.VNIC != "normal" && i.Device == (device.ID{}) {
			return fault.New(fault.Conflict, "the guest %s cannot migrate: its port %s has the VNIC type %s, and the "+
				"driver libvirt does not live-migrate ports with devices; migrate the server cold", g.ID, i.Port, i.VNIC)
		}
	}
	c, host, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	b := &builder{d: d, c: c, host: host, guest: g, incoming: true}
	if err := b.getBase(ctx); err != nil {
		return fault.Wrap("", err)
	}
	created, err := b.reserve(ctx)
	if err != nil || !b.domain.incoming() { // it has arrived
		return fault.Wrap("", err)
	}
	err = b.makeFiles(ctx)
	if err != nil && created {
		b.undo(ctx)
	}
	return fault.Wrap("", err)
}

// Forget removes the domain and the files of a guest that has not arrived, and the copy of its disk.
func (d *Driver) Forget(ctx context.Context, id string) error {
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	domains, used, err := d.list(ctx, c)
	if err != nil {
		return fault.Wrap("", err)
	}
	if found, there := findDomain(domains, id, true); there {
		err = d.remove(ctx, c, found)
	} else if own, invalid := uuid.Parse(id); invalid == nil && !used[own] { // Receive was interrupted
		err = d.removeUnlisted(own, id)
	}
	return fault.Wrap("", errors.Join(err, forgetIncoming(d, id)))
}

// prepared reports whether a domain is prepared for this guest as it will be.
func (b *builder) prepared(have domain) bool {
	want, was := domainxml.Write(b.guest), have.xml.Guest
	want.Stopped, want.Domain = was.Stopped, was.Domain
	b.addDestination(&want)
	return reflect.DeepEqual(want, was)
}

// getBase gets the image of which the disk that is prepared becomes an overlay.
func (b *builder) getBase(ctx context.Context) error {
	if b.guest.Image == "" || b.d.o.Images == nil {
		return nil // makeFiles refuses an image
	}
	base, err := b.d.o.Images.Get(ctx, b.guest.Image)
	b.copied.base = &base
	return err
}

// addDestination adds what the driver of the source must know of this host to the metadata of a prepared guest.
func (b *builder) addDestination(g *domainxml.Guest) {
	g.Incoming, g.Address = true, bracketed(b.d.o.Migration.Address)
	if b.copied.base != nil {
		g.Base = b.copied.base.SHA512
	}
}
