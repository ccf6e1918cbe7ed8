package rpc

import (
	"context"
)

// Migration is one live migration of a domain, in which the caller carries messages between two daemons: Begin,
// Prepare, Perform, Finish and Confirm, in this order. Until Finish the domain counts for the source, and after it for
// the destination. Each connection is for this migration alone: when it ends, its daemon gives the migration up. Only
// after Perform that does not help: then the guest is paused at the source until someone knows whether Finish has
// started it.
type Migration struct {
	Source, Target *Client
	Domain         Domain // at the source
	Options        MigrationOptions

	uri    string // to which QEMU at the source connects
	cookie []byte // of the last step, for the next one
}

// MigrationOptions are what a migration transfers, and how.
type MigrationOptions struct {
	XML        string // the running domain at the destination
	Persistent string // its persistent definition there; it replaces the one that exists when the domain arrives
	Disks      bool   // copy the disks that can be written, without their backing files
	Shared     bool   // the disks are the same files at both hosts, even if libvirt cannot know that
	Address    string // of the destination for memory and disks; empty: its host name
	TLS        bool   // QEMU encrypts memory and disks
	Converge   bool   // slow the guest down if it writes faster than memory is transferred
	Bandwidth  int    // limit, MiB/s; 0: none
}

// virDomainMigrateFlags.
const (
	migrateLive         = 1 << 0
	migratePersistent   = 1 << 3
	migrateDisksOverlay = 1 << 7
	migrateProtection   = 1 << 8 // the definition cannot change during the migration
	migrateUnsafe       = 1 << 9 // does not check that disks are on a file system that hosts can share
	migrateAbortOnError = 1 << 12
	migrateConverge     = 1 << 13
	migrateTLS          = 1 << 16
)

// flags returns the flags of the calls to the source.
func (m *Migration) flags() uint32 {
	flags := uint32(migrateLive | migratePersistent | migrateProtection)
	for flag, set := range map[uint32]bool{migrateDisksOverlay | migrateAbortOnError: m.Options.Disks,
		migrateUnsafe: m.Options.Shared, migrateTLS: m.Options.TLS, migrateConverge: m.Options.Converge} {
		if set {
			flags |= flag
		}
	}
	return flags
}

// targetFlags returns the flags of the calls to the destination.
func (m *Migration) targetFlags() uint32 {
	return m.flags() &^ (migrateProtection | migrateAbortOnError | migrateConverge)
}

// params appends the parameters of a call.
func (m *Migration) params(e *encoder) {
	const unsigned, text = 4, 7 // virTypedParameterType
	var params encoder
	count := uint32(0)
	add := func(name, value string) {
		if value != "" {
			count++
			params.text(name)
			params.word(text)
			params.text(value)
		}
	}
	add("destination_name", m.Domain.Name)
	add("destination_xml", m.Options.XML)
	add("persistent_xml", m.Options.Persistent)
	switch {
	case m.uri != "":
		add("migrate_uri", m.uri)
	case m.Options.Address != "":
		add("migrate_uri", "tcp://"+m.Options.Address)
	}
	if m.Options.Bandwidth > 0 {
		count++
		params.text("bandwidth")
		params.word(unsigned)
		params.long(uint64(m.Options.Bandwidth))
	}
	e.word(count)
	e.fixed(params.data)
}

// Begin checks at the source that the domain can migrate, and keeps others from changing it.
func (m *Migration) Begin(ctx context.Context) error {
	var e encoder
	e.domain(m.Domain)
	m.params(&e)
	e.word(m.flags())
	d, err := m.Source.call(ctx, domainMigrateBegin, e, nil)
	if err != nil {
		return err
	}
	m.cookie = d.opaque()
	m.Options.XML = d.text()
	return d.err()
}

// Prepare starts a paused domain at the destination that receives the memory.
func (m *Migration) Prepare(ctx context.Context) error {
	var e encoder
	m.params(&e)
	e.opaque(m.cookie)
	e.word(m.targetFlags())
	m.cookie = nil
	d, err := m.Target.call(ctx, domainMigratePrepare, e, nil)
	if err != nil {
		return err
	}
	m.cookie = d.opaque()
	if uri := d.optionalText(); uri != "" {
		m.uri = uri
	}
	return d.err()
}

// Perform copies disks and memory, and pauses the domain at the source. It returns when that is done, fails or is
// aborted (AbortJob), which may take hours.
func (m *Migration) Perform(ctx context.Context) error {
	var e encoder
	e.domain(m.Domain)
	e.optionalText("") // not from daemon to daemon
	m.params(&e)
	e.opaque(m.cookie)
	e.word(m.flags())
	m.cookie = nil
	d, err := m.Source.call(ctx, domainMigratePerform, e, nil)
	if err != nil {
		return err
	}
	m.cookie = d.opaque()
	return d.err()
}

// Finish starts the domain at the destination, or ends it there if the migration is cancelled. After an error of
// libvirt (Error) the domain does not run at the destination; after another one that is not known.
func (m *Migration) Finish(ctx context.Context, cancelled bool) error {
	var e encoder
	m.params(&e)
	e.opaque(m.cookie)
	e.word(m.targetFlags())
	e.bool(cancelled)
	m.cookie = nil
	d, err := m.Target.call(ctx, domainMigrateFinish, e, nil)
	if err != nil {
		return err
	}
	d.domain()
	m.cookie = d.opaque()
	return d.err()
}

// Confirm ends the domain at the source, or lets it continue there if the migration is cancelled.
func (m *Migration) Confirm(ctx context.Context, cancelled bool) error {
	var e encoder
	e.domain(m.Domain)
	m.params(&e)
	e.opaque(m.cookie)
	e.word(m.flags())
	e.bool(cancelled)
	_, err := m.Source.call(ctx, domainMigrateConfirm, e, nil)
	return err
}

// AbortJob aborts the migration of a domain, if one is in progress. Perform then returns an error.
func (c *Client) AbortJob(ctx context.Context, of Domain) error {
	var e encoder
	e.domain(of)
	_, err := c.call(ctx, domainAbortJob, e, nil)
	return notFound(domainAbortJob, err)
}

// Resume lets a paused domain continue.
func (c *Client) Resume(ctx context.Context, of Domain) error {
	var e encoder
	e.domain(of)
	_, err := c.call(ctx, domainResume, e, nil)
	return notFound(domainResume, err)
}
