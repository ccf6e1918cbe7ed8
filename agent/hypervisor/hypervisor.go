// Package hypervisor is the interface between the agent and the driver that runs guests on a host.
//
// Every driver must pass the tests of package hypervisortest. Package fake stores guests as files.
package hypervisor

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/provider"
)

// Hypervisor runs the guests of one host. Its methods may be called concurrently; for one guest they are called by
// one goroutine at a time. A driver keeps its guests when it or the agent restarts. It does not arbitrate devices:
// the agent's journal does.
//
// All methods return faults. Unavailable means that nothing was decided and that the same call may succeed later
// (the daemon restarts, the context ended). Every other kind is final for this call.
type Hypervisor interface {
	// Check returns nil if the hypervisor answers and can build guests. It is called every few seconds, changes nothing
	// and should not take longer than one. While it fails or does not return, the host gets no new guests.
	Check(ctx context.Context) error
	// Capacity returns the host's capacity for guests, including what guests use.
	Capacity(ctx context.Context) (Capacity, error)
	// Guests lists the guests that this driver has built and not destroyed, by id, each with its devices. A guest
	// whose Build has not returned is listed completely or not at all.
	Guests(ctx context.Context) ([]Guest, error)
	// Build creates or changes the guest and returns when it is as described, running or stopped. A guest that is
	// already so is not changed; one with only another power state is started, stopped, paused or suspended; one with
	// another Build number is rebuilt with the devices that it has. The other fields of a device are stored again.
	// Interfaces are attached and detached, also while the guest runs; one with a device counts as that device, which the
	// guest gets or loses with it. A guest that is Lost becomes again what it was, with the disk that it had. Conflict:
	// the guest has other devices that are not those of its interfaces, the driver cannot attach or detach a device,
	// another guest holds one of these, or the guest has departed. NotFound: the guest is Kept, and there is none. After a
	// fault nothing new may remain that Destroy does not remove, and what existed before stays.
	//
	// Only a guest that runs can be Paused or Suspended. Unavailable: it has ended meanwhile. Conflict: the driver cannot
	// do that, or not with the devices of the guest. A suspended guest that is to be Stopped loses its memory.
	//
	// A guest with DiskFrom that does not exist gets the content of the disk of that guest, which stays as it is; a disk
	// that is too small for the guest grows. It gets no other disk: Unavailable as long as that guest cannot be read.
	Build(ctx context.Context, g Guest) error
	// Rename changes the guest's id and its server; the guest itself is not touched. If there is no guest was, it
	// counts as renamed. Conflict: both guests exist.
	Rename(ctx context.Context, was, id, server string) error
	// Migrate live-migrates a running guest to another host, with a device there for each device here, and returns
	// when it runs there. The guest is then listed as departed until it is destroyed, which does not touch the guest
	// on the other host. A departed guest counts as migrated. After a fault the guest runs here as before.
	Migrate(ctx context.Context, id string, to Destination) error
	// Destroy ends the guest, returns its devices to the host, and returns when they can be used by another guest. A
	// missing guest counts as destroyed.
	Destroy(ctx context.Context, id string) error
}

// Starter is implemented by drivers that need to do work when an agent starts. The agent calls Start after it has
// excluded every other agent and before it lists guests, and again before it lists them later, until it succeeds. A dry
// run does not call it. Invalid: the agent must not serve the host with this configuration, and ends. Other faults are
// logged.
type Starter interface {
	Start(ctx context.Context) error
}

// Receiver is implemented by drivers that must prepare a host for a guest that will arrive by live migration.
type Receiver interface {
	// Receive prepares the host for the guest, which runs on another host. It may be repeated. The guest is not listed
	// until it has arrived, which the driver of the source brings about. Build then changes it as it must be. If the
	// guest has not arrived, Build makes a new one, and Destroy removes what was prepared. Conflict: as for Build.
	Receive(ctx context.Context, g Guest) error
	// Forget removes what Receive has prepared, if the guest has not arrived.
	Forget(ctx context.Context, id string) error
}

