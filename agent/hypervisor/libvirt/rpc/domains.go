package rpc

import (
	"context"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// State is the state of a domain (virDomainState).
type State int

// The states that the driver distinguishes.
const (
	Running  = State(libvirt.DomainRunning)
	Paused   = State(libvirt.DomainPaused)
	Shutdown = State(libvirt.DomainShutdown) // it is being shut down
	Shutoff  = State(libvirt.DomainShutoff)
	Crashed  = State(libvirt.DomainCrashed)
)

// Reasons of Shutoff (virDomainShutoffReason).
const (
	ShutDownByGuest  = int(libvirt.DomainShutoffShutdown) // its operating system has shut down
	EndedByMigration = int(libvirt.DomainShutoffMigrated) // it runs on another host
)

// PausedByMigration is the reason of Paused of a domain that is migrated, at both hosts (virDomainPausedReason).
const PausedByMigration = int(libvirt.DomainPausedMigration)

// The reasons of Paused that last (virDomainPausedReason). libvirt gives the first for a CPU that QEMU cannot emulate.
const (
	PausedByQEMU  = int(libvirt.DomainPausedUnknown)
	PausedByUser  = int(libvirt.DomainPausedUser)
	PausedByDisk  = int(libvirt.DomainPausedIoerror)
	PausedByCrash = int(libvirt.DomainPausedCrashed)
)

// LibVersion returns the version of libvirt, such as "9.0.0".
func (c *Client) LibVersion(ctx context.Context) (string, error) {
	v, err := call(ctx, c, reads, (*libvirt.Libvirt).ConnectGetLibVersion)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000), nil
}

// HypervisorVersion returns the version of QEMU: 1000000 times its first number, 1000 times the second, and the third.
func (c *Client) HypervisorVersion(ctx context.Context) (int, error) {
	version, err := call(ctx, c, reads, (*libvirt.Libvirt).ConnectGetVersion)
	return int(version), err
}

// Node is the hardware of the host.
type Node struct {
	MemoryKB uint64
	CPUs     int // threads
}

// Node returns the hardware of the host.
func (c *Client) Node(ctx context.Context) (Node, error) {
	return call(ctx, c, reads, func(l *libvirt.Libvirt) (Node, error) {
		_, memory, cpus, _, _, _, _, _, err := l.NodeGetInfo()
		return Node{memory, int(cpus)}, err
	})
}

// Capabilities returns the capabilities of the host in XML.
func (c *Client) Capabilities(ctx context.Context) (string, error) {
	return call(ctx, c, probes, (*libvirt.Libvirt).ConnectGetCapabilities)
}

// DomainCapabilities returns what domains of a machine type and virtualisation (kvm, qemu) can have, in XML. It returns
// an error if the host does not support them.
func (c *Client) DomainCapabilities(ctx context.Context, arch, machine, virtType string) (string, error) {
	return call(ctx, c, probes, func(l *libvirt.Libvirt) (string, error) {
		return l.ConnectGetDomainCapabilities(nil, optional(arch), optional(machine), optional(virtType), 0)
	})
}

// optional returns a text that may be missing; an empty one is.
func optional(text string) libvirt.OptString {
	if text == "" {
		return nil
	}
	return libvirt.OptString{text}
}

// Domains lists all domains, running or not.
func (c *Client) Domains(ctx context.Context) (list []Domain, err error) {
	return listDomains(ctx, c, 0)
}

// Transient lists the domains that run and have no definition.
func Transient(ctx context.Context, c *Client) (list []Domain, err error) {
	return listDomains(ctx, c, libvirt.ConnectListDomainsTransient)
}

// listDomains lists the domains that flags select.
func listDomains(ctx context.Context, c *Client, flags libvirt.ConnectListAllDomainsFlags) (list []Domain, err error) {
	found, err := call(ctx, c, reads, func(l *libvirt.Libvirt) ([]libvirt.Domain, error) {
		all, _, err := l.ConnectListAllDomains(1, flags)
		return all, err
	})
	for _, one := range found {
		list = append(list, domainOf(one))
	}
	return list, err
}

