package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// State is the state of a domain (virDomainState).
type State int

// The states that the driver distinguishes.
const (
	Running  State = 1
	Paused   State = 3
	Shutdown State = 4 // it is being shut down
	Shutoff  State = 5
	Crashed  State = 6
)

// Reasons of Shutoff (virDomainShutoffReason).
const (
	ShutDownByGuest  = 1 // its operating system has shut down
	EndedByMigration = 4 // it runs on another host
)

// The reasons of Paused that last (virDomainPausedReason). libvirt gives the first for a CPU that QEMU cannot emulate.
const (
	PausedByQEMU  = 0
	PausedByUser  = 1
	PausedByDisk  = 5
	PausedByCrash = 10
)

// LibVersion returns the version of libvirt, such as "9.0.0".
func (c *Client) LibVersion(ctx context.Context) (string, error) {
	d, err := c.call(ctx, connectGetLibVersion, encoder{}, nil)
	if err != nil {
		return "", err
	}
	v := d.long()
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000), d.err()
}

// HypervisorVersion returns the version of QEMU: 1000000 times its first number, 1000 times the second, and the third.
func (c *Client) HypervisorVersion(ctx context.Context) (int, error) {
	d, err := c.call(ctx, connectGetVersion, encoder{}, nil)
	if err != nil {
		return 0, err
	}
	version := int(d.long())
	return version, d.err()
}

// Node is the hardware of the host.
type Node struct {
	MemoryKB uint64
	CPUs     int // threads
}

// Node returns the hardware of the host.
func (c *Client) Node(ctx context.Context) (n Node, err error) {
	d, err := c.call(ctx, nodeGetInfo, encoder{}, nil)
	if err != nil {
		return n, err
	}
	d.take(32 * 4) // the CPU model: one word for each character
	n = Node{MemoryKB: d.long(), CPUs: d.number()}
	return n, d.err()
}

// textOf makes a call that returns a text.
func (c *Client) textOf(ctx context.Context, p Procedure, arguments encoder) (string, error) {
	d, err := c.call(ctx, p, arguments, nil)
	if err != nil {
		return "", err
	}
	text := d.text()
	return text, d.err()
}

// Capabilities returns the capabilities of the host in XML.
func (c *Client) Capabilities(ctx context.Context) (string, error) {
	return c.textOf(ctx, connectGetCapabilities, encoder{})
}

// DomainCapabilities returns what domains of a machine type and virtualisation (kvm, qemu) can have, in XML. It returns
// an error if the host does not support them.
func (c *Client) DomainCapabilities(ctx context.Context, arch, machine, virtType string) (string, error) {
	var e encoder
	for _, text := range []string{"", arch, machine, virtType} {
		e.optionalText(text)
	}
	e.word(0)
	return c.textOf(ctx, getDomainCapabilities, e)
}

// Domains lists all domains, running or not.
func (c *Client) Domains(ctx context.Context) (list []Domain, err error) {
	return listDomains(ctx, c, 0)
}

// Transient lists the domains that run and have no definition.
func Transient(ctx context.Context, c *Client) (list []Domain, err error) {
	const transient = 8 // VIR_CONNECT_LIST_DOMAINS_TRANSIENT
	return listDomains(ctx, c, transient)
}

// listDomains lists the domains that flags select.
func listDomains(ctx context.Context, c *Client, flags uint32) (list []Domain, err error) {
	var e encoder
	e.word(1) // with results
	e.word(flags)
	d, err := c.call(ctx, connectListAllDomains, e, nil)
	if err != nil {
		return nil, err
	}
	for range d.count(24) {
		list = append(list, d.domain())
	}
	return list, d.err()
}

// Lookup returns a domain by UUID, or fault.NotFound.
func (c *Client) Lookup(ctx context.Context, id uuid.UUID) (Domain, error) {
	var e encoder
	e.fixed(id[:])
	return c.domainOf(ctx, domainLookupByUUID, e)
}

// domainOf makes a call that returns a domain.
func (c *Client) domainOf(ctx context.Context, p Procedure, arguments encoder) (Domain, error) {
	d, err := c.call(ctx, p, arguments, nil)
	if err != nil {
		return Domain{}, notFound(p, err)
	}
	out := d.domain()
	return out, d.err()
}

// notFound gives the error that there is no such domain its kind.
func notFound(p Procedure, err error) error {
	if known, ok := errors.AsType[*Error](err); ok && known.Code == ErrNoDomain {
		return fault.Wrap(fault.NotFound, err)
	}
	return err
}

// validateXML makes libvirt check XML against its schema (VIR_DOMAIN_DEFINE_VALIDATE).
const validateXML = 1

// Define creates or replaces the persistent definition of a domain.
func (c *Client) Define(ctx context.Context, xml string) (Domain, error) {
	var e encoder
	e.text(xml)
	e.word(validateXML)
	return c.domainOf(ctx, domainDefineXMLFlags, e)
}

// XMLKind is a form of a domain's definition (virDomainXMLFlags).
type XMLKind uint32

