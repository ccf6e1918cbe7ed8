package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// minimalGB is the least amount for which the time of a migration is limited, as in Nova.
const minimalGB = 2

// pingEvery is the interval at which the destination is asked whether it is there, and an abort is repeated.
const pingEvery = 2 * time.Second

// abortTime is how long an aborted copy may take to end.
const abortTime = 2 * time.Minute

// noDevices returns why guests with devices cannot be live-migrated; empty: they can. It is Nova's minimum.
func noDevices(qemu int) string {
	if qemu >= 8_002_002 {
		return ""
	}
	return fmt.Sprintf("QEMU %d.%d.%d is older than 8.2.2", qemu/1_000_000, qemu/1000%1000, qemu%1000)
}

// Migrate copies the disks and the memory of a running guest to the destination, which Receive has prepared, and starts
// it there. It is aborted when ctx ends, when the destination does not answer, and after the configured time. Before it
// begins, the destination is stored with the guest, until it is stored whether the guest has departed.
func (d *Driver) Migrate(ctx context.Context, id string, to hypervisor.Destination) error {
	_, found, there, err := locate(ctx, d, id)
	if err != nil {
		return fault.Wrap("", err)
	}
	if !there {
		return fault.New(fault.NotFound, "there is no guest %s", id)
	}
	for _, one := range found.guest.Devices {
		if _, goes := to.Devices[one.ID]; !goes && !found.guest.Departed {
			return fault.New(fault.Invalid, "no destination device given for %s of guest %s on host %s", one.ID, id, to.Host)
		}
	}
	if found.migratesTo() != "" { // an earlier migration was interrupted
		if found, err = (&settler{d, found}).await(ctx); err != nil {
			return fault.Wrap("", err)
		}
	}
	switch {
	case found.guest.Departed:
		return nil
	case found.unread != "":
		return found.checkRead()
	case found.undefined:
		return fault.New(fault.Unavailable, "the guest %s is defined again first: %s", id, found.guest.Lost)
	case !found.running():
		return fault.New(fault.Conflict, "the guest %s does not run", id)
	}
	if err := d.checkSnapshots(found); err != nil { // only the uppermost file is migrated
		return fault.Wrap("", err)
	}
	m := &migrator{d: d, domain: found, to: to}
	return fault.Wrap("", m.run(ctx))
}

// SettleMigration ends an interrupted migration of a guest, and reports whether the guest has departed.
func (d *Driver) SettleMigration(ctx context.Context, id string) (departed bool, err error) {
	_, found, there, err := locate(ctx, d, id)
	if err != nil {
		return false, fault.Wrap("", err)
	}
	if !there {
		return false, fault.New(fault.NotFound, "there is no guest %s", id)
	}
	if found.migratesTo() != "" {
		found, err = (&settler{d, found}).await(ctx)
	}
	return found.guest.Departed, fault.Wrap("", err)
}

// migrator migrates one guest.
type migrator struct {
	d      *Driver
	domain domain // here
	to     hypervisor.Destination
	steps  rpc.Migration
}

// run migrates the guest. A fault means that it runs here as before.
func (m *migrator) run(ctx context.Context) error {
	defer m.d.migrating.begin(m.domain.UUID)()
	uri, err := m.d.o.uriOf(ctx, m.to.Host)
	if err != nil {
		return err
	}
	if m.steps.Source, err = rpc.Dial(ctx, m.d.o.Socket, m.d.o.URI, m.d.o.CallTime); err != nil {
		return err
	}
	defer m.steps.Source.Close()
	if m.steps.Target, err = dialer(uri, m.d.o.CallTime)(ctx); err != nil {
		return err
	}
	defer m.steps.Target.Close()
	drain(m.steps.Source)
	if err := m.describe(ctx); err != nil {
		return err
	}
	if err := m.store(ctx); err != nil {
		return err
	}
	failed := m.transfer(ctx)
	m.steps.Target.Close()
	m.steps.Source.Close()
	after, err := (&settler{m.d, m.domain}).await(ctx)
	switch {
	case err != nil:
		return errors.Join(err, failed)
	case after.guest.Departed:
		return nil
	case failed == nil:
		failed = fault.New(fault.Unavailable, "the guest has not departed although libvirt reports that it has")
	}
	return failed
}

