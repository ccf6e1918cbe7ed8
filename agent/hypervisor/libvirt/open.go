package libvirt

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
)

// New returns a driver. It does not connect. The fault is Invalid for an architecture that the driver does not support.
func New(o Options) (*Driver, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fault.New(fault.Invalid, "the driver libvirt does not support the architecture %s; "+
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
	return fault.Wrap("", err)
}

// Capacity returns the host's CPUs and memory, and the size of the file system with the guests' files.
func (d *Driver) Capacity(ctx context.Context) (hypervisor.Capacity, error) {
	c, host, err := d.connect(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", err)
	}
	node, err := c.Node(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", err)
	}
	if err := d.makeDir(""); err != nil {
		return hypervisor.Capacity{}, err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(d.o.Dir, &disk); err != nil {
		return hypervisor.Capacity{}, fault.New(fault.Unavailable, "the size of the file system of %s cannot be read: %w",
			d.o.Dir, err)
	}
	out := hypervisor.Capacity{Type: "QEMU", VCPUs: node.CPUs, MemoryMB: int(node.MemoryKB / 1024),
		DiskGB: int(disk.Blocks * uint64(disk.Bsize) >> 30)}
	version, err := c.HypervisorVersion(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", err)
	}
	out.NoLive = noDevices(version)
	addDiskImages(d.o.Images, &out)
	var downloads []imagecache.Download
	if d.o.Images != nil {
		downloads = d.o.Images.Downloads()
	}
	paused, err := pausedGuests(ctx, d.directory, c)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", err)
	}
	moves := d.probe.look(ctx, d.o)
	out.MoveAddress, out.NoDiskMoves = d.o.Migration.Address, moves.refused
	d.connecting.Lock()
	if !host.KVM {
		out.Remarks = hypervisor.OfHost(emulated)
	}
	out.Remarks = slices.Concat(out.Remarks, hypervisor.OfHost(d.unsafe...), d.findings, moves.remark(time.Now()), paused)
	out.Transfers = append(d.transfers.remarks(), progress(downloads)...)
	d.connecting.Unlock()
	return out, nil
}