// Lookup returns a domain by UUID, or fault.NotFound.
func (c *Client) Lookup(ctx context.Context, id uuid.UUID) (Domain, error) {
	return domainBy(ctx, c, reads, func(l *libvirt.Libvirt) (libvirt.Domain, error) {
		return l.DomainLookupByUUID(libvirt.UUID(id))
	})
}

// domainBy makes a call that returns a domain.
func domainBy(ctx context.Context, c *Client, e effort, f func(*libvirt.Libvirt) (libvirt.Domain, error)) (Domain,
	error) {
	found, err := call(ctx, c, e, f)
	return domainOf(found), notFound(err)
}

// change makes a call that changes a domain and returns nothing.
func change(ctx context.Context, c *Client, e effort, f func(*libvirt.Libvirt) error) error {
	return notFound(do(ctx, c, e, f))
}

// Define creates or replaces the persistent definition of a domain. libvirt checks it against its schema.
func (c *Client) Define(ctx context.Context, xml string) (Domain, error) {
	return domainBy(ctx, c, starts, func(l *libvirt.Libvirt) (libvirt.Domain, error) {
		return l.DomainDefineXMLFlags(xml, libvirt.DomainDefineValidate)
	})
}

// XMLKind is a form of a domain's definition.
type XMLKind = libvirt.DomainXMLFlags

// The forms of a definition.
const (
	Live       XMLKind = 0 // as the domain runs
	Persistent         = libvirt.DomainXMLInactive
	// Migratable is Live with secrets and without what another host adds itself.
	Migratable    = libvirt.DomainXMLSecure | libvirt.DomainXMLMigratable
	MigratableNew = Persistent | Migratable
)

// XML returns the definition of a domain.
func (c *Client) XML(ctx context.Context, of Domain, kind XMLKind) (string, error) {
	text, err := call(ctx, c, reads, func(l *libvirt.Libvirt) (string, error) {
		return l.DomainGetXMLDesc(of.known(), kind)
	})
	return text, notFound(err)
}

// State returns the state of a domain and its reason.
func (c *Client) State(ctx context.Context, of Domain) (State, int, error) {
	got, err := call(ctx, c, reads, func(l *libvirt.Libvirt) ([2]int32, error) {
		state, reason, err := l.DomainGetState(of.known(), 0)
		return [2]int32{state, reason}, err
	})
	return State(got[0]), int(got[1]), notFound(err)
}

// Start starts a defined domain.
func (c *Client) Start(ctx context.Context, of Domain) (Domain, error) {
	return domainBy(ctx, c, starts, func(l *libvirt.Libvirt) (libvirt.Domain, error) {
		return l.DomainCreateWithFlags(of.known(), 0)
	})
}

// Try starts a domain that is not defined. It ends with the connection.
func (c *Client) Try(ctx context.Context, xml string) (Domain, error) {
	return domainBy(ctx, c, starts, func(l *libvirt.Libvirt) (libvirt.Domain, error) {
		return l.DomainCreateXML(xml, libvirt.DomainStartAutodestroy)
	})
}

// Shutdown asks the guest's operating system to shut down.
func (c *Client) Shutdown(ctx context.Context, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error { return l.DomainShutdown(of.known()) })
}

// Suspend stops the CPUs of a domain, which stays as it is. One that is paused is not changed.
func Suspend(ctx context.Context, c *Client, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error { return l.DomainSuspend(of.known()) })
}

// InjectNMI gives a domain a non-maskable interrupt.
func InjectNMI(ctx context.Context, c *Client, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error { return l.DomainInjectNmi(of.known(), 0) })
}

// Save ends a domain and stores its memory in a file of libvirt, from which Start continues.
func Save(ctx context.Context, c *Client, of Domain) error {
	return change(ctx, c, saves, func(l *libvirt.Libvirt) error { return l.DomainManagedSave(of.known(), 0) })
}

// RemoveSaved removes what Save has stored.
func RemoveSaved(ctx context.Context, c *Client, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error { return l.DomainManagedSaveRemove(of.known(), 0) })
}

