package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// The attempts of one Build to copy a disk while nothing is received.
const transferTries = 8

var transferWait = backoff.Exponential{First: time.Second, Max: 30 * time.Second, Jitter: backoff.Around}

// incomingPath returns the path of the copy of a guest's disk before the guest is defined.
func incomingPath(d *Driver, guest string) string { return d.path(incomingDir, guest+".qcow2") }

// probeTime is how long a host tries to reach its own libvirt as other hosts do.
const probeTime = 5 * time.Second

// probeWait is how long Capacity waits for the result of a probe if it has that of an earlier one.
const probeWait = 300 * time.Millisecond

// expiryTime is how long before their end certificates are reported.
const expiryTime = 60 * 24 * time.Hour

// remark returns a remark about certificates that end soon; none: they do not. It concerns those of both sides of a
// connection, and so the host.
func (r probed) remark(now time.Time) hypervisor.Remarks {
	if r.expires.IsZero() || r.expires.Sub(now) > expiryTime {
		return nil
	}
	return hypervisor.OfHost(fmt.Sprintf("the certificates of libvirt on this host end on %s, and then no server moves "+
		"from or to it; run `berth init` here, which renews those that it has made", r.expires.UTC().Format(time.DateOnly)))
}

// look begins a probe, and returns its result if it is the first one or comes soon, otherwise that of the last one.
func (p *diskProbe) look(ctx context.Context, o Options) probed {
	if o.Migration.URI == "" {
		return probed{refused: "[libvirt] live_migration_uri is not set"}
	}
	p.mu.Lock()
	done := p.done
	if done == nil {
		done = make(chan struct{})
		p.done = done
		go func() {
			result := probe(context.WithoutCancel(ctx), o)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.result, p.known, p.done = result, true, nil
			close(done)
		}()
	}
	wait := probeWait
	if !p.known {
		wait = 2 * probeTime
	}
	p.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(wait):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return probed{refused: "whether its libvirt accepts connections of other hosts is not known yet"}
	}
	return p.result
}

