// Package libvirt is the hypervisor driver for libvirt: each guest is a domain of QEMU on this host.
//
// The metadata of a domain contain the guest, so that an agent finds its guests after a restart, and a domain without
// them belongs to another program and is not touched. The files of a guest are in a directory with the domain's UUID,
// with a record of the guest: a guest whose domain is gone is defined again around its disk. Each step may be repeated:
// an interrupted Build or Destroy is completed by the next one. A libvirt that is not the one that the driver knew is
// not used until an operator decides (Adopt).
//
//	Build ──▶ reserve: devices, UUID, definition ──▶ files: disk ──▶ start
//	Build of a guest that moves ──▶ copy the disk from the source ──▶ reserve ──▶ …
//	Destroy ──▶ stop ──▶ undefine ──▶ remove the files
//	Receive (destination) ──▶ Migrate (source) ──▶ Build (destination) and Destroy (source)
//	Watch ◀── events of libvirt
package libvirt

import (
	"context"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
)

// Options configure a driver.
type Options struct {
	Socket   string // of libvirt's daemon; empty: /run/libvirt/libvirt-sock
	URI      string // [libvirt] connection_uri; empty: qemu:///system
	VirtType string // [libvirt] virt_type: kvm or qemu; empty: kvm where it works, otherwise qemu
	CPUModel string // [libvirt] cpu_models; empty: that of the host with KVM, otherwise the best that QEMU emulates
	Dir      string // [DEFAULT] instances_path: has a directory for each guest
	Host     string // [DEFAULT] host: of which the directory is; empty: that is not recorded
	Images   Images // nil: guests boot blank disks only

	FirstBoot FirstBoot // nil: guests get no keys and no user data
	Cleanup   Cleanup   // of images

	VNC       bool      // [vnc] enabled: guests have displays
	Migration Migration // live migration
	Locate    Locate    // nil: other hosts are reached by their names
	Detaching Detaching // devices of ports

	Sysfs fs.FS // empty: /sys

	FirmwareDirs []string // with descriptions of UEFI firmware; empty: those of QEMU

	ShutdownTime time.Duration // [DEFAULT] shutdown_timeout: after it a guest that must stop is ended
	CallTime     time.Duration // limit of one call; 0: 30 seconds, and 5 minutes to start or end a guest
	Log          *slog.Logger  // nil: slog.Default()

	root string // instances_path, if Dir is a directory in it, because other hosts have theirs there, too
}

// Images are the images on this host; *imagecache.Cache implements it. Unavailable: a later call may succeed.
type Images interface {
	Get(ctx context.Context, id string) (imagecache.Base, error)
	Restore(ctx context.Context, path, sha512 string) error
	Upload(ctx context.Context, id, path string, resume bool) (hypervisor.ImageData, error)
	NoUploads() string // why Upload is not possible; empty: it is
	Downloads() []imagecache.Download
	RemoveUnused(used func(name string) bool, now time.Time, age time.Duration) (removed []string, err error)
	// Shrink removes the least recently used copies until all take at most most bytes; those that guests use remain.
	Shrink(used func(name string) bool, now time.Time, most int64) (removed []string, left int64, err error)
	Bytes() (int64, error)
}

// FirstBoot returns the key, the user data and what else the guest of a server reads from its config drive. The driver
// adds the name and the interfaces. Unavailable: a later call may succeed.
type FirstBoot func(ctx context.Context, server string) (configdrive.Server, error)

// Driver runs guests with libvirt. It connects when it is first used, and again after the connection has ended.
type Driver struct {
	o Options
	directory

	connecting sync.Mutex // guards client, host, unsafe, findings and inspected
	client     *rpc.Client
	host       domainxml.Host
	unsafe     []string           // what is missing in the confinement of guests
	findings   hypervisor.Remarks // about domains and records, of the last list
	inspected  bool               // host.KVM is known

	// defining serialises what must see all domains: that a device has one holder, and that a UUID is free.
	defining sync.Mutex

	migrating migrations
	transfers transfers
	probe     diskProbe
	imageSize

	// held for reading while a disk gets its image, for writing while images are removed
	making sync.RWMutex
}

