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
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
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

	Migration Migration // live migration
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
	unsafe     []string // what is missing in the confinement of guests
	findings   []string // about domains and records, of the last list
	inspected  bool     // host.KVM is known

	// defining serialises what must see all domains: that a device has one holder, and that a UUID is free.
	defining sync.Mutex

	migrating migrations
	transfers transfers
	probe     diskProbe

	making sync.RWMutex // held for reading while a disk gets its image, for writing while images are removed
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

	_ hypervisor.InteractiveConsoles = (*Driver)(nil)
)

// emulated is the remark about a host without KVM.
const emulated = "guests run with emulated CPUs, which is slow: KVM is not available, or [libvirt] virt_type is qemu"

// New returns a driver. It does not connect. The fault is Invalid for an architecture that the driver does not support.
func New(o Options) (*Driver, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fault.New(fault.Invalid, "libvirt.New", "the driver libvirt does not support the architecture %s; "+
			"it supports amd64", runtime.GOARCH)
	}
	if o.Socket == "" {
		o.Socket = "/run/libvirt/libvirt-sock"
	}
	if o.URI == "" {
		o.URI = "qemu:///system"
	}
	if o.Sysfs == nil {
		o.Sysfs = os.DirFS("/sys")
	}
	if o.FirmwareDirs == nil {
		o.FirmwareDirs = firmwareDirs
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Dir, o.root = chooseDir(o.Dir, o.Host)
	d := &Driver{o: o}
	d.directory = directory{&d.o}
	return d, nil
}

// connect returns the connection, and what guests can have on this host. Callers share it.
func (d *Driver) connect(ctx context.Context) (*rpc.Client, domainxml.Host, error) {
	d.connecting.Lock()
	defer d.connecting.Unlock()
	if d.client != nil && !d.client.Ended() {
		return d.client, d.host, nil
	}
	client, err := rpc.Dial(ctx, d.o.Socket, d.o.URI, d.o.CallTime)
	if err != nil {
		return nil, d.host, err
	}
	var host domainxml.Host
	if err = d.recognise(ctx, client); err == nil {
		host, err = inspect(ctx, d, client)
	}
	var unsafe []string
	if err == nil {
		unsafe, err = confinement(ctx, client)
	}
	if err != nil {
		client.Close()
		return nil, d.host, err
	}
	d.client, d.host, d.unsafe = client, host, unsafe
	go func() { // events are for Watch, which has its own connection
		for range client.Events() {
		}
	}()
	return client, host, nil
}

// inspect returns what guests can have on this host: KVM if it is configured, or not configured and available.
func inspect(ctx context.Context, d *Driver, c *rpc.Client) (domainxml.Host, error) {
	host := domainxml.Host{Arch: "x86_64", Machine: "q35", CPUModel: d.o.CPUModel, KVM: d.o.VirtType == "kvm"}
	if d.o.VirtType != "" {
		return host, nil
	}
	if d.inspected { // by an earlier connection
		return d.host, nil
	}
	err := d.tryKVM(ctx, c, host)
	if fault.Is(err, fault.Unavailable) {
		return host, err
	}
	host.KVM, d.inspected = err == nil, true
	if err != nil {
		d.o.Log.Warn("guests run with emulated CPUs: KVM does not work", "error", err)
	}
	return host, nil
}

// Close ends the connection.
func (d *Driver) Close() {
	d.connecting.Lock()
	defer d.connecting.Unlock()
	if d.client != nil {
		d.client.Close()
	}
}

// Check returns nil if libvirt answers. A new connection is not given up with ctx: the first one tries KVM, which takes
// longer than a check may.
func (d *Driver) Check(ctx context.Context) error {
	c, _, err := d.connect(context.WithoutCancel(ctx))
	if err == nil {
		_, err = c.LibVersion(ctx)
	}
	return fault.Wrap("", "libvirt.Check", err)
}

// Capacity returns the host's CPUs and memory, and the size of the file system with the guests' files.
func (d *Driver) Capacity(ctx context.Context) (hypervisor.Capacity, error) {
	const op = "libvirt.Capacity"
	c, host, err := d.connect(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", op, err)
	}
	node, err := c.Node(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", op, err)
	}
	if err := d.makeDir(""); err != nil {
		return hypervisor.Capacity{}, err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(d.o.Dir, &disk); err != nil {
		return hypervisor.Capacity{}, fault.New(fault.Unavailable, op, "the size of the file system of %s cannot be read: %w",
			d.o.Dir, err)
	}
	out := hypervisor.Capacity{Type: "QEMU", VCPUs: node.CPUs, MemoryMB: int(node.MemoryKB / 1024),
		DiskGB: int(disk.Blocks * uint64(disk.Bsize) >> 30)}
	version, err := c.HypervisorVersion(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", op, err)
	}
	out.NoLive = noDevices(version)
	addDiskImages(d.o.Images, &out)
	var downloads []imagecache.Download
	if d.o.Images != nil {
		downloads = d.o.Images.Downloads()
	}
	paused, err := pausedGuests(ctx, c)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", op, err)
	}
	d.connecting.Lock()
	findings := slices.Concat(d.unsafe, d.findings, paused, d.transfers.remarks())
	d.connecting.Unlock()
	out.NoDiskMoves = d.probe.noDiskMoves(ctx, d.o)
	out.Remark = remark(host.KVM, findings, downloads)
	return out, nil
}
