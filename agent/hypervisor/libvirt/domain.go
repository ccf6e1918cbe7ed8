package libvirt

import (
	"slices"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// domain is a domain of the driver, or a guest whose domain libvirt lacks.
type domain struct {
	rpc.Domain
	guest  hypervisor.Guest
	xml    domainxml.Domain
	paused bool // it does not run, and is not ended, because its migration did not end; only while it is not in progress

	undefined bool   // libvirt has no definition of it, or not the guest's
	transient bool   // it runs without a definition
	missing   bool   // libvirt does not have it at all
	unsaved   bool   // the record differs from the metadata
	refused   string // why it cannot be defined: another domain has its UUID
	unread    string // why its definition cannot be read, of which xml has only the guest then; empty: it was read
}

// incoming reports whether the domain is prepared for a guest that has not arrived.
func (d domain) incoming() bool { return d.xml.Guest.Incoming }

// migratesTo returns the host to which a migration began whose end is not recorded; empty: none.
func (d domain) migratesTo() string { return d.xml.Guest.MigratesTo }

// made reports whether the disk of the guest was complete.
func (d domain) made() bool { return d.xml.Guest.Made }

// running reports whether the domain runs, or is paused.
func (d domain) running() bool { return d.ID >= 0 }

// setLost sets why the guest must be defined again; empty: it must not. It is not while its definition cannot be read.
func (d *domain) setLost(why string) {
	if d.unread == "" {
		d.guest.Lost = why
	}
}

// checkRead returns fault.Unavailable if the definition of the domain cannot be read: what changes the guest, or uses
// its disk, would have to guess what the guest has.
func (d domain) checkRead() error {
	if d.unread == "" {
		return nil
	}
	return fault.New(fault.Unavailable, "the guest %s stays as it is: %s", d.guest.ID, d.unread)
}

// stored returns the metadata of a guest of the domain. What the driver records of the domain itself stays.
func (d domain) stored(g hypervisor.Guest) domainxml.Guest {
	out, was := domainxml.Write(g), d.xml.Guest
	out.MigratesTo, out.Domain, out.Made = was.MigratesTo, d.UUID.String(), was.Made
	return out
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

// guestsOf returns the guests of domains, by id.
func guestsOf(domains []domain) (guests []hypervisor.Guest) {
	for _, one := range domains {
		if !one.incoming() {
			guests = append(guests, one.guest)
		}
	}
	slices.SortFunc(guests, func(a, b hypervisor.Guest) int { return strings.Compare(a.ID, b.ID) })
	return guests
}