// directory is the directory with the files of the guests.
type directory struct{ o *Options }

var (
	_ hypervisor.Hypervisor = (*Driver)(nil)
	_ hypervisor.Starter    = (*Driver)(nil)
	_ hypervisor.Watcher    = (*Driver)(nil)
	_ hypervisor.Consoles   = (*Driver)(nil)
	_ hypervisor.Maintainer = (*Driver)(nil)
	_ hypervisor.Receiver   = (*Driver)(nil)
	_ hypervisor.Adopter    = (*Driver)(nil)

	_ hypervisor.ImageCacher         = (*Driver)(nil)
	_ hypervisor.InteractiveConsoles = (*Driver)(nil)
	_ hypervisor.Displays            = (*Driver)(nil)
)

// emulated is the remark about a host without KVM.
const emulated = "guests run with emulated CPUs, which is slow: KVM is not available, or [libvirt] virt_type is qemu"

// Cleanup configures the removal of copies of images that no guest uses.
type Cleanup struct {
	Every time.Duration // [image_cache] manager_interval; 0: no removal
	Age   time.Duration // [image_cache] remove_unused_original_minimum_age_seconds
	Most  int64         // [DEFAULT] image_cache_max_size, in bytes; 0: no limit
}

// Migration configures live migration.
type Migration struct {
	URI       string        // [libvirt] live_migration_uri: the libvirt of another host; %s is its Address
	Address   string        // [libvirt] live_migration_inbound_addr: of this host; empty: its name
	TLS       bool          // [libvirt] live_migration_with_native_tls
	Converge  bool          // [libvirt] live_migration_permit_auto_converge
	Bandwidth int           // [libvirt] live_migration_bandwidth, MiB/s; 0: no limit
	Limit     time.Duration // [libvirt] live_migration_completion_timeout: for each GiB to copy; 0: no limit
}

// migrations are the domains whose live migration is in progress, by UUID.
type migrations struct{ all sync.Map }

// Detaching configures how devices are detached from running guests. A guest decides itself when it releases a device.
type Detaching struct {
	Attempts int           // [libvirt] device_detach_attempts: how often the guest is requested; 0: once
	Timeout  time.Duration // [libvirt] device_detach_timeout: after each request
}

// diskProbe finds out whether other hosts can copy disks from this one, without delaying the report of the host.
type diskProbe struct {
	mu     sync.Mutex
	done   chan struct{} // of the probe in progress; nil: none
	result probed        // of the last one
	known  bool
}

// probed is what a probe has found.
type probed struct {
	refused string    // why disks cannot be moved between this host and others; empty: they can
	expires time.Time // when the first certificate of moves ends; zero: there is none
}

// transfers are the disks that are being copied to this host.
type transfers struct {
	mu  sync.Mutex
	all map[string]*transferProgress // by guest
}

// transferProgress is the progress of the copy of one disk.
type transferProgress struct {
	guest, host string

	mu         sync.Mutex
	done, size int64 // bytes
	pieces     int64 // received or compared by this process
	comparing  bool
	failed     string // why the last attempt failed; empty: it did not
}

// firmwareDirs have QEMU's descriptions of firmware. A description in a later directory replaces that with its name.
var firmwareDirs = []string{"/usr/share/qemu/firmware", "/etc/qemu/firmware"}

func (m *migrations) has(domain uuid.UUID) bool {
	_, is := m.all.Load(domain)
	return is
}

// begin adds a domain until the returned function is called.
func (m *migrations) begin(domain uuid.UUID) (end func()) {
	m.all.Store(domain, true)
	return func() { m.all.Delete(domain) }
}
