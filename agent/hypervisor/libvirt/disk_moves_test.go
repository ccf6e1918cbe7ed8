package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// marker is what the tests write into the disk of a guest, and where.
const marker = "-P 0xab 700M 1M"

// diskOf returns the path of a guest's disk on a host.
func (s site) diskOf(t *testing.T, id string) string {
	t.Helper()
	domains, _, err := s.list(t.Context(), dial(t, s.daemon))
	must(t, err)
	found, there := find(domains, id)
	if !there {
		t.Fatalf("host %s has no guest %s", s.name, id)
	}
	return found.xml.Disk()
}

// mark writes the marker into the disk of a guest that does not run, and hasMarker checks it.
func (s site) mark(t *testing.T, id string) {
	t.Helper()
	run(t, "qemu-io", "-f", "qcow2", "-c", "write "+marker, s.diskOf(t, id))
}

func (s site) hasMarker(t *testing.T, id string) {
	t.Helper()
	out, err := exec.Command("qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read "+marker, s.diskOf(t, id)).CombinedOutput()
	if err != nil || strings.Contains(string(out), "failed") {
		t.Errorf("host %s: the disk of the guest %s lost the marker: %v: %s", s.name, id, err, out)
	}
	run(t, "qemu-img", "check", "-q", "-U", s.diskOf(t, id))
}

// moving returns a guest with the marker in its disk, stopped at a for its move, and the guest as it must become.
func moving(t *testing.T, a site) (g hypervisor.Guest, id string) {
	t.Helper()
	g, id = counting(), hypervisortest.ID("e")
	g.Stopped = true
	must(t, a.Build(t.Context(), g))
	a.mark(t, g.ID)
	must(t, a.Rename(t.Context(), g.ID, id, g.ID))
	g.DiskFrom = &hypervisor.DiskSource{Host: a.name, Guest: id}
	return g, id
}

// listed returns a guest as Guests lists it.
func listed(g hypervisor.Guest) hypervisor.Guest {
	g.DiskFrom = nil
	return g
}

// TestDiskMovesWithTheGuest moves a guest to a host with a larger disk, and back. The disk at the source stays as it is
// until it is destroyed, and what has been copied for a guest is removed with it.
func TestDiskMovesWithTheGuest(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, id := moving(t, a)
	before, err := os.ReadFile(a.diskOf(t, id))
	must(t, err)
	g.DiskGB, g.Stopped = 2, false
	for range 2 {
		must(t, b.Build(t.Context(), g))
	}
	wantGuests(t, b.Driver, listed(g))
	b.count(t, g.ID, 5) // it boots from the disk
	b.hasMarker(t, g.ID)
	if out := run(t, "qemu-img", "info", "-U", b.diskOf(t, g.ID)); !strings.Contains(out, "2 GiB") ||
		!strings.Contains(out, b.path("_base", rawImage+".raw")) {
		t.Errorf("the disk:\n%s", out)
	}
	after, err := os.ReadFile(a.diskOf(t, id))
	if err != nil || string(before) != string(after) {
		t.Errorf("the disk at the source was changed: %v", err)
	}
	wantFiles(t, b.path(incomingDir))
	must(t, b.Destroy(t.Context(), g.ID)) // reverted
	must(t, a.Rename(t.Context(), id, g.ID, ""))
	a.hasMarker(t, g.ID)
	back := hypervisortest.ID("d")
	must(t, a.Rename(t.Context(), g.ID, back, g.ID))
	g.DiskFrom = &hypervisor.DiskSource{Host: a.name, Guest: back}
	must(t, b.Build(t.Context(), g))
	pools := rpc.StorageOf(dial(t, a.daemon))
	for _, dir := range []string{filepath.Dir(a.diskOf(t, back)), a.path("_base")} { // as after kill -9 of the destination
		_, err := pools.CreatePool(t.Context(), poolName(back, dir), dir)
		must(t, err)
	}
	must(t, a.Destroy(t.Context(), back)) // confirmed
	b.hasMarker(t, g.ID)
	if n, err := pools.Pools(t.Context()); n != 0 || err != nil {
		t.Errorf("%d storage pools remain at the source: %v", n, err)
	}
}

