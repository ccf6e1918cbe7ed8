package libvirt

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// lister compares the domains of libvirt with the records of guests. A domain is that of a guest if its metadata name
// its own UUID and its name is the one that the driver gives; the same metadata in another domain are a copy, which an
// operator has made.
type lister struct {
	d       *Driver
	c       *rpc.Client
	records map[uuid.UUID]domainxml.Guest

	own      []domain
	used     map[uuid.UUID]bool // UUIDs that no new domain can have
	saved    map[uuid.UUID]bool // those whose memory is stored
	findings hypervisor.Remarks
}

// The sentences of hypervisor.Guest.Lost.
const (
	lostDefinition = "libvirt has no definition of it"
	lostTransient  = "its definition was removed from libvirt while it runs"
	lostMetadata   = "the metadata of its domain were removed or cannot be read"
	lostEarlier    = "its definition in libvirt is that of an earlier, unfinished attempt to build it"
)

// list reads the domains.
func (l *lister) list(ctx context.Context) error {
	all, err := l.c.Domains(ctx)
	if err != nil {
		return err
	}
	transient, err := rpc.Transient(ctx, l.c)
	if err != nil {
		return err
	}
	saved, err := rpc.Saved(ctx, l.c)
	if err != nil {
		return err
	}
	for _, one := range saved {
		l.saved[one.UUID] = true
	}
	foreign := map[uuid.UUID]string{} // names of the domains that are not the driver's
	for _, one := range all {
		l.used[one.UUID] = true
		if err := l.read(ctx, one, foreign); err != nil {
			return err
		}
	}
	for i, one := range l.own {
		if slices.ContainsFunc(transient, func(t rpc.Domain) bool { return t.UUID == one.UUID }) && one.migratesTo() == "" &&
			!one.incoming() {
			l.own[i].undefined, l.own[i].transient = true, true
			l.own[i].setLost(lostTransient)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(l.records), compareUUIDs) {
		if err := l.addMissing(id, foreign); err != nil {
			return err
		}
	}
	return nil
}

func compareUUIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// read adds a domain of libvirt, if it is a guest.
func (l *lister) read(ctx context.Context, one rpc.Domain, foreign map[uuid.UUID]string) error {
	text, err := l.c.XML(ctx, one, rpc.Persistent)
	if fault.Is(err, fault.NotFound) {
		return nil // it was undefined meanwhile
	}
	if err != nil {
		return err
	}
	meta, unread, err := guestOf(ctx, l.c, one, text)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	record, recorded := l.records[one.UUID]
	recorded = recorded && record.Made && !record.Removing
	named := one.Name == domainxml.DomainName(one.UUID.String())
	if meta.ID != "" && (meta.Domain != one.UUID.String() || !named) {
		foreign[one.UUID] = one.Name
		text := fmt.Sprintf("the domain %s (%s) is a copy of the guest %s, or was renamed, so it is left alone; undefine "+
			"it, or remove the element guest of %s from its metadata", one.Name, one.UUID, meta.ID, domainxml.Namespace)
		l.findings = append(l.findings, hypervisor.Remark{Subject: one.Name, Text: text})
		return nil
	}
	switch {
	case meta.ID == "" && named && !recorded && unread != nil: // whose devices it has is not known
		return fault.New(fault.Internal, "%s", unreadable(one, unread))
	case meta.ID == "" && !(recorded && named):
		foreign[one.UUID] = one.Name // another program's
		return nil
	}
	found := domain{Domain: one, unsaved: !reflect.DeepEqual(meta, record)}
	if found.xml, err = domainxml.Decode(text); err != nil {
		found.xml, found.unread = domainxml.Domain{Guest: meta}, unreadable(one, err)
	}
	guest, err := meta.Read()
	lost := ""
	switch {
	case recorded && (meta.ID == "" || err != nil):
		lost = lostMetadata
	case recorded && !meta.Made && !meta.Incoming:
		lost = lostEarlier
	case err != nil:
		return fault.New(fault.Internal, "%s", unreadable(one, err))
	}
	if lost != "" {
		found.xml.Guest, found.undefined = record, true
		if guest, err = record.Read(); err != nil {
			return err
		}
	}
	found.guest = guest
	found.guest.Uploads = uploads(l.d.directory, one.UUID)
	found.setLost(lost)
	found.guest.Remark = found.unread
	if err := l.d.addState(ctx, l.c, &found); err != nil {
		return err
	}
	if found.guest.Stopped && l.saved[one.UUID] {
		found.guest.Suspended, found.guest.ShutDown = true, false
	}
	l.own = append(l.own, found)
	return nil
}

// guestOf returns the guest in the metadata of a domain with this definition. If the definition cannot be read, libvirt
// is asked for the metadata alone, and unread is why. The guest is the zero value if there are none, or if they cannot
// be read either. NotFound: libvirt does not have the domain any more.
func guestOf(ctx context.Context, c *rpc.Client, of rpc.Domain, text string) (g domainxml.Guest, unread, err error) {
	if g, unread = domainxml.GuestIn(text); unread == nil {
		return g, nil, nil
	}
	element, err := c.Metadata(ctx, of, domainxml.Namespace)
	if err != nil {
		return domainxml.Guest{}, unread, err
	}
	if g, err = domainxml.GuestOfElement(element); err != nil {
		g = domainxml.Guest{}
	}
	return g, unread, nil
}

// unreadable returns a sentence about a domain whose definition cannot be read.
func unreadable(of rpc.Domain, why error) string {
	return fmt.Sprintf("the definition of the domain %s cannot be read: %v; correct it with `virsh edit %[1]s` (its "+
		"lines are those of `virsh dumpxml --inactive %[1]s`); until then its guest is not changed", of.Name, why)
}

// addMissing adds a guest whose domain libvirt does not have, unless it was never complete or is being destroyed.
func (l *lister) addMissing(id uuid.UUID, foreign map[uuid.UUID]string) error {
	record := l.records[id]
	known := slices.ContainsFunc(l.own, func(one domain) bool { return one.UUID == id })
	if known || record.Removing || !record.Made {
		return nil
	}
	guest, err := record.Read()
	if err != nil {
		return err
	}
	l.used[id] = true
	guest.Lost, guest.Stopped = lostDefinition, !guest.Departed
	missing := domain{Domain: rpc.Domain{Name: domainxml.DomainName(id.String()), UUID: id, ID: -1}, guest: guest,
		undefined: true, missing: true}
	missing.xml.Guest = record
	if name, taken := foreign[id]; taken {
		missing.refused = fmt.Sprintf("the domain %s has its UUID; give that domain its name %s and its metadata back, or "+
			"undefine it", name, missing.Name)
		missing.guest.Lost += ": " + missing.refused
	}
	l.own = append(l.own, missing)
	return nil
}

// addState adds whether a guest is stopped or paused, whether its operating system has shut down although it must run,
// and whether it has departed. libvirt forgets the reasons when the host or the daemon starts again: a guest that has
// shut down is then started, and settle finds out about a migration.
func (d *Driver) addState(ctx context.Context, c *rpc.Client, of *domain) error {
	g := &of.guest
	mayBePaused := g.Paused && of.ID >= 0
	g.Paused = false
	mustRun, migrates := !g.Stopped, of.migratesTo() != "" && !d.migrating.has(of.UUID)
	if g.Stopped = of.ID < 0 && !g.Departed; g.Departed || !migrates && !mayBePaused && (!g.Stopped || !mustRun) {
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
	case state == rpc.Paused:
		g.Paused = mayBePaused
	}
	return err
}