// Watcher is implemented by drivers that report when guests change by themselves, such as a guest that ends or that an
// administrator stops.
type Watcher interface {
	// Watch calls changed whenever guests may have changed, until ctx ends. Changes that the driver itself makes count.
	Watch(ctx context.Context, changed func())
}

// Maintainer is implemented by drivers that have periodic work of their own, such as the removal of unused files.
type Maintainer interface {
	// Maintain does this work until ctx ends. It changes no guest.
	Maintain(ctx context.Context)
}

// Uploader is implemented by drivers whose guests have disks that can become images.
type Uploader interface {
	// Upload sends the disk of a guest to the image service, as the data of an image that has none, and returns the data
	// that the image service then has. They are verified: the image service has their size and checksum. The guest and its
	// disk stay. A repeated call continues what an earlier one has begun, also one of another process. What it leaves on
	// the host beside the disk stays until EndUpload, and Guest.Uploads names it.
	// Unavailable: the image service or the hypervisor does not answer. All other faults are final.
	Upload(ctx context.Context, id string, to Upload) (ImageData, error)
	// EndUpload ends the copies of a guest's disk that are in progress, and removes what Upload has left of them on the
	// host. It may be repeated.
	EndUpload(ctx context.Context, id string) error
}

// Upload is the image that gets the disk of a guest.
type Upload struct {
	Image   string // UUID
	Copy    bool   // as it is at one moment, also of a guest that runs; otherwise the guest is stopped
	Quiesce bool   // with Copy: a running guest must have frozen its file systems at that moment
}

// ImageData describes the data of an image.
type ImageData struct {
	Bytes  int64
	SHA512 string // hexadecimal
}

// Consoles is implemented by drivers that keep what guests print to their serial consoles.
type Consoles interface {
	// Console returns the last bytes that a guest has printed, at most this number. NotFound: there is no such guest.
	Console(ctx context.Context, id string, bytes int) ([]byte, error)
}

// InteractiveConsoles is implemented by drivers whose guests have serial consoles that a user can type into.
type InteractiveConsoles interface {
	// OpenConsole opens the serial console of a running guest. What is read is what the guest prints from now on; the end
	// is io.EOF. Close ends a waiting Read. NotFound: there is no such guest. Conflict: it does not run, or its console
	// is open already.
	OpenConsole(ctx context.Context, id string) (io.ReadWriteCloser, error)
}

// Displays is implemented by drivers whose guests have displays.
type Displays interface {
	// OpenDisplay connects to the VNC server of a running guest. NotFound: there is no such guest. Conflict: it does not
	// run, or has no display.
	OpenDisplay(ctx context.Context, id string) (io.ReadWriteCloser, error)
}

// DiskSource is a stopped guest whose disk moves to another guest.
type DiskSource struct {
	Host  string // where it is; maybe this host
	Guest string // its id there
}

// Adopter is implemented by drivers that recognise the hypervisor that has their guests, and do not use another one,
// which lacks them, until an operator decides.
type Adopter interface {
	// Adoptable returns the guests as they are listed after Adopt, and why the hypervisor is not used before; empty: it is
	// used. It changes nothing.
	Adoptable(ctx context.Context) (guests []Guest, why string, err error)
	// Adopt makes the hypervisor the one that the driver knows. It changes no guest. It may be repeated.
	Adopt(ctx context.Context) error
}

// Destination is the target of a live migration.
type Destination struct {
	Host    string
	Devices map[device.ID]device.ID // device here → device there
	// Force is closed when the migration must be completed, even if the guest is paused for that; nil: never
	Force <-chan struct{}
}

// MigrationSettler is implemented by drivers of which Guests does not show how an interrupted migration has ended.
type MigrationSettler interface {
	// SettleMigration ends a migration of a guest that was interrupted, and reports whether the guest has departed. If
	// not, it runs here as before. It may be repeated. Unavailable: how the migration has ended is not known yet.
	SettleMigration(ctx context.Context, id string) (departed bool, err error)
}

