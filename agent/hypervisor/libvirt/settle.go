package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// settle finds out how the migration of a domain has ended, and records it: the guest has departed, or it is here. It
// must not be in progress. Between the end of the copy and the end of the migration a guest is paused here, and only the
// destination knows whether it runs there; so it is asked before the guest continues here or is started again. The fault
// is Unavailable as long as that is not known.
func (d *Driver) settle(ctx context.Context, of domain) (domain, error) {
	const op = "libvirt.settle"
	c, _, err := d.connect(ctx)
	if err != nil {
		return of, err
	}
	host := of.migratesTo()
	state, reason, err := c.State(ctx, of.Domain)
	if err != nil {
		return of, fault.Wrap("", op, err)
	}
	departed := state == rpc.Shutoff && reason == rpc.EndedByMigration
	if !departed && state != rpc.Running {
		if departed, err = d.hasArrived(ctx, of); err != nil {
			return of, fault.New(fault.Unavailable, op, "whether the guest %s runs on host %s is not known: %w; start "+
				"libvirt there; if that host will not return, run `virsh resume %[4]s` or `virsh start %[4]s` here", of.guest.ID,
				host, err, of.Name)
		}
	}
	switch {
	case departed && (state == rpc.Paused || state == rpc.Running):
		err = end(ctx, c, of.Domain)
	case !departed && state == rpc.Paused:
		err = c.Resume(ctx, of.Domain)
	}
	if err == nil {
		of, err = d.storeSettled(ctx, c, of, departed)
	}
	if err == nil && state == rpc.Running { // it may have been about to be paused
		err = d.recheck(ctx, c, of, host)
	}
	if known, is := errors.AsType[*rpc.Error](err); is && known.Code == rpc.ErrOperationTimeout {
		return of, fault.New(fault.Unavailable, op, "libvirt still migrates the guest %s: %w", of.guest.ID, known)
	}
	return of, fault.Wrap("", op, err)
}

// storeSettled records that no migration of a domain is in progress, and whether its guest has departed.
func (d *Driver) storeSettled(ctx context.Context, c *rpc.Client, of domain, departed bool) (domain, error) {
	current, err := c.Lookup(ctx, of.UUID)
	if err != nil {
		return of, err
	}
	of.Domain, of.paused = current, false
	must := of.xml.Metadata.Guest
	must.MigratesTo, must.Departed = "", departed
	if err := d.storeMetadata(ctx, c, of, must); err != nil {
		return of, err
	}
	of.xml.Metadata.Guest, of.guest.Departed, of.guest.Stopped = must, departed, of.ID < 0 && !departed
	return of, nil
}

// recheck returns fault.Unavailable, and records the migration again, if a domain for which it was no longer recorded is
// paused now: libvirt was still migrating it.
func (d *Driver) recheck(ctx context.Context, c *rpc.Client, of domain, host string) error {
	state, _, err := c.State(ctx, of.Domain)
	if err != nil || state != rpc.Paused {
		return err
	}
	must := of.xml.Metadata.Guest
	must.MigratesTo = host
	if err := d.storeMetadata(ctx, c, of, must); err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "libvirt.settle", "libvirt has paused the guest %s", of.guest.ID)
}

// awaitSettled calls settle until it is known how the migration has ended. After ctx has ended, it waits for a minute.
func (d *Driver) awaitSettled(ctx context.Context, of domain) (domain, error) {
	hold, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Minute, cancel) })
	for failures := 1; ; failures++ {
		after, err := d.settle(hold, of)
		if err == nil || !fault.Is(err, fault.Unavailable) {
			return after, err
		}
		d.o.Log.Warn("end of a live migration not known, will retry", "guest", of.guest.ID, "error", err)
		if backoff.Sleep(hold, redial.Wait(failures)) != nil {
			return of, err
		}
	}
}

// hasArrived reports whether the guest of a domain has arrived at the host to which it migrates: its definition there is
// that of the migration, and not the one that was prepared.
func (d *Driver) hasArrived(ctx context.Context, of domain) (bool, error) {
	uri, err := d.uriOf(of.migratesTo())
	if err != nil {
		return false, err
	}
	there, err := rpc.DialURI(ctx, uri, d.o.CallTime)
	if err != nil {
		return false, err
	}
	defer there.Close()
	drain(there)
	found, err := there.Lookup(ctx, of.UUID)
	var text string
	if err == nil {
		text, err = there.XML(ctx, found, rpc.Persistent)
	}
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	parsed, err := domainxml.Decode(text)
	switch {
	case err != nil:
		return false, err
	case parsed.Metadata.Guest.Incoming && found.ID >= 0:
		return false, fmt.Errorf("it still receives the guest")
	}
	return parsed.Metadata.Guest.ID != "" && !parsed.Metadata.Guest.Incoming, nil
}

// settle records how an earlier migration of the guest has ended, and continues only with a guest that is here.
func (b *builder) settle(ctx context.Context) error {
	if b.d.inMigration(b.domain.UUID) {
		return fault.New(fault.Unavailable, "libvirt.Build", "the guest %s is being migrated", b.guest.ID)
	}
	var err error
	if b.domain, err = b.d.settle(ctx, b.domain); err == nil && b.domain.guest.Departed {
		err = fault.New(fault.Unavailable, "libvirt.Build", "the guest %s has departed; its host lists its guests again",
			b.guest.ID)
	}
	return err
}