// probe connects to the libvirt of this host as other hosts do.
func probe(ctx context.Context, o Options) (r probed) {
	if o.Host == "" {
		return r
	}
	uri, err := o.Migration.uri(cmp.Or(o.Migration.Address, o.Host))
	if err != nil {
		return probed{refused: fault.TextOf(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	c, err := rpc.DialURI(ctx, uri, probeTime)
	if err != nil {
		return probed{refused: "its libvirt does not accept connections of other hosts: " + fault.TextOf(err)}
	}
	defer c.Close()
	drain(c)
	r.expires = c.Expires
	if _, err := rpc.StorageOf(c).Pools(ctx); err != nil {
		r.refused = fault.TextOf(err)
	}
	return r
}

// transfer makes the disk of a new guest from that of the guest from which it moves.
type transfer struct {
	d        *Driver
	guest    hypervisor.Guest
	progress *transferProgress
}

// copies are what was copied for a guest that is not defined yet.
type copies struct {
	of     hypervisor.Guest // that has moved
	disk   string           // path of the copy; empty: it has no disk
	base   *imagecache.Base // to which the disk refers on this host; nil: none
	shared *sharedDisk      // the disk, if it is not copied
	nvram  string           // path of the copy; empty: it has none, or one that cannot be used
	secure bool             // nvram is for secure boot
}

// exists reports whether the guest that has moved has a disk.
func (c copies) exists() bool { return c.disk != "" || c.shared != nil }

// receiveDisk copies the disk of another guest for a new guest, and makes it ready: its backing file is that of this
// host, and it is as large as the guest's disk must be. A disk in a directory that both hosts have is not copied. The
// NVRAM is copied, too. It continues after an interruption, and retries while the source does not answer.
func receiveDisk(ctx context.Context, d *Driver, g hypervisor.Guest) (copies, error) {
	for _, dir := range []string{"", incomingDir} {
		if err := d.makeDir(dir); err != nil {
			return copies{}, err
		}
	}
	t := &transfer{d: d, guest: g, progress: d.transfers.begin(g)}
	defer d.transfers.end(g.ID)
	for failures := 1; ; failures++ {
		before := t.progress.count()
		made, err := t.try(ctx)
		if err == nil || !fault.Is(err, fault.Unavailable) {
			return made, err
		}
		if t.progress.count() != before {
			failures = 1
		}
		if failures >= transferTries || ctx.Err() != nil {
			return copies{}, err
		}
		wait := transferWait.Wait(failures)
		d.o.Log.Warn("disk not copied, will retry", "guest", g.ID, "from", g.DiskFrom.Host, "wait", wait, "error", err)
		t.progress.fail(fault.TextOf(err))
		if backoff.Sleep(ctx, wait) != nil {
			return copies{}, err
		}
	}
}

// try is one attempt.
func (t *transfer) try(ctx context.Context) (copies, error) {
	from := *t.guest.DiskFrom
	source, err := openSource(ctx, t.d, from)
	if err != nil {
		return copies{}, fault.New(transferKind(err), "the disk of the guest cannot be copied from host %s: %w",
			from.Host, err)
	}
	defer source.close(ctx)
	file := source.domain.xml.Disk()
	made := copies{of: source.domain.guest}
	switch {
	case file == "" && source.domain.hasDisk():
		return made, fault.New(fault.Unavailable, "the definition of the domain %s of host %s has no disk any more; "+
			"restore it there", source.domain.Name, from.Host)
	case file == "":
		return made, nil
	}
	if err := t.copyNVRAM(ctx, source, &made); err != nil {
		return made, err
	}
	if made.shared, made.base, err = t.findShared(ctx, source, file); err != nil || made.shared != nil {
		return made, err
	}
	made.disk = incomingPath(t.d, t.guest.ID)
	if err := t.copyFile(ctx, source, file, made.disk); err != nil {
		return made, err
	}
	t.d.making.RLock()
	defer t.d.making.RUnlock()
	if made.base, err = t.rebase(ctx, source, file, made.disk); err != nil {
		return made, err
	}
	return made, t.grow(ctx, made.disk)
}

// findShared returns the disk of a source, and its image, if this host sees both under the same paths and can use them
// there; nil: the disk must be copied.
func (t *transfer) findShared(ctx context.Context, s *diskSource, file string) (disk *sharedDisk,
	base *imagecache.Base, err error) {
	if s.dial == nil || !t.d.contains(file) { // the disk of a guest that is resized on its host is copied
		return nil, nil, nil
	}
	shared, err := isShared(ctx, filepath.Dir(file), s.readSmall)
	if err != nil || !shared {
		return nil, nil, err
	}
	found, ok, err := inspectShared(file)
	if err != nil || !ok || len(found.lower) == maxLower {
		return nil, nil, err
	}
	if found.image != "" {
		own, err := t.ownBase(ctx, s, file, found.image)
		switch {
		case fault.Is(err, fault.Unavailable):
			return nil, nil, err
		case err != nil || own.Path != found.image:
			return nil, nil, nil
		}
		base = &own
	}
	link := incomingPath(t.d, t.guest.ID) + linkSuffix
	if err := errors.Join(remove(link), os.Link(file, link)); err != nil {
		t.d.o.Log.Warn("disk in a shared directory is copied: it gets no further name", "guest", t.guest.ID, "error", err)
		return nil, nil, nil
	}
	t.d.o.Log.Info("disk not copied: its directory is shared", "guest", t.guest.ID, "from", s.from.Host, "disk", file)
	return &found, base, nil
}

// copyNVRAM copies the NVRAM of a guest with UEFI, if this host has firmware for it. A guest whose secure boot begins
// with the move gets a new one, because that of the source has no keys. The fault is Conflict if the host has no
// firmware for the guest.
func (t *transfer) copyNVRAM(ctx context.Context, s *diskSource, made *copies) error {
	have := domainxml.FirmwareOf(s.domain.xml)
	if have.NVRAM == "" || t.guest.Hardware.Firmware == "" {
		return nil
	}
	if t.guest.Hardware.SecureBoot == "required" && !have.Secure {
		_, _, err := t.d.firmwareOf(uuid.Nil, t.guest, 0)
		return err
	}
	g := t.guest
	if !have.Secure { // an optional one does not begin
		g.Hardware.SecureBoot = ""
	}
	file, err := s.file(ctx, have.NVRAM)
	if err != nil {
		return err
	}
	state, err := file.state(ctx)
	if err != nil {
		return fault.New(fault.Unavailable, "the NVRAM %s of host %s cannot be read: %w", have.NVRAM,
			s.from.Host, err)
	}
	found, _, err := t.d.firmwareOf(uuid.Nil, g, state.Size)
	if err != nil {
		return err
	}
	made.nvram, made.secure = strings.TrimSuffix(incomingPath(t.d, g.ID), ".qcow2")+".nvram", found.secure
	return t.copyFile(ctx, s, have.NVRAM, made.nvram)
}

// copyFile copies one file of a source.
func (t *transfer) copyFile(ctx context.Context, s *diskSource, from, to string) error {
	file, err := s.file(ctx, from)
	if err != nil {
		return err
	}
	c := &copier{from: file, to: to, progress: t.progress,
		record: copyRecord{Host: s.from.Host, Guest: s.from.Guest, Path: from}}
	if err := c.run(ctx); err != nil {
		return err
	}
	err = s.find(ctx)
	if s.runs { // it was started while its disk was copied
		c.forget()
	}
	return err
}

// rebase makes a copied disk refer to the image on this host, and returns that. An image that this host does not have
// with the same data is copied from the source, too, and its data become those of the disk; base is nil then. from is
// the path of the disk at the source.
func (t *transfer) rebase(ctx context.Context, s *diskSource, from, disk string) (base *imagecache.Base, err error) {
	backing, err := sourceBacking(from, disk)
	if err != nil || backing == "" {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	own, err := t.ownBase(ctx, s, from, backing)
	switch {
	case err == nil:
		return &own, rebaseTo(ctx, disk, string(own.Format), own.Path)
	case fault.Is(err, fault.Unavailable):
		return nil, err
	}
	t.d.o.Log.Info("image copied with the disk", "guest", t.guest.ID, "from", s.from.Host, "file", backing, "error", err)
	return t.flatten(ctx, s, disk, backing)
}

// flatten copies the file below a disk from the source, and adds its data to those of the disk. Between the disk and
// the image may be snapshots that an operator has made, and disks of earlier hosts. base is the image to which the disk
// refers afterwards; nil: none.
func (t *transfer) flatten(ctx context.Context, s *diskSource, disk, backing string) (base *imagecache.Base,
	err error) {
	format, err := backingFormat(ctx, disk, backing)
	if err != nil {
		return nil, err
	}
	copied := strings.TrimSuffix(disk, ".qcow2") + ".base"
	if strings.Count(filepath.Base(copied), ".base") > maxChain {
		return nil, fault.New(fault.Conflict, "the disk of the guest %s has more than %d snapshots below it; commit "+
			"them with `virsh blockcommit`", t.guest.ID, maxChain)
	}
	if err := t.copyFile(ctx, s, backing, copied); err != nil {
		return nil, err
	}
	if format == "qcow2" {
		if base, err = t.rebase(ctx, s, backing, copied); err != nil {
			return nil, err
		}
	}
	if err := rebaseTo(ctx, disk, format, copied); err != nil {
		return nil, err
	}
	arguments := []string{"rebase", "-q", "-f", "qcow2", "-b", ""}
	if base != nil {
		arguments = append(arguments[:4], "-F", string(base.Format), "-b", base.Path)
	}
	if err := qemuImg(ctx, append(arguments, disk)...); err != nil {
		return nil, fault.New(fault.Unavailable, "the disk of the guest %s does not get the data of the file below "+
			"it: %w", t.guest.ID, err)
	}
	return base, fault.Wrap(fault.Unavailable, errors.Join(remove(copied), remove(copied+recordSuffix)))
}

// sourceBacking returns the path of the file below a copied disk at its source; empty: there is none, or its data are
// in the copy already. The header of the copy may have a name of this host since an earlier attempt. from is the path
// of the disk at the source.
func sourceBacking(from, disk string) (string, error) {
	now, err := backingFile(disk)
	if err != nil || now == "" {
		return "", err
	}
	return besides(from, cmp.Or((&copier{to: disk}).load().Backing, now)), nil
}

// ownBase returns the image on this host that has the same data as the backing file of a disk of another host. from is
// the path of that disk. The fault is Conflict if the data differ, or if that is not known.
func (t *transfer) ownBase(ctx context.Context, s *diskSource, from, backing string) (imagecache.Base, error) {
	name := filepath.Base(backing)
	id := strings.TrimSuffix(name, filepath.Ext(name))
	if t.d.o.Images == nil || id != t.guest.Image {
		return imagecache.Base{}, fault.New(fault.NotFound, "%s is not the image %s of the guest", backing,
			t.guest.Image)
	}
	there, err := s.baseSum(ctx, from, backing)
	if err != nil {
		return imagecache.Base{}, err
	}
	base, err := t.d.o.Images.Get(ctx, id)
	switch {
	case err != nil:
		return base, err
	case filepath.Base(base.Path) != name:
		err = fault.New(fault.Conflict, "the image %s has another format here", id)
	case there == "" || base.SHA512 == "":
		err = fault.New(fault.Conflict, "whether the image %s has the same data on both hosts is not known", id)
	case there != base.SHA512:
		err = fault.New(fault.Conflict, "the image %s has other data here: their SHA-512 sum is %s, and that of "+
			"host %s is %s", id, base.SHA512, s.from.Host, there)
	}
	return base, err
}

// rebaseTo replaces the name of the backing file in a disk.
func rebaseTo(ctx context.Context, disk, format, base string) error {
	err := qemuImg(ctx, "rebase", "-q", "-u", "-f", "qcow2", "-F", format, "-b", base, disk)
	return fault.Wrap(fault.Unavailable, err)
}

// grow makes a disk as large as the flavor's. A disk that is larger stays so.
func (t *transfer) grow(ctx context.Context, disk string) error {
	g := t.guest
	have, err := virtualSize(disk)
	if err != nil {
		return err
	}
	want := int64(g.DiskGB) << 30
	if have >= want {
		return nil
	}
	if err := qemuImg(ctx, "resize", "-q", "-f", "qcow2", disk, fmt.Sprint(want)); err != nil {
		return fault.New(fault.Unavailable, "the disk of the guest %s does not grow: %w", g.ID, err)
	}
	return nil
}

// place gives what was copied its place among the files of a domain that is not defined yet. It keeps the
// other names, so that the copies are not lost if the definition fails.
func place(ctx context.Context, d *Driver, domain uuid.UUID, g hypervisor.Guest, copied copies) error {
	var err error
	if copied.shared != nil {
		err = copied.shared.place(ctx, incomingPath(d, g.ID)+linkSuffix, d.path(domain.String()), g)
	} else {
		err = os.Link(copied.disk, d.path(domain.String(), diskName(g.Build)))
	}
	if err == nil && copied.nvram != "" {
		err = os.Link(copied.nvram, d.nvramPath(domain, g, copied.secure))
	}
	return fault.Wrap(fault.Unavailable, err)
}

// forgetIncoming removes what was copied for a guest that is not defined yet.
func forgetIncoming(d *Driver, guest string) error {
	if _, err := uuid.Parse(guest); err != nil {
		return nil
	}
	files, err := match(d.path(incomingDir), guest+".*")
	for _, one := range files {
		err = errors.Join(err, remove(one))
	}
	return fault.Wrap(fault.Unavailable, err)
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
func (t *transfers) remarks() (list []hypervisor.Transfer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.all {
		list = append(list, hypervisor.Transfer{Subject: p.guest, Text: p.String()})
	}
	slices.SortFunc(list, func(a, b hypervisor.Transfer) int { return cmp.Compare(a.Text, b.Text) })
	return list
}

// set records how much is copied or compared.
func (p *transferProgress) set(done, size int64, comparing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done > p.done || comparing != p.comparing {
		p.pieces++
	}
	p.done, p.size, p.comparing, p.failed = done, size, comparing, ""
}

func (p *transferProgress) fail(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = why
}

// count returns a number that grows while something is received.
func (p *transferProgress) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pieces
}

// String returns the progress in tenths, so that the report of the host seldom changes.
func (p *transferProgress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	what := "copied from"
	if p.comparing {
		what = "compared with that of"
	}
	out := fmt.Sprintf("the disk of server %s is being %s host %s: %s", p.guest, what, p.host, tenths(p.done, p.size))
	if p.failed != "" {
		out += "; it will be retried: " + p.failed
	}
	return out
}