// TestDiskOfAResizeOnTheSameHost copies the disk of a guest on its own host.
func TestDiskOfAResizeOnTheSameHost(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	a, _ := openSites(t, daemon, daemon)
	a.o.Host, a.o.Migration.URI = a.name, ""
	g, id := moving(t, a)
	g.DiskGB = 2
	must(t, a.Build(t.Context(), g))
	a.hasMarker(t, g.ID)
	a.hasMarker(t, id)
	if a.diskOf(t, id) == a.diskOf(t, g.ID) {
		t.Error("both guests have one disk")
	}
	must(t, os.Link(a.diskOf(t, g.ID), incomingPath(a.Driver, g.ID))) // as after kill -9 before it was removed
	must(t, a.Build(t.Context(), g))
	wantFiles(t, a.path(incomingDir))
	a.hasMarker(t, g.ID)
	must(t, a.Destroy(t.Context(), id))
	a.hasMarker(t, g.ID)
}

// TestCopyAfterALostConnection loses the connection to the source after its disk was copied: the copy stays, unless the
// guest was started.
func TestCopyAfterALostConnection(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	a, _ := openSites(t, daemon, daemon)
	a.o.Host = a.name
	g, id := moving(t, a)
	must(t, a.makeDir(incomingDir))
	s, err := openSource(t.Context(), a.Driver, *g.DiskFrom)
	must(t, err)
	to := incomingPath(a.Driver, g.ID)
	copies := &transfer{d: a.Driver, guest: g, progress: a.transfers.begin(g)}
	s.client = dial(t, daemon)
	s.client.Close()
	if err := copies.copyFile(t.Context(), s, s.domain.xml.Disk(), to); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without a connection: %v", err)
	}
	if record := (&copier{to: to}).load(); !record.Verified {
		t.Errorf("the copy was forgotten: %+v", record)
	}
	s.client = dial(t, daemon)
	started := counting()
	started.ID, started.Server = id, g.ID
	must(t, a.Build(t.Context(), started))
	if err := copies.copyFile(t.Context(), s, s.domain.xml.Disk(), to); !fault.Is(err, fault.Unavailable) {
		t.Errorf("of a guest that runs: %v", err)
	}
	if record := (&copier{to: to}).load(); record != (copyRecord{}) {
		t.Errorf("the copy of a disk in use was kept: %+v", record)
	}
}

// TestDiskWhoseImageIsDeleted moves a disk to a host that cannot get its image any more. The disk gets the data of the
// image, and moves on without it.
func TestDiskWhoseImageIsDeleted(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	b.o.Images = imagecache.New(filepath.Join(t.TempDir(), "none"), nil, slog.New(slog.DiscardHandler))
	g, id := moving(t, a)
	g.Stopped = false
	must(t, b.Build(t.Context(), g))
	b.hasMarker(t, g.ID)
	b.count(t, g.ID, 5)
	if backing, err := backingFile(b.diskOf(t, g.ID)); backing != "" || err != nil {
		t.Errorf("the disk refers to %q: %v", backing, err)
	}
	wantFiles(t, b.path(incomingDir))
	must(t, a.Destroy(t.Context(), id))
}

// TestDiskWhoseImageDiffers moves a disk to a host that has other data of its image, and a disk whose image has an
// unknown sum at the source. The disk gets the data of the source.
func TestDiskWhoseImageDiffers(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	for _, unknown := range []bool{false, true} {
		g, id := moving(t, a)
		if unknown {
			must(t, errors.Join(os.Remove(a.path(g.ID, baseRecordName(0))),
				os.Remove(a.path("_base", rawImage+".sha512"))))
		} else {
			must(t, os.WriteFile(b.path("_base", rawImage+".raw"), libvirtd.BootSector("other data\n"), 0o644))
		}
		g.Stopped = false
		must(t, b.Build(t.Context(), g))
		b.count(t, g.ID, 5) // it boots the image of the source
		b.hasMarker(t, g.ID)
		if backing, err := backingFile(b.diskOf(t, g.ID)); backing != "" || err != nil {
			t.Errorf("sum not known: %t: the disk refers to %q: %v", unknown, backing, err)
		}
		wantFiles(t, b.path(incomingDir))
		must(t, errors.Join(a.Destroy(t.Context(), id), b.Destroy(t.Context(), g.ID)))
		must(t, errors.Join(os.Remove(b.path("_base", rawImage+".sha512")),
			os.WriteFile(b.path("_base", rawImage+".raw"), libvirtd.CounterSector(), 0o644)))
	}
}