// Transfer is a copy of an image or a disk in progress.
type Transfer struct {
	Subject string // the id of the image, or of the guest with the disk
	Text    string // a sentence
}

// Remark is a sentence for operators.
type Remark struct {
	// Subject is the id of the guest, the path of the file or the name of the domain that it concerns; empty: the host.
	Subject string
	Text    string
}

// Remarks are several remarks.
type Remarks []Remark

// OfHost returns remarks that concern the host.
func OfHost(texts ...string) (list Remarks) {
	for _, text := range texts {
		list = append(list, Remark{Text: text})
	}
	return list
}

// String returns the texts.
func (r Remarks) String() string {
	texts := make([]string, len(r))
	for i, one := range r {
		texts[i] = one.Text
	}
	return strings.Join(texts, "; ")
}

// Capacity is the capacity of a host for guests, and its restrictions.
type Capacity struct {
	Type string // Nova's hypervisor_type: QEMU, phyp; FakeType
	// DiskImages is the format of the images that the disks of guests can become (qcow2, raw), or NoDisks. Empty: they
	// cannot, for the reason in NoDiskImages.
	DiskImages   string
	NoDiskImages string

	VCPUs    int // host threads
	MemoryMB int // MiB
	DiskGB   int // GiB
	// Remarks are what operators must know about the hypervisor, and about guests if it is not in Guest.Remark.
	Remarks Remarks
	// Transfers are the copies of images and disks in progress.
	Transfers []Transfer
	NoLive    string // why guests with devices cannot be live-migrated ("QEMU is older than 8.2.2"); empty: they can
	// NoDiskMoves is why disks cannot be moved between this host and another one, as a clause; empty: they can.
	NoDiskMoves string
	MoveAddress string // at which other hosts reach the hypervisor for moves; empty: the name of the host
}

// FakeType is the Type of a driver that runs no virtual machines.
const FakeType = "fake"

// NoDisks is Capacity.DiskImages of a driver that makes no disks.
const NoDisks = "none"

// Guest is one virtual machine. Its id is that of its entry in compute's assignments: the UUID of the server, or of
// the migration by which the server is about to leave. Drivers that keep records of guests in JSON store the fields
// that have names.
type Guest struct {
	ID       string      `json:"id"`
	Server   string      `json:"server,omitempty"` // UUID of the server; empty: ID
	Name     string      `json:"name"`
	VCPUs    int         `json:"vcpus"`
	MemoryMB int         `json:"memory_mb"`
	DiskGB   int         `json:"disk_gb"`
	Image    string      `json:"image,omitempty"` // UUID of the image of its root disk; empty: the disk is blank
	Hardware Hardware    `json:"hardware,omitzero"`
	Devices  []Device    `json:"devices,omitempty"` // by ID
	Cells    []GuestCell `json:"cells,omitempty"`   // NUMA cells by number; empty: none
	Stopped  bool        `json:"stopped,omitempty"` // it has its devices and does not run
	Build    int         `json:"build,omitempty"`   // number of rebuilds
	// It runs on another host now, and its devices here are not yet freed.
	Departed bool `json:"departed,omitempty"`
	Observed `json:"-"`
	// The guest whose disk Build copies for a new guest; nil: none. Guests does not return it.
	DiskFrom *DiskSource `json:"-"`
	// Of Build: the guest was built here and has a disk, so it is not built as a new one.
	Kept bool `json:"-"`

	// DiskImage is the UUID of the image whose data the disk becomes, in full, if Build makes it; empty: that of Image. It
	// is not listed, and does not change a disk that exists.
	DiskImage string `json:"-"`

	// Interfaces are in the guest's order; empty: none. One that Guests lists with a device and without a port is being
	// attached or detached; Build continues.
	Interfaces []Interface `json:"interfaces,omitempty"`

	Hold
	// The UUID of an image that it boots from a further disk instead of its own, for as long as it has this; empty: none.
	// The guest is stopped for a change. Conflict: the driver cannot do that.
	Rescue string `json:"rescue,omitempty"`
}