// store records to which host the guest migrates.
func (m *migrator) store(ctx context.Context) error {
	stored := m.domain.stored(m.domain.guest)
	stored.MigratesTo = m.to.Host
	if err := m.d.storeMetadata(ctx, m.steps.Source, m.domain, stored); err != nil {
		return err
	}
	m.domain.xml.Guest = stored
	return nil
}

// describe makes the definitions of the domain at the destination.
func (m *migrator) describe(ctx context.Context) error {
	there, err := m.prepared(ctx)
	if err != nil {
		return err
	}
	arrived := there.xml.Guest
	uri, err := m.d.o.uriOf(ctx, m.to.Host)
	if err != nil {
		return err
	}
	disk := &liveDisk{m.d, m.domain, m.to.Host, m.steps.Target, dialer(uri, m.d.o.CallTime)}
	shared, err := disk.check(ctx, there)
	if err != nil {
		return err
	}
	o := rpc.MigrationOptions{Disks: m.domain.hasDisk() && !shared, Shared: shared, Address: arrived.Address,
		TLS: m.d.o.Migration.TLS, Converge: m.d.o.Migration.Converge, Bandwidth: m.d.o.Migration.Bandwidth}
	arrived.Incoming, arrived.Stopped, arrived.Address, arrived.Base, arrived.Made = false, false, "", "", true
	arrived.Hardware = m.domain.xml.Guest.Hardware // it runs with this
	prepare, err := m.steps.Target.XML(ctx, there.Domain, rpc.Persistent)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		kind rpc.XMLKind
		to   *string
	}{{rpc.Migratable, &o.XML}, {rpc.MigratableNew, &o.Persistent}} {
		here, err := m.steps.Source.XML(ctx, m.domain.Domain, one.kind)
		if err != nil {
			return err
		}
		if *one.to, err = domainxml.AtDestination(here, prepare, arrived, m.to.Devices); err != nil {
			return err
		}
	}
	m.steps.Domain, m.steps.Options = m.domain.Domain, o
	return nil
}

// prepared returns the domain that the destination has prepared. That of an attempt which was interrupted ends when
// libvirt there notices the end of the connection; this is awaited.
func (m *migrator) prepared(ctx context.Context) (domain, error) {
	server := cmp.Or(m.domain.guest.Server, m.domain.guest.ID)
	for tries := 1; ; tries++ {
		domains, err := m.d.listOf(ctx, m.steps.Target)
		if err != nil {
			return domain{}, err
		}
		there, prepared := findDomain(domains, server, true)
		switch {
		case !prepared:
			return there, fault.New(fault.Conflict, "host %s has not prepared the guest of server %s; migrate the server "+
				"again", m.to.Host, server)
		case there.UUID != m.domain.UUID:
			return there, fault.New(fault.Conflict, "the domain of the guest has the UUID %s, and that of the server is "+
				"%s: the server was resized on its host; migrate it cold", m.domain.UUID, server)
		case !there.running():
			return there, there.checkRead()
		case tries == preparedTries:
			return there, fault.New(fault.Unavailable, "host %s still receives the guest of server %s in an earlier "+
				"attempt", m.to.Host, server)
		}
		if err := backoff.Sleep(ctx, redial.Wait(tries)); err != nil {
			return there, fault.Wrap(fault.Unavailable, err)
		}
	}
}

// preparedTries is how often the destination is looked at; the waits between them add up to about six seconds.
const preparedTries = 7

// hasDisk reports whether the guest has a disk that it can write.
func (d domain) hasDisk() bool { return d.guest.DiskGB > 0 || d.guest.Image != "" }