// TestImageOfAMovedDiskIsRecorded moves a disk twice: each host records of which data of the image it is an overlay.
func TestImageOfAMovedDiskIsRecorded(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, id := moving(t, a)
	must(t, b.Build(t.Context(), g))
	must(t, a.Destroy(t.Context(), id))
	must(t, os.Remove(b.path("_base", rawImage+".sha512")))
	must(t, b.Rename(t.Context(), g.ID, id, g.ID))
	g.DiskFrom = &hypervisor.DiskSource{Host: b.name, Guest: id}
	must(t, a.Build(t.Context(), g))
	a.hasMarker(t, g.ID)
	if backing, err := backingFile(a.diskOf(t, g.ID)); backing != a.path("_base", rawImage+".raw") || err != nil {
		t.Errorf("the disk refers to %q: %v", backing, err)
	}
}

// TestDiskWithASnapshot moves a guest of which an operator has made an external snapshot: the disk at the destination
// has the data of both files, and of the image.
func TestDiskWithASnapshot(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, id := moving(t, a)
	snapshot(t, a.daemon, g.ID)
	if disk := a.diskOf(t, id); disk == a.path(g.ID, diskName(0)) {
		t.Fatalf("the disk is still %s", disk)
	}
	run(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0xcd 800M 1M", a.diskOf(t, id))
	g.Stopped = false
	must(t, b.Build(t.Context(), g))
	b.count(t, g.ID, 5)
	b.hasMarker(t, g.ID)
	if backing, err := backingFile(b.diskOf(t, g.ID)); backing != b.path("_base", rawImage+".raw") || err != nil {
		t.Errorf("the disk refers to %q: %v", backing, err)
	}
	if out := run(t, "qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -P 0xcd 800M 1M", b.diskOf(t, g.ID)); strings.
		Contains(out, "failed") {
		t.Errorf("what was written after the snapshot is lost: %s", out)
	}
	wantFiles(t, b.path(incomingDir))
}

// TestDiskIsNeverBlank asks for disks that cannot be read: of a guest that does not exist, of one that runs, and of a
// host that does not answer. No guest is made.
func TestDiskIsNeverBlank(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, id := moving(t, a)
	soon := func(from hypervisor.DiskSource) error {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			testenv.Until(t, "the copy is retried", func() bool {
				return strings.Contains(fmt.Sprint(b.transfers.remarks()), "retried")
			})
			cancel()
		}()
		g.DiskFrom = &from
		return b.Build(ctx, g)
	}
	running := hypervisortest.Guest("c")
	must(t, a.Build(t.Context(), running))
	for _, from := range []hypervisor.DiskSource{{Host: a.name, Guest: hypervisortest.ID("0")},
		{Host: "absent", Guest: id}, {Host: a.name, Guest: running.ID}} {
		if err := soon(from); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%+v: %v", from, err)
		}
		wantGuests(t, b.Driver)
	}
	b.o.Migration.URI = ""
	g.DiskFrom = &hypervisor.DiskSource{Host: a.name, Guest: id}
	if err := b.Build(t.Context(), g); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "live_migration_uri") {
		t.Errorf("without an address of the source: %v", err)
	}
	if c, err := b.Capacity(t.Context()); err != nil || !strings.Contains(c.NoDiskMoves, "live_migration_uri") {
		t.Errorf("capacity %+v %v", c, err)
	}
	wantGuests(t, b.Driver)
}