// Saved lists the domains that Save has ended, and that were not started since.
func Saved(ctx context.Context, c *Client) (list []Domain, err error) {
	return listDomains(ctx, c, libvirt.ConnectListDomainsManagedsave)
}

// Resume lets a paused domain continue.
func (c *Client) Resume(ctx context.Context, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error { return l.DomainResume(of.known()) })
}

// Destroy ends a running domain at once.
func (c *Client) Destroy(ctx context.Context, of Domain) error {
	return change(ctx, c, starts, func(l *libvirt.Libvirt) error { return l.DomainDestroyFlags(of.known(), 0) })
}

// Undefine removes the persistent definition of a domain, with its saved state and the metadata of snapshots and of
// checkpoints, with which a program for backups may have marked its disks. The file with the variables of its firmware
// stays.
func (c *Client) Undefine(ctx context.Context, of Domain) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error {
		return l.DomainUndefineFlags(of.known(), libvirt.DomainUndefineManagedSave|
			libvirt.DomainUndefineSnapshotsMetadata|libvirt.DomainUndefineCheckpointsMetadata|
			libvirt.DomainUndefineKeepNvram)
	})
}

// Impact is which definitions of a domain a change affects.
type Impact = libvirt.DomainModificationImpact

// The definitions of a domain that a change affects.
const (
	RunningDomain = libvirt.DomainAffectLive
	Definition    = libvirt.DomainAffectConfig
)

// ImpactOn returns what a change of a whole domain affects: the definition, and the running domain if it runs.
func ImpactOn(running bool) Impact {
	if running {
		return RunningDomain | Definition
	}
	return Definition
}

// Metadata returns the metadata of a namespace in the definition of a domain: an XML element, in which the names of
// this namespace have none. It is empty if there are none. NotFound: there is no such domain.
func (c *Client) Metadata(ctx context.Context, of Domain, namespace string) (string, error) {
	text, err := call(ctx, c, reads, func(l *libvirt.Libvirt) (string, error) {
		return l.DomainGetMetadata(of.known(), int32(libvirt.DomainMetadataElement), optional(namespace), Definition)
	})
	if hasCode(err, ErrNoMetadata) {
		return "", nil
	}
	return text, notFound(err)
}

// SetMetadata replaces the metadata of a namespace, an XML element, in definitions of a domain.
func (c *Client) SetMetadata(ctx context.Context, of Domain, affected Impact, namespace, prefix, xml string) error {
	return change(ctx, c, alters, func(l *libvirt.Libvirt) error {
		return l.DomainSetMetadata(of.known(), int32(libvirt.DomainMetadataElement), optional(xml), optional(prefix),
			optional(namespace), affected)
	})
}

// Attach adds a device, an XML element, to a domain.
func (c *Client) Attach(ctx context.Context, of Domain, affected Impact, xml string) error {
	return change(ctx, c, starts, func(l *libvirt.Libvirt) error {
		return l.DomainAttachDeviceFlags(of.known(), xml, uint32(affected))
	})
}

// Detach removes a device from a domain. A running guest releases the device some time later, or never.
func (c *Client) Detach(ctx context.Context, of Domain, affected Impact, xml string) error {
	return change(ctx, c, starts, func(l *libvirt.Libvirt) error {
		return l.DomainDetachDeviceFlags(of.known(), xml, uint32(affected))
	})
}

// Console opens the serial console of a running domain. With force, another client loses it.
func (c *Client) Console(ctx context.Context, of Domain, force bool) (*Stream, error) {
	flags := libvirt.DomainConsoleSafe
	if force {
		flags = libvirt.DomainConsoleForce
	}
	s := newStream(false)
	if err := c.openStream(ctx, s, func(l *libvirt.Libvirt) error { // of the first console
		return l.DomainOpenConsoleBidirectional(of.known(), nil, consoleEnd{s}, consoleEnd{s}, uint32(flags))
	}); err != nil {
		return nil, notFound(err)
	}
	return s, nil
}