// transfer carries the migration out, and ends it on both sides. A step that has begun is not abandoned with ctx.
func (m *migrator) transfer(ctx context.Context) error {
	hold := context.WithoutCancel(ctx)
	if err := m.steps.Begin(ctx); err != nil {
		return err
	}
	failed := m.steps.Prepare(hold)
	if failed == nil {
		if failed = m.perform(ctx); failed != nil { // then the source has ended the migration
			_ = m.steps.Finish(hold, true) // the end of the connection does the same
			return failed
		}
		failed = m.steps.Finish(hold, false)
		if _, refused := errors.AsType[*rpc.Error](failed); failed != nil && !refused {
			return failed // whether the guest runs there is not known
		}
	}
	if err := m.steps.Confirm(hold, failed != nil); err != nil {
		m.d.o.Log.Warn("end of a live migration not confirmed", "guest", m.domain.guest.ID, "error", err)
	}
	return failed
}

// perform copies disks and memory. It aborts the copying when ctx ends, when the destination does not answer, and when
// it takes too long. If the copy is complete nevertheless, that counts. When its completion is forced, the guest is
// paused, so that it does not write its memory any more; libvirt lets it run at the destination, or here after a fault.
func (m *migrator) perform(ctx context.Context) error {
	hold := context.WithoutCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.steps.Perform(hold) }()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var late <-chan time.Time
	limit := m.limit()
	if limit > 0 {
		late = time.After(limit)
	}
	ended, lost, force := ctx.Done(), m.steps.Target.Done(), m.to.Force
	pausing := false
	var why error
	var giveUp <-chan time.Time
	for {
		select {
		case err := <-done:
			if err != nil && why != nil {
				return why
			}
			return err
		case <-ended:
			ended, why = nil, fault.New(fault.Unavailable, "the live migration is aborted: %w", context.Cause(ctx))
		case <-force:
			force, pausing = nil, true
		case <-late:
			why = fault.New(fault.Conflict, "the live migration has not ended within %s: the guest may write its memory "+
				"faster than it is copied; set [libvirt] live_migration_permit_auto_converge, or "+
				"live_migration_completion_timeout", limit)
		case <-lost:
			lost, why = nil, fault.New(fault.Unavailable, "the connection to libvirt on host %s has ended", m.to.Host)
		case <-giveUp:
			m.steps.Source.Close() // libvirt here does not answer; it aborts when it notices
		case <-tick.C:
			if _, err := m.steps.Target.LibVersion(hold); err != nil && why == nil {
				why = fault.New(fault.Unavailable, "libvirt on host %s does not answer: %w", m.to.Host, err)
			}
		}
		if pausing && why == nil {
			pausing = !m.pause(hold)
		}
		if why != nil { // libvirt refuses while the copy does not begin yet, so it is repeated
			m.abort(hold)
		}
		if why != nil && giveUp == nil {
			giveUp = time.After(abortTime)
		}
	}
}

// abort aborts the copying, on the connection of all other calls.
func (m *migrator) abort(ctx context.Context) {
	c, _, err := m.d.connect(ctx)
	if err == nil {
		err = c.AbortJob(ctx, m.domain.Domain)
	}
	if err != nil {
		m.d.o.Log.Info("live migration not aborted, will retry", "guest", m.domain.guest.ID, "error", err)
	}
}

// pause pauses the guest, and reports whether it is paused.
func (m *migrator) pause(ctx context.Context) bool {
	c, _, err := m.d.connect(ctx)
	if err == nil {
		err = rpc.Suspend(ctx, c, m.domain.Domain)
	}
	if err != nil {
		m.d.o.Log.Info("guest of a live migration not paused, will retry", "guest", m.domain.guest.ID, "error", err)
	}
	return err == nil
}

// limit returns how long copying may take; 0: any time.
func (m *migrator) limit() time.Duration {
	g := m.domain.guest
	return m.d.o.Migration.Limit * time.Duration(max(minimalGB, g.MemoryMB/1024+g.DiskGB))
}
