package rpc

import (
	"cmp"
	"context"
	"strings"

	"github.com/digitalocean/go-libvirt"
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

// flags returns the flags of the calls to the source. The definition cannot change during the migration.
func (m *Migration) flags() libvirt.DomainMigrateFlags {
	flags := libvirt.MigrateLive | libvirt.MigratePersistDest | libvirt.MigrateChangeProtection
	for flag, set := range map[libvirt.DomainMigrateFlags]bool{
		libvirt.MigrateNonSharedInc | libvirt.MigrateAbortOnError: m.Options.Disks,
		libvirt.MigrateUnsafe:       m.Options.Shared, // does not check that the file system of the disks can be shared
		libvirt.MigrateTLS:          m.Options.TLS,
		libvirt.MigrateAutoConverge: m.Options.Converge,
	} {
		if set {
			flags |= flag
		}
	}
	return flags
}

// targetFlags returns the flags of the calls to the destination.
func (m *Migration) targetFlags() uint32 {
	return uint32(m.flags() &^ (libvirt.MigrateChangeProtection | libvirt.MigrateAbortOnError |
		libvirt.MigrateAutoConverge))
}

// params returns the parameters of a call.
func (m *Migration) params() (params []libvirt.TypedParam) {
	add := func(name, value string) {
		if value != "" {
			params = append(params, libvirt.TypedParam{Field: name, Value: *libvirt.NewTypedParamValueString(value)})
		}
	}
	add(libvirt.MigrateParamDestName, m.Domain.Name)
	add(libvirt.MigrateParamDestXML, m.Options.XML)
	add(libvirt.MigrateParamPersistXML, m.Options.Persistent)
	switch {
	case m.uri != "":
		add(libvirt.MigrateParamURI, m.uri)
	case m.Options.Address != "":
		add(libvirt.MigrateParamURI, "tcp://"+m.Options.Address)
	}
	if m.Options.Bandwidth > 0 {
		params = append(params, libvirt.TypedParam{Field: libvirt.MigrateParamBandwidth,
			Value: *libvirt.NewTypedParamValueUllong(uint64(m.Options.Bandwidth))})
	}
	return params
}

// result is what a step returns: the cookie for the next one, and a text.
type result struct {
	cookie []byte
	text   string
}

// step makes the call of a step, with the cookie of the one before, and keeps its cookie.
func (m *Migration) step(ctx context.Context, c *Client, e effort,
	f func(l *libvirt.Libvirt, cookie []byte) (result, error)) (text string, err error) {
	cookie := m.cookie
	m.cookie = nil
	got, err := call(ctx, c, e, func(l *libvirt.Libvirt) (result, error) { return f(l, cookie) })
	m.cookie = got.cookie
	return got.text, err
}

// Begin checks at the source that the domain can migrate, and keeps others from changing it.
func (m *Migration) Begin(ctx context.Context) error {
	params, flags := m.params(), uint32(m.flags())
	xml, err := m.step(ctx, m.Source, starts, func(l *libvirt.Libvirt, _ []byte) (out result, err error) {
		out.cookie, out.text, err = l.DomainMigrateBegin3Params(m.Domain.known(), params, flags)
		return out, err
	})
	if err == nil {
		m.Options.XML = xml
	}
	return err
}

// Prepare starts a paused domain at the destination that receives the memory.
func (m *Migration) Prepare(ctx context.Context) error {
	params, flags := m.params(), m.targetFlags()
	uri, err := m.step(ctx, m.Target, starts, func(l *libvirt.Libvirt, cookie []byte) (result, error) {
		next, uri, err := l.DomainMigratePrepare3Params(params, cookie, flags)
		return result{next, strings.Join(uri, "")}, err
	})
	m.uri = cmp.Or(uri, m.uri)
	return err
}

// Perform copies disks and memory, and pauses the domain at the source. It returns when that is done, fails or is
// aborted (AbortJob), which may take hours.
func (m *Migration) Perform(ctx context.Context) error {
	params, flags := m.params(), m.flags()
	_, err := m.step(ctx, m.Source, migrates, func(l *libvirt.Libvirt, cookie []byte) (result, error) {
		next, err := l.DomainMigratePerform3Params(m.Domain.known(), nil, params, cookie, flags) // not between daemons
		return result{cookie: next}, err
	})
	return err
}

// Finish starts the domain at the destination, or ends it there if the migration is cancelled. After an error of
// libvirt (Error) the domain does not run at the destination; after another one that is not known.
func (m *Migration) Finish(ctx context.Context, cancelled bool) error {
	params, flags := m.params(), m.targetFlags()
	_, err := m.step(ctx, m.Target, starts, func(l *libvirt.Libvirt, cookie []byte) (result, error) {
		_, next, err := l.DomainMigrateFinish3Params(params, cookie, flags, number(cancelled))
		return result{cookie: next}, err
	})
	return err
}

// Confirm ends the domain at the source, or lets it continue there if the migration is cancelled.
func (m *Migration) Confirm(ctx context.Context, cancelled bool) error {
	params, flags := m.params(), uint32(m.flags())
	_, err := m.step(ctx, m.Source, starts, func(l *libvirt.Libvirt, cookie []byte) (result, error) {
		return result{}, l.DomainMigrateConfirm3Params(m.Domain.known(), params, cookie, flags, number(cancelled))
	})
	return err
}

// number returns 1 for true and 0 for false.
func number(set bool) int32 {
	if set {
		return 1
	}
	return 0
}

// HasJob reports whether libvirt works on a domain: a migration from here or to here, a backup.
func HasJob(ctx context.Context, c *Client, of Domain) (bool, error) {
	kind, err := call(ctx, c, reads, func(l *libvirt.Libvirt) (int32, error) {
		kind, _, err := l.DomainGetJobStats(of.known(), 0)
		return kind, err
	})
	switch {
	case hasCode(err, ErrOperationInvalid): // the domain does not run
		return false, nil
	case hasCode(err, libvirt.ErrOperationUnsupported): // libvirt has statistics of a migration at its source alone
		return true, nil
	}
	return libvirt.DomainJobType(kind) != libvirt.DomainJobNone, notFound(err)
}

// AbortJob aborts the migration of a domain, if one is in progress. Perform then returns an error.
func (c *Client) AbortJob(ctx context.Context, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error { return l.DomainAbortJob(of.known()) })
}
