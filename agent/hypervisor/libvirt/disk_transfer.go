package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// The attempts of one Build to copy a disk while nothing is received.
const transferTries = 8

var transferWait = backoff.Exponential{First: time.Second, Max: 30 * time.Second, Jitter: backoff.Around}

// incomingPath returns the path of the copy of a guest's disk before the guest is defined.
func (d *Driver) incomingPath(guest string) string { return d.path(incomingDir, guest+".qcow2") }

// noDiskMoves returns why disks cannot be copied between this host and others; empty: they can.
func (d *Driver) noDiskMoves(ctx context.Context, c *rpc.Client) (string, error) {
	if d.o.Migration.URI == "" {
		return "[libvirt] live_migration_uri is not set", nil
	}
	_, err := c.StoragePools(ctx)
	if fault.Is(err, fault.Conflict) {
		return "its libvirt has no storage driver", nil
	}
	return "", err
}

// receiveDisk copies the disk of another guest for a new guest, and makes it ready: its backing file is that of this
// host, and it is as large as the guest's disk must be. It returns the path of the copy; empty: that guest has no disk.
// It continues after an interruption, and retries while the source does not answer.
func (d *Driver) receiveDisk(ctx context.Context, g hypervisor.Guest) (path string, err error) {
	if err := d.makeDir(""); err != nil {
		return "", err
	}
	if err := d.makeDir(incomingDir); err != nil {
		return "", err
	}
	progress := d.transfers.begin(g)
	defer d.transfers.end(g.ID)
	for failures := 1; ; failures++ {
		before := progress.bytes()
		path, err := d.tryReceiveDisk(ctx, g, progress)
		if err == nil || !fault.Is(err, fault.Unavailable) {
			return path, err
		}
		if progress.bytes() != before {
			failures = 1
		}
		wait := transferWait.Wait(failures)
		if failures >= transferTries || backoff.Sleep(ctx, 0) != nil {
			return "", err
		}
		d.o.Log.Warn("disk not copied, will retry", "guest", g.ID, "from", g.DiskFrom.Host, "wait", wait, "error", err)
		progress.fail(fault.TextOf(err))
		if backoff.Sleep(ctx, wait) != nil {
			return "", err
		}
	}
}

// tryReceiveDisk is one attempt of receiveDisk.
func (d *Driver) tryReceiveDisk(ctx context.Context, g hypervisor.Guest, p *transferProgress) (string, error) {
	source, err := d.openSource(ctx, *g.DiskFrom)
	if err != nil {
		return "", fault.New(transferKind(err), opDisk, "the disk of the guest cannot be copied from host %s: %w",
			g.DiskFrom.Host, err)
	}
	defer source.close(ctx)
	from := source.disk()
	if from == "" {
		return "", nil
	}
	to := d.incomingPath(g.ID)
	if err := d.copyFile(ctx, source, from, to, p); err != nil {
		return "", err
	}
	d.making.RLock()
	defer d.making.RUnlock()
	if err := d.rebase(ctx, source, g, to, p); err != nil {
		return "", err
	}
	return to, d.grow(ctx, g, to)
}

// transferKind returns Unavailable for an error of a connection or of libvirt; a fault keeps its kind.
func transferKind(err error) fault.Kind {
	if kind := fault.KindOf(err); kind == fault.Conflict || kind == fault.Invalid {
		return kind
	}
	return fault.Unavailable
}

// copyFile copies one file of a source.
func (d *Driver) copyFile(ctx context.Context, s *diskSource, from, to string, p *transferProgress) error {
	file, err := s.file(ctx, from)
	if err != nil {
		return err
	}
	c := &copier{from: file, to: to, progress: p,
		record: copyRecord{Host: s.from.Host, Guest: s.from.Guest, Path: from}}
	if err := c.run(ctx); err != nil {
		return err
	}
	if err := s.find(ctx); err != nil { // it may have been started
		c.forget()
		return err
	}
	return nil
}

// rebase makes a copied disk refer to the image on this host. An image that this host cannot get, because it is deleted
// in the image service, is copied from the source, too, and its data become those of the disk.
func (d *Driver) rebase(ctx context.Context, s *diskSource, g hypervisor.Guest, disk string, p *transferProgress) error {
	backing, err := backingFile(disk)
	if err != nil || backing == "" {
		return fault.Wrap(fault.Unavailable, opDisk, err)
	}
	base, err := d.ownBase(ctx, g, backing)
	switch {
	case err == nil && base.Path == backing:
		return nil
	case err == nil:
		return rebaseTo(ctx, disk, string(base.Format), base.Path)
	case fault.Is(err, fault.Unavailable):
		return err
	}
	d.o.Log.Info("image copied with the disk", "guest", g.ID, "from", s.from.Host, "file", backing, "error", err)
	copied := strings.TrimSuffix(disk, ".qcow2") + ".base"
	from := backing
	if filepath.Dir(backing) == filepath.Dir(copied) { // an earlier attempt was interrupted after it
		from = ""
	}
	if from != "" {
		if err := d.copyFile(ctx, s, from, copied, p); err != nil {
			return err
		}
		if err := rebaseTo(ctx, disk, strings.TrimPrefix(filepath.Ext(backing), "."), copied); err != nil {
			return err
		}
	}
	if err := qemuImg(ctx, "rebase", "-q", "-f", "qcow2", "-b", "", disk); err != nil {
		return fault.New(fault.Unavailable, opDisk, "the disk of the guest %s does not get the data of its image: %w", g.ID, err)
	}
	return fault.Wrap(fault.Unavailable, opDisk, errors.Join(remove(copied), remove(copied+recordSuffix)))
}