// The forms of a definition.
const (
	Live          XMLKind = 0 // as the domain runs
	Persistent    XMLKind = 2
	Migratable    XMLKind = 1 | 8     // Live with secrets and without what another host adds itself
	MigratableNew XMLKind = 1 | 2 | 8 // Persistent in the same way
)

// XML returns the definition of a domain.
func (c *Client) XML(ctx context.Context, of Domain, kind XMLKind) (string, error) {
	var e encoder
	e.domain(of)
	e.word(uint32(kind))
	text, err := c.textOf(ctx, domainGetXMLDesc, e)
	return text, notFound(domainGetXMLDesc, err)
}

// State returns the state of a domain and its reason.
func (c *Client) State(ctx context.Context, of Domain) (State, int, error) {
	var e encoder
	e.domain(of)
	e.word(0)
	d, err := c.call(ctx, domainGetState, e, nil)
	if err != nil {
		return 0, 0, notFound(domainGetState, err)
	}
	state, reason := State(d.number()), d.number()
	return state, reason, d.err()
}

// Start starts a defined domain.
func (c *Client) Start(ctx context.Context, of Domain) (Domain, error) {
	var e encoder
	e.domain(of)
	e.word(0)
	return c.domainOf(ctx, domainCreateWithFlags, e)
}

// Try starts a domain that is not defined. It ends with the connection.
func (c *Client) Try(ctx context.Context, xml string) (Domain, error) {
	const autoDestroy = 2
	var e encoder
	e.text(xml)
	e.word(autoDestroy)
	return c.domainOf(ctx, domainCreateXML, e)
}

// Shutdown asks the guest's operating system to shut down.
func (c *Client) Shutdown(ctx context.Context, of Domain) error {
	var e encoder
	e.domain(of)
	_, err := c.call(ctx, domainShutdown, e, nil)
	return notFound(domainShutdown, err)
}

// Destroy ends a running domain at once.
func (c *Client) Destroy(ctx context.Context, of Domain) error {
	return c.withFlags(ctx, domainDestroyFlags, of, 0)
}

// Undefine removes the persistent definition of a domain, with its saved state and snapshots' metadata. The file with
// the variables of its firmware stays.
func (c *Client) Undefine(ctx context.Context, of Domain) error {
	const managedSave, snapshots, keepNVRAM = 1, 2, 8
	return c.withFlags(ctx, domainUndefineFlags, of, managedSave|snapshots|keepNVRAM)
}

// withFlags makes a call with a domain and flags that returns nothing.
func (c *Client) withFlags(ctx context.Context, p Procedure, of Domain, flags uint32) error {
	var e encoder
	e.domain(of)
	e.word(flags)
	_, err := c.call(ctx, p, e, nil)
	return notFound(p, err)
}

// Impact is which definitions of a domain a change affects (virDomainModificationImpact).
type Impact uint32

// The definitions of a domain that a change affects.
const (
	RunningDomain Impact = 1
	Definition    Impact = 2
)

// ImpactOn returns what a change of a whole domain affects: the definition, and the running domain if it runs.
func ImpactOn(running bool) Impact {
	if running {
		return RunningDomain | Definition
	}
	return Definition
}

// SetMetadata replaces the metadata of a namespace, an XML element, in definitions of a domain.
func (c *Client) SetMetadata(ctx context.Context, of Domain, affected Impact, namespace, prefix, xml string) error {
	const element = 2 // VIR_DOMAIN_METADATA_ELEMENT
	var e encoder
	e.domain(of)
	e.word(element)
	e.optionalText(xml)
	e.optionalText(prefix)
	e.optionalText(namespace)
	e.word(uint32(affected))
	_, err := c.call(ctx, domainSetMetadata, e, nil)
	return notFound(domainSetMetadata, err)
}

// Attach adds a device, an XML element, to a domain.
func (c *Client) Attach(ctx context.Context, of Domain, affected Impact, xml string) error {
	return changeDevice(ctx, c, domainAttachDevice, of, affected, xml)
}

// Detach removes a device from a domain. A running guest releases the device some time later, or never.
func (c *Client) Detach(ctx context.Context, of Domain, affected Impact, xml string) error {
	return changeDevice(ctx, c, domainDetachDevice, of, affected, xml)
}

func changeDevice(ctx context.Context, c *Client, p Procedure, of Domain, affected Impact, xml string) error {
	var e encoder
	e.domain(of)
	e.text(xml)
	e.word(uint32(affected))
	_, err := c.call(ctx, p, e, nil)
	return notFound(p, err)
}

// Console opens the serial console of a running domain. With force, another client loses it.
func (c *Client) Console(ctx context.Context, of Domain, force bool) (*Stream, error) {
	var e encoder
	e.domain(of)
	e.optionalText("")                                // the first console
	e.word(map[bool]uint32{true: 1, false: 2}[force]) // VIR_DOMAIN_CONSOLE_FORCE or SAFE
	s := newStream(domainOpenConsole, c.send, c.forgetStream)
	if _, err := c.call(ctx, domainOpenConsole, e, s); err != nil {
		return nil, notFound(domainOpenConsole, err)
	}
	return s, nil
}