// Hold is why a guest does not run that continues from where it was.
type Hold struct {
	Paused    bool `json:"paused,omitempty"`    // it runs, and its CPUs do not
	Suspended bool `json:"suspended,omitempty"` // with Stopped: its memory is stored, and it continues with that
}

// Observed is what Guests lists of a guest beside what it was built as. Build ignores it, except that it restores what
// is lost.
type Observed struct {
	ShutDown bool   // with Stopped: its operating system has shut down although it should run
	Remark   string // what operators must know about it, as a sentence; empty: nothing
	Lost     string // why the hypervisor lacks what it had of it, as a clause; empty: nothing
	Uploads  string // the image of an Upload that has left something on the host; empty: none
}

// CheckDevices returns an error if a device has no id, as in a damaged record.
func (g Guest) CheckDevices() error {
	if slices.ContainsFunc(g.Devices, func(d Device) bool { return d.ID == device.ID{} }) {
		return errors.New("a device of the guest has no id")
	}
	return nil
}

// SameDevices reports whether a guest that exists may get the devices and interfaces of another value: it keeps all
// devices except those of its former and of its new interfaces.
func (g Guest) SameDevices(now Guest) bool {
	return g.ownDevices(now) && now.ownDevices(g)
}

// ownDevices reports whether other has all devices of a guest that do not belong to its interfaces.
func (g Guest) ownDevices(other Guest) bool {
	return !slices.ContainsFunc(g.Devices, func(d Device) bool {
		return !slices.ContainsFunc(other.Devices, func(o Device) bool { return o.ID == d.ID }) &&
			!slices.ContainsFunc(g.Interfaces, func(i Interface) bool { return i.Device == d.ID })
	})
}

// GuestCell is one NUMA cell of a guest and its place on the host.
type GuestCell struct {
	VCPUs    []int `json:"vcpus"`             // numbers of the guest's CPUs
	MemoryMB int   `json:"memory_mb"`         // MiB
	PageKB   int   `json:"page_kb,omitempty"` // size of its huge pages; 0: small pages
	Node     int   `json:"node"`              // NUMA node of the host
	// Dedicated virtual CPU → host thread; the others use the node's shared threads
	CPUs     map[int]int `json:"cpus,omitempty"`
	Emulator []int       `json:"emulator,omitempty"` // host threads for the emulator alone
}

// Device is a device of a guest. The driver uses the ID and stores the rest with the guest, so that an agent
// that lost its journal can restore its claims.
type Device struct {
	ID       device.ID   `json:"id"`
	Request  string      `json:"request_id"`         // request_id of the PCI request that it serves
	Provider provider.ID `json:"provider,omitempty"` // that counts it; empty when Placement does not
	// Its rule has managed false: the hypervisor does not rebind its kernel driver
	Unmanaged bool `json:"unmanaged,omitempty"`
}

// Interface is a network interface of a guest. It belongs to a port that is bound to this host.
type Interface struct {
	Port string `json:"port_id"`     // UUID
	MAC  string `json:"mac_address"` // such as fa:16:3e:12:34:56
	VIF  string `json:"vif_type"`    // binding:vif_type: bridge, ovs, hw_veb, hostdev_physical, …
	VNIC string `json:"vnic_type"`   // binding:vnic_type: normal, direct, macvtap, …
	// The bridge of the host or of Open vSwitch that has the interface; empty with a device
	Bridge string    `json:"bridge,omitempty"`
	VLAN   int       `json:"vlan,omitempty"`  // tag that the device or the bridge adds; 0: none; or Untagged
	MTU    int       `json:"mtu,omitempty"`   // bytes; 0: the bridge's
	Device device.ID `json:"device,omitzero"` // one of the guest's devices that serves the port; zero: none
}

// Untagged is the VLAN of an interface whose bridge adds no tag, and drops frames with a tag.
const Untagged = -1
