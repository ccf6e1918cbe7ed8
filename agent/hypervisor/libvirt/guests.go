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
	guest hypervisor.Guest
	xml   domainxml.Domain
}

// running reports whether the domain runs, or is paused.
func (d domain) running() bool { return d.ID >= 0 }

// Guests lists the guests. One that does not run, for whatever reason, is stopped.
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
		guests = append(guests, one.guest)
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
		text, err := c.XML(ctx, one, true)
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
		if guest.ShutDown, err = d.hasShutDown(ctx, c, one, guest); err != nil {
			return nil, nil, err
		}
		guest.Stopped = one.ID < 0
		own = append(own, domain{Domain: one, guest: guest, xml: parsed})
	}
	return own, used, nil
}

// hasShutDown reports whether the operating system of a guest that must run has shut down. libvirt forgets the reason
// when the host or the daemon starts again; such a guest is started.
func (d *Driver) hasShutDown(ctx context.Context, c *rpc.Client, of rpc.Domain, g hypervisor.Guest) (bool, error) {
	if of.ID >= 0 || g.Stopped || g.Departed {
		return false, nil
	}
	state, reason, err := c.State(ctx, of)
	if fault.Is(err, fault.NotFound) {
		return false, nil // it was undefined meanwhile
	}
	return state == rpc.Shutoff && reason == rpc.ShutDownByGuest, err
}

// find returns the domain of a guest.
func find(domains []domain, id string) (domain, bool) {
	i := slices.IndexFunc(domains, func(d domain) bool { return d.guest.ID == id })
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

// storeGuest replaces the metadata of a domain.
func (d *Driver) storeGuest(ctx context.Context, c *rpc.Client, of domain, g hypervisor.Guest) error {
	text, err := domainxml.EncodeMetadata(g)
	if err != nil {
		return err
	}
	return c.SetMetadata(ctx, of.Domain, of.running(), domainxml.Namespace, "berth", text)
}