// ownBase returns the image on this host that a backing file of another host is a copy of.
func (d *Driver) ownBase(ctx context.Context, g hypervisor.Guest, backing string) (imagecache.Base, error) {
	name := filepath.Base(backing)
	id := strings.TrimSuffix(name, filepath.Ext(name))
	if d.o.Images == nil || id != g.Image {
		return imagecache.Base{}, fault.New(fault.NotFound, opDisk, "%s is not the image %s of the guest", backing, g.Image)
	}
	base, err := d.o.Images.Get(ctx, id)
	if err == nil && filepath.Base(base.Path) != name {
		err = fault.New(fault.Conflict, opDisk, "the image %s has another format here", id)
	}
	return base, err
}

// rebaseTo replaces the name of the backing file in a disk.
func rebaseTo(ctx context.Context, disk, format, base string) error {
	err := qemuImg(ctx, "rebase", "-q", "-u", "-f", "qcow2", "-F", format, "-b", base, disk)
	return fault.Wrap(fault.Unavailable, opDisk, err)
}

// grow makes a disk as large as the flavor's. A disk that is larger stays so.
func (d *Driver) grow(ctx context.Context, g hypervisor.Guest, disk string) error {
	file, err := os.Open(disk)
	if err != nil {
		return fault.Wrap(fault.Unavailable, opDisk, err)
	}
	defer file.Close()
	head := make([]byte, diskimage.HeadBytes)
	n, _ := file.ReadAt(head, 0) // a short file is not a disk
	if n < 32 || string(head[:4]) != "QFI\xfb" {
		return fault.New(fault.Conflict, opDisk, "the disk of the guest %s is not a qcow2 file; convert it on its host", g.ID)
	}
	want := int64(g.DiskGB) << 30
	if int64(binary.BigEndian.Uint64(head[24:])) >= want {
		return nil
	}
	if err := qemuImg(ctx, "resize", "-q", "-f", "qcow2", disk, fmt.Sprint(want)); err != nil {
		return fault.New(fault.Unavailable, opDisk, "the disk of the guest %s does not grow: %w", g.ID, err)
	}
	return nil
}

// placeDisk gives a copied disk its place among the files of a domain that is not defined yet. It keeps the other name,
// so that the copy is not lost if the definition fails.
func (d *Driver) placeDisk(domain uuid.UUID, g hypervisor.Guest, copied string) error {
	if err := d.removeFiles(domain); err != nil { // those of an earlier guest, whose removal was interrupted
		return err
	}
	if err := d.makeDir(domain.String()); err != nil {
		return err
	}
	return fault.Wrap(fault.Unavailable, opDisk, os.Link(copied, d.path(domain.String(), diskName(g.Build))))
}

// forgetIncoming removes what was copied for a guest that is not defined yet.
func (d *Driver) forgetIncoming(guest string) error {
	if _, err := uuid.Parse(guest); err != nil {
		return nil
	}
	files, err := filepath.Glob(d.path(incomingDir, guest+".*"))
	for _, one := range files {
		err = errors.Join(err, remove(one))
	}
	return fault.Wrap(fault.Unavailable, opDisk, err)
}

// remove removes a file, if it exists.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// transfers are the disks that are being copied to this host.
type transfers struct {
	mu  sync.Mutex
	all map[string]*transferProgress // by guest
}

func (t *transfers) begin(g hypervisor.Guest) *transferProgress {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]*transferProgress{}
	}
	p := &transferProgress{guest: g.ID, host: g.DiskFrom.Host}
	t.all[g.ID] = p
	return p
}

func (t *transfers) end(guest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, guest)
}

// remarks returns a sentence for each copy in progress.
func (t *transfers) remarks() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.all {
		list = append(list, p.String())
	}
	slices.Sort(list)
	return list
}

// transferProgress is the progress of the copy of one disk.
type transferProgress struct {
	guest, host string

	mu         sync.Mutex
	done, size int64 // bytes
	total      int64 // bytes that this process has received or compared
	comparing  bool
	failed     string // why the last attempt failed; empty: it did not
}

// set records how much is copied or compared.
func (p *transferProgress) set(done, size int64, comparing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done > p.done || comparing != p.comparing {
		p.total++
	}
	p.done, p.size, p.comparing, p.failed = done, size, comparing, ""
}

func (p *transferProgress) fail(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = why
}

// bytes returns a number that grows while something is received.
func (p *transferProgress) bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// String returns the progress in tenths, so that the report of the host seldom changes.
func (p *transferProgress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	what := "copied"
	if p.comparing {
		what = "compared with that"
	}
	out := fmt.Sprintf("the disk of server %s is being %s of host %s: %s", p.guest, what, p.host, tenths(p.done, p.size))
	if p.failed != "" {
		out += "; it will be retried: " + p.failed
	}
	return out
}
