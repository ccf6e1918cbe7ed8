package libvirt

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// domain is a domain of the driver.
type domain struct {
	rpc.Domain
	guest  hypervisor.Guest
	xml    domainxml.Domain
	paused bool // it does not run, and is not ended, because its migration did not end; only while it is not in progress
}

// incoming reports whether the domain is prepared for a guest that has not arrived.
func (d domain) incoming() bool { return d.xml.Metadata.Guest.Incoming }

// migratesTo returns the host to which a migration began whose end is not recorded; empty: none.
func (d domain) migratesTo() string { return d.xml.Metadata.Guest.MigratesTo }

// running reports whether the domain runs, or is paused.
func (d domain) running() bool { return d.ID >= 0 }

// Guests lists the guests. One that does not run, for whatever reason, is stopped. One that has not arrived yet is not
// listed.
func (d *Driver) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	const op = "libvirt.Guests"
	c, _, err := d.connect(ctx)
	if err != nil {
		return nil, fault.Wrap("", op, err)
	}
	domains, _, err := d.list(ctx, c)
	if err != nil {
		return nil, fault.Wrap("", op, err)
	}
	var guests []hypervisor.Guest
	for _, one := range domains {
		if !one.incoming() {
			guests = append(guests, one.guest)
		}
	}
	slices.SortFunc(guests, func(a, b hypervisor.Guest) int { return strings.Compare(a.ID, b.ID) })
	return guests, nil
}

// list returns the domains of the driver, and the UUIDs of all domains of the host.
func (d *Driver) list(ctx context.Context, c *rpc.Client) (own []domain, used map[uuid.UUID]bool, err error) {
	all, err := c.Domains(ctx)
	if err != nil {
		return nil, nil, err
	}
	used = map[uuid.UUID]bool{}
	for _, one := range all {
		used[one.UUID] = true
		text, err := c.XML(ctx, one, rpc.Persistent)
		if fault.Is(err, fault.NotFound) {
			continue // it was undefined meanwhile
		}
		if err != nil {
			return nil, nil, err
		}
		parsed, err := domainxml.Decode(text)
		if err != nil {
			return nil, nil, fault.New(fault.Internal, "libvirt.list", "the definition of the domain %s cannot be read: %w",
				one.Name, err)
		}
		if parsed.Metadata.Guest.ID == "" {
			continue // another program's
		}
		guest, err := parsed.Metadata.Guest.Read()
		if err != nil {
			return nil, nil, err
		}
		found := domain{Domain: one, guest: guest, xml: parsed}
		if err := d.addState(ctx, c, &found); err != nil {
			return nil, nil, err
		}
		own = append(own, found)
	}
	return own, used, nil
}

// addState adds whether a guest is stopped, whether its operating system has shut down although it must run, and
// whether it has departed. libvirt forgets the reasons when the host or the daemon starts again: a guest that has shut
// down is then started, and settle finds out about a migration.
func (d *Driver) addState(ctx context.Context, c *rpc.Client, of *domain) error {
	g := &of.guest
	mustRun, migrates := !g.Stopped, of.migratesTo() != "" && !d.migrating.has(of.UUID)
	if g.Stopped = of.ID < 0 && !g.Departed; g.Departed || !migrates && (!g.Stopped || !mustRun) {
		return nil
	}
	state, reason, err := c.State(ctx, of.Domain)
	if fault.Is(err, fault.NotFound) {
		return nil // it was undefined meanwhile
	}
	switch {
	case state == rpc.Shutoff && reason == rpc.ShutDownByGuest:
		g.ShutDown = mustRun
	case state == rpc.Shutoff && reason == rpc.EndedByMigration && of.migratesTo() != "":
		g.Departed, g.Stopped = true, false
	case state == rpc.Paused && migrates:
		of.paused, g.Stopped = true, true
	}
	return err
}

// find returns the domain of a guest that is not incoming.
func find(domains []domain, id string) (domain, bool) {
	return findDomain(domains, id, false)
}

// findDomain returns the domain of a guest: of one that has not arrived if incoming is true, otherwise of another.
func findDomain(domains []domain, id string, incoming bool) (domain, bool) {
	i := slices.IndexFunc(domains, func(d domain) bool { return d.guest.ID == id && d.incoming() == incoming })
	if i < 0 {
		return domain{}, false
	}
	return domains[i], true
}

// Rename changes the metadata; the domain keeps its name and UUID.
func (d *Driver) Rename(ctx context.Context, was, id, server string) error {
	const op = "libvirt.Rename"
	c, _, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	d.defining.Lock()
	defer d.defining.Unlock()
	domains, _, err := d.list(ctx, c)
	if err != nil {
		return fault.Wrap("", op, err)
	}
	old, there := find(domains, was)
	if !there {
		return nil
	}
	if _, taken := find(domains, id); taken {
		return fault.New(fault.Conflict, op, "there is a guest %s and a guest %s", was, id)
	}
	g := old.guest
	g.ID, g.Server, g.Stopped = id, server, old.xml.Metadata.Guest.Stopped
	return fault.Wrap("", op, d.storeGuest(ctx, c, old, g))
}

// storeGuest replaces the guest in the metadata of a domain.
func (d *Driver) storeGuest(ctx context.Context, c *rpc.Client, of domain, g hypervisor.Guest) error {
	stored := domainxml.Write(g)
	stored.MigratesTo = of.migratesTo()
	return d.storeMetadata(ctx, c, of, stored)
}

// storeMetadata replaces the metadata of a domain.
func (d *Driver) storeMetadata(ctx context.Context, c *rpc.Client, of domain, g domainxml.Guest) error {
	text, err := domainxml.EncodeGuest(g)
	if err != nil {
		return err
	}
	return c.SetMetadata(ctx, of.Domain, of.running(), domainxml.Namespace, "berth", text)
}