// TestDiskThatDoesNotFit copies a disk to a host without room. That is final, so that another host is tried, and the
// host keeps nothing of it.
func TestDiskThatDoesNotFit(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, _ := moving(t, a)
	b.o.Dir = b.daemon.SmallDir(t, "512k")
	if err := b.Build(t.Context(), g); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("%v", err)
	}
	wantGuests(t, b.Driver)
	must(t, b.Destroy(t.Context(), g.ID))
	wantFiles(t, b.path(incomingDir))
}

// TestDiskOfAHostThatHangs copies the disk of a host whose libvirt does not answer for a while.
func TestDiskOfAHostThatHangs(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, id := moving(t, a)
	wantGuests(t, b.Driver)         // connects
	b.o.CallTime = 10 * time.Second // of connections from now on
	proceed := a.daemon.Hang(t)
	t.Cleanup(proceed)
	done := make(chan error, 1)
	go func() { done <- b.Build(t.Context(), g) }()
	testenv.Until(t, "the copy is retried", func() bool {
		return strings.Contains(fmt.Sprint(b.transfers.remarks()), "it will be retried")
	})
	wantGuests(t, b.Driver)
	proceed()
	must(t, <-done)
	b.hasMarker(t, g.ID)
	a.hasMarker(t, id)
}

// relay is a socket of a daemon that counts what the daemon sends, and ends connections.
type relay struct {
	daemon string
	sent   atomic.Int64
	limit  atomic.Int64 // ends the connection that exceeds it; 0: none

	mu      sync.Mutex
	reached func() // called when a connection was ended
}

// newRelay puts a relay into the place of the socket of a host.
func newRelay(t *testing.T, socket string) *relay {
	t.Helper()
	daemon, err := os.Readlink(socket)
	must(t, err)
	must(t, os.Remove(socket))
	r := &relay{daemon: daemon}
	listener, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(client)
		}
	}()
	return r
}

func (r *relay) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", r.daemon)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if limit := r.limit.Load(); r.sent.Add(int64(n)) > limit && limit > 0 {
			r.limit.Store(0)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reached()
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestInterruptedDiskMove ends the agent of the destination and the libvirt of the source while a disk is copied and
// while it is compared. The next attempt continues. A copy that was changed is made again.
func TestInterruptedDiskMove(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, id := moving(t, a)
	const data = 256 << 20
	run(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0x17 100M 256M", a.diskOf(t, id))
	socket := strings.Replace(strings.TrimPrefix(b.o.Migration.URI, "qemu+unix:///system?socket="), "%s", a.name, 1)
	r := newRelay(t, socket)
	build := func(limit int64, interrupt func(end context.CancelFunc)) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.mu.Lock()
		r.reached = func() { interrupt(cancel) }
		r.mu.Unlock()
		r.sent.Store(0)
		r.limit.Store(limit)
		return b.Build(ctx, g)
	}
	killed := func(end context.CancelFunc) { end() }
	if err := build(data*3/4, killed); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("an interrupted copy: %v", err)
	}
	wantGuests(t, b.Driver)
	if err := build(data*3/4, killed); !fault.Is(err, fault.Unavailable) { // it has copied the rest, and compares
		t.Fatalf("an interrupted comparison: %v", err)
	}
	copied := incomingPath(b.Driver, g.ID)
	record := (&copier{to: copied}).load()
	if record.Copied < data || record.Verified {
		t.Errorf("the second attempt has not continued: %+v", record)
	}
	file, err := os.OpenFile(copied, os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteAt([]byte("changed"), record.Size-1<<20)
	must(t, errors.Join(err, file.Close()))
	stopped := func(context.CancelFunc) {
		a.daemon.Stop(t)
		a.daemon.Resume(t)
	}
	must(t, build(data*3/2, stopped)) // the comparison has ended with a difference, and the copy begins again
	if r.limit.Load() != 0 {
		t.Error("the changed copy was not made again")
	}
	b.hasMarker(t, g.ID)
	run(t, "qemu-io", "-f", "qcow2", "-c", "read -P 0x17 100M 256M", b.diskOf(t, g.ID))
	wantGuests(t, b.Driver, listed(g))
}
