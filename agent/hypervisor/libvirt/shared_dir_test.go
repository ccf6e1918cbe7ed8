package libvirt

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// openShared returns the drivers of two hosts with one instances_path, named a and b, and a relay for each direction,
// which counts what the libvirt of a host sends to the other host.
func openShared(t *testing.T) (a, b site, fromA, fromB *relay) {
	t.Helper()
	a, b = openPair(t)
	dir := a.o.Dir
	images := imagecache.New(filepath.Join(dir, "_base"), nil, slog.New(slog.DiscardHandler))
	for _, s := range []site{a, b} {
		s.o.Host, s.o.Images = s.name, images
		s.o.Dir, s.o.root = chooseDir(dir, s.name)
		must(t, s.Start(t.Context()))
	}
	if a.o.Dir != dir || b.o.Dir != filepath.Join(dir, "on-b") {
		t.Fatalf("the directories are %s and %s", a.o.Dir, b.o.Dir)
	}
	socket := func(s site) string {
		return strings.Replace(strings.TrimPrefix(a.o.Migration.URI, "qemu+unix:///system?socket="), "%s", s.name, 1)
	}
	return a, b, newRelay(t, socket(a)), newRelay(t, socket(b))
}

// fill writes many data into the disk of a guest that does not run, so that a copy is noticed.
func (s site) fill(t *testing.T, id string) {
	t.Helper()
	run(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0x17 100M 64M", s.diskOf(t, id))
}

// holds checks that a disk has bytes of a value at a place.
func holds(t *testing.T, disk, value, place string) {
	t.Helper()
	out, err := exec.Command("qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -P "+value+" "+place, disk).
		CombinedOutput()
	if err != nil || strings.Contains(string(out), "failed") {
		t.Errorf("the disk %s does not have %s at %s: %v: %s", disk, value, place, err, out)
	}
}

// maxTold is how many bytes libvirt may send during a move in which nothing is copied.
const maxTold = 4 << 20

// TestColdMoveInASharedDirectory moves a guest to a host with the same directory and a larger flavor, writes there,
// reverts, and moves it again with a confirmation. No disk is copied, the disk at the source does not change, and the
// guest keeps what it has written.
func TestColdMoveInASharedDirectory(t *testing.T) {
	t.Parallel()
	a, b, fromA, _ := openShared(t)
	g, id := moving(t, a)
	a.fill(t, id)
	before, err := os.ReadFile(a.diskOf(t, id))
	must(t, err)
	fromA.sent.Store(0)
	larger := g
	larger.DiskGB = 2
	for range 2 {
		must(t, b.Build(t.Context(), larger))
	}
	if sent := fromA.sent.Load(); sent > maxTold {
		t.Errorf("the source has sent %d bytes", sent)
	}
	wantFiles(t, b.path(incomingDir))
	wantGuests(t, b.Driver, listed(larger))
	b.hasMarker(t, g.ID)
	if out := run(t, "qemu-img", "info", "-U", b.diskOf(t, g.ID)); !strings.Contains(out, "2 GiB") {
		t.Errorf("the disk:\n%s", out)
	}
	run(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0xee 700M 1M", b.diskOf(t, g.ID))
	running := listed(larger)
	running.Stopped = false
	must(t, b.Build(t.Context(), running))
	b.count(t, g.ID, 5)

	must(t, b.Destroy(t.Context(), g.ID)) // reverted
	if after, err := os.ReadFile(a.diskOf(t, id)); err != nil || string(before) != string(after) {
		t.Errorf("the disk at the source was changed: %v", err)
	}
	must(t, a.Rename(t.Context(), id, g.ID, ""))
	started := listed(g)
	started.Stopped = false
	must(t, a.Build(t.Context(), started))
	a.count(t, g.ID, 5)
	must(t, a.Build(t.Context(), listed(g)))
	a.hasMarker(t, g.ID)
	must(t, a.Rename(t.Context(), g.ID, id, g.ID))

	g.Stopped = false
	must(t, b.Build(t.Context(), g))
	b.count(t, g.ID, 5)
	must(t, a.Start(t.Context()))       // an agent that starts again touches nothing of another host
	must(t, a.Destroy(t.Context(), id)) // confirmed
	if _, err := os.Stat(a.path(g.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files at the source: %v", err)
	}
	b.hasMarker(t, g.ID)
	holds(t, b.diskOf(t, g.ID), "0x17", "100M 64M")
	wantGuests(t, a.Driver)
}

// TestManyMovesInASharedDirectory moves a guest to and fro, and writes on each host. When many files are below its
// disk, it is copied and they are merged, so that it refers to the image alone.
func TestManyMovesInASharedDirectory(t *testing.T) {
	t.Parallel()
	a, b, fromA, _ := openShared(t)
	g, id := moving(t, a)
	from, to, merged := a, b, false
	values := []string{"0x01", "0x02", "0x03", "0x04", "0x05", "0x06"}
	for n, value := range values {
		run(t, "qemu-io", "-f", "qcow2", "-c", "write -P "+value+" "+placeOf(n), from.diskOf(t, id))
		g.DiskFrom = &hypervisor.DiskSource{Host: from.name, Guest: id}
		must(t, to.Build(t.Context(), g))
		must(t, from.Destroy(t.Context(), id))
		from, to = to, from
		from.hasMarker(t, g.ID)
		for i := range n + 1 {
			holds(t, from.diskOf(t, g.ID), values[i], placeOf(i))
		}
		s, ok, err := inspectShared(from.diskOf(t, g.ID))
		if err != nil || !ok || s.image != a.path("_base", rawImage+".raw") {
			t.Errorf("after move %d the disk is %+v %t %v", n+1, s, ok, err)
		}
		if n > 0 && len(s.lower) == 0 {
			merged = true
		}
		must(t, from.Rename(t.Context(), g.ID, id, g.ID))
	}
	if !merged {
		t.Errorf("the files below the disk were never merged; %d bytes were sent", fromA.sent.Load())
	}
}

// placeOf returns where the data of a move are.
func placeOf(n int) string { return string(rune('1'+n)) + "00M 64k" }

// TestInterruptedMoveInASharedDirectory ends the agent of the destination after each step in which it places the disk.
// The next Build, or its removal, continues, and the source keeps its disk.
func TestInterruptedMoveInASharedDirectory(t *testing.T) {
	t.Parallel()
	a, b, _, _ := openShared(t)
	g, id := moving(t, a)
	before, err := os.ReadFile(a.diskOf(t, id))
	must(t, err)
	c, host, err := b.connect(t.Context())
	must(t, err)
	for _, placed := range []int{0, 1, 2} { // without the disk, and with it
		for _, removed := range []bool{true, false} {
			w := &builder{d: b.Driver, c: c, host: host, guest: g}
			must(t, w.receive(t.Context()))
			if w.copied.shared == nil {
				t.Fatal("the directory is not taken as shared")
			}
			if placed > 0 {
				w.domain.UUID = freeUUID(g.ID, nil)
				must(t, w.place(t.Context()))
			}
			if placed == 1 {
				must(t, os.Remove(b.path(g.ID, diskName(0))))
			}
			if removed { // killed, and another host is tried
				must(t, b.Destroy(t.Context(), g.ID))
			} else {
				must(t, b.Start(t.Context()))
				must(t, b.Build(t.Context(), g))
				b.hasMarker(t, g.ID)
				must(t, b.Destroy(t.Context(), g.ID))
			}
			wantFiles(t, b.path(incomingDir))
			if _, err := os.Stat(b.path(g.ID)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("placed %d, removed %t: the directory of the guest remains: %v", placed, removed, err)
			}
			if after, err := os.ReadFile(a.diskOf(t, id)); err != nil || string(before) != string(after) {
				t.Errorf("placed %d, removed %t: the disk at the source was changed: %v", placed, removed, err)
			}
		}
	}
	if n := names(a.diskOf(t, id)); n != 1 {
		t.Errorf("the disk at the source has %d names", n)
	}
}

// TestDiskInUseDoesNotMove starts a guest at its source while its disk is placed at a destination with the same
// directory: that refuses. When the guest at the destination runs, the source cannot start.
func TestDiskInUseDoesNotMove(t *testing.T) {
	t.Parallel()
	a, b, _, _ := openShared(t)
	g, id := moving(t, a)
	c, host, err := b.connect(t.Context())
	must(t, err)
	w := &builder{d: b.Driver, c: c, host: host, guest: g}
	must(t, w.receive(t.Context()))
	source := listed(g)
	source.ID, source.Server, source.Stopped = id, g.ID, false
	must(t, a.Build(t.Context(), source))
	w.domain.UUID = freeUUID(g.ID, nil)
	if err := w.place(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a disk in use was placed: %v", err)
	}
	source.Stopped = true
	must(t, a.Build(t.Context(), source))
	g.Stopped = false
	must(t, b.Build(t.Context(), g))
	b.count(t, g.ID, 5)
	source.Stopped = false
	if err := a.Build(t.Context(), source); !fault.Is(err, fault.Unavailable) {
		t.Errorf("started beside the guest at the destination: %v", err)
	}
	must(t, a.Destroy(t.Context(), id))
	b.hasMarker(t, g.ID)
}

// TestLiveMigrationInASharedDirectory migrates a guest to a host with the same directory and back. Its disk is not
// copied, and it continues to run.
func TestLiveMigrationInASharedDirectory(t *testing.T) {
	t.Parallel()
	a, b, _, _ := openShared(t)
	g := counting()
	g.Stopped = true
	must(t, a.Build(t.Context(), g))
	a.mark(t, g.ID)
	g.Stopped = false
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 5)
	disk, err := os.Stat(a.diskOf(t, g.ID))
	must(t, err)
	migrated(t, g, a, b)
	n = b.count(t, g.ID, n+5)
	b.hasMarker(t, g.ID)
	now, err := os.Stat(b.diskOf(t, g.ID))
	if err != nil || !os.SameFile(disk, now) || names(b.diskOf(t, g.ID)) != 1 {
		t.Errorf("the disk is another file: %v", err)
	}
	migrated(t, g, b, a)
	a.count(t, g.ID, n+5)
	a.hasMarker(t, g.ID)
	stopped := g
	stopped.Stopped = true
	must(t, a.Build(t.Context(), stopped))
	a.mark(t, g.ID)
	must(t, a.Build(t.Context(), g))
	must(t, a.Destroy(t.Context(), g.ID))
	if left, _ := filepath.Glob(a.path("*", "disk-*")); len(left) > 0 {
		t.Errorf("%v remain", left)
	}
}

// TestLiveMigrationToAnotherImage migrates a guest to a host that has other data of its image, and one whose disk does
// not refer to its image any more. Both are refused, and the guests run on.
func TestLiveMigrationToAnotherImage(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	must(t, os.WriteFile(b.path("_base", rawImage+".raw"), libvirtd.BootSector("other data\n"), 0o644))
	g := counting()
	for _, merged := range []bool{false, true} {
		if merged {
			g.Stopped = true
			must(t, a.Build(t.Context(), g))
			run(t, "qemu-img", "rebase", "-q", "-f", "qcow2", "-b", "", a.diskOf(t, g.ID))
			g.Stopped = false
		}
		must(t, a.Build(t.Context(), g))
		n := a.count(t, g.ID, 5)
		must(t, b.Receive(t.Context(), g))
		err := a.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: b.name})
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "migrate the server cold") {
			t.Errorf("merged: %t: %v", merged, err)
		}
		must(t, b.Forget(t.Context(), g.ID))
		a.count(t, g.ID, n+5)
	}
}

// TestLiveMigrationOfAMovedGuest migrates a guest whose disk has files below it after a cold move: with the directory
// they are migrated without a copy; to a host with another directory the migration is refused.
func TestLiveMigrationOfAMovedGuest(t *testing.T) {
	t.Parallel()
	a, b, _, _ := openShared(t)
	g, id := moving(t, a)
	g.Stopped = false
	must(t, b.Build(t.Context(), g))
	must(t, a.Destroy(t.Context(), id))
	n := b.count(t, g.ID, 5)
	elsewhere := a.daemon.GuestDir(t)
	was := a.o
	a.o.Dir, a.o.Host = elsewhere, ""
	must(t, a.Receive(t.Context(), listed(g)))
	err := b.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: a.name})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "migrate the server cold") {
		t.Errorf("migrated to another directory: %v", err)
	}
	must(t, a.Forget(t.Context(), g.ID))
	*a.directory.o = was
	migrated(t, listed(g), b, a)
	a.count(t, g.ID, n+5)
	a.hasMarker(t, g.ID)
}

// TestLiveMigrationThatIsGivenUp links the disk of a guest for a destination that then forgets the guest: the guest
// keeps its disk, and migrates later.
func TestLiveMigrationThatIsGivenUp(t *testing.T) {
	t.Parallel()
	a, b, _, _ := openShared(t)
	g := counting()
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 5)
	must(t, b.Receive(t.Context(), g))
	disk, prepared := a.path(g.ID, diskName(0)), b.path(g.ID, diskName(0))
	files, ok, err := inspectShared(disk)
	if err != nil || !ok {
		t.Fatal(files, ok, err)
	}
	m := &liveDisk{d: a.Driver, host: b.name}
	if m.isShared(t.Context(), disk, disk) {
		t.Error("a disk with the same path at the other host is taken as shared")
	}
	for range 2 {
		if linked, err := m.link(files, prepared); err != nil || !linked || !sameFile(disk, prepared) {
			t.Fatalf("linked: %t %v", linked, err)
		}
	}
	must(t, b.Receive(t.Context(), g))
	must(t, b.Forget(t.Context(), g.ID))
	if names(disk) != 1 {
		t.Errorf("the disk has %d names", names(disk))
	}
	migrated(t, g, a, b)
	b.count(t, g.ID, n+5)
}

// TestDirectoriesThatAreNotShared probes directories with the same path: one that the libvirt of the other host sees,
// and one in whose place it has another file system.
func TestDirectoriesThatAreNotShared(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	shared, other := a.daemon.GuestDir(t), a.daemon.GuestDir(t)
	if out, err := a.daemon.Command(t.Context(), "mount", "-t", "tmpfs", "tmpfs", other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := &diskSource{client: dial(t, a.daemon), driver: b.Driver, dial: dialer(
		strings.Replace(a.o.Migration.URI, "%s", a.name, 1), 0)}
	for dir, want := range map[string]bool{shared: true, other: false, filepath.Join(shared, "missing"): false} {
		got, err := isShared(t.Context(), dir, s.readSmall)
		if err != nil || got != want {
			t.Errorf("%s is shared: %t %v, want %t", dir, got, err, want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("the probe has left %v", left)
		}
	}
	s.endPools(t.Context())
	if n, err := rpc.StorageOf(dial(t, a.daemon)).Pools(t.Context()); n != 0 || err != nil {
		t.Errorf("%d storage pools remain: %v", n, err)
	}
}

// TestFirstHost starts hosts with one directory: the first one has its guests directly in it, others do not, and a host
// that was only renamed is refused.
func TestFirstHost(t *testing.T) {
	t.Parallel()
	daemon, other := libvirtd.Start(t), libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	start := func(at *libvirtd.Daemon, host string) (*Driver, error) {
		d, err := New(Options{VirtType: "qemu", Dir: dir, Host: host, Socket: at.Socket})
		must(t, err)
		t.Cleanup(d.Close)
		return d, d.Start(t.Context())
	}
	a, err := start(daemon, "a")
	must(t, err)
	b, err := start(other, "b")
	must(t, err)
	for range 2 {
		if a.o.Dir != dir || b.o.Dir != filepath.Join(dir, "on-b") {
			t.Errorf("the directories are %s and %s", a.o.Dir, b.o.Dir)
		}
		g := hypervisortest.Guest("a")
		g.Stopped = true
		must(t, errors.Join(a.Build(t.Context(), g), b.Build(t.Context(), g)))
		must(t, errors.Join(a.Start(t.Context()), b.Start(t.Context())))
		wantGuests(t, a, g)
		wantGuests(t, b, g)
		must(t, b.Destroy(t.Context(), g.ID))
		wantGuests(t, a, g)
		b, err = start(other, "b")
		must(t, err)
	}
	if _, err := start(daemon, "renamed"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "host a") {
		t.Errorf("a renamed host: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, hostsDir, "a"))) // as it does not use the directory any more
	if c, err := start(daemon, "c"); err != nil || c.o.Dir != dir {
		t.Errorf("after the first host has left: %s %v", c.o.Dir, err)
	}
	if b, err := start(other, "b"); err != nil || b.o.Dir != filepath.Join(dir, "on-b") {
		t.Errorf("the other host: %s %v", b.o.Dir, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, hostsDir, "z"), nil, 0o600)) // killed when it had started at the same time
	for host, want := range map[string]string{"c": dir, "z": filepath.Join(dir, "on-z")} {
		if got, _ := chooseDir(dir, host); got != want {
			t.Errorf("host %s: %s, want %s", host, got, want)
		}
	}
	late := directory{&Options{Dir: dir, Host: "d"}} // it started when the directory was empty
	if first, err := late.claimFirst(); first != "c" || err != nil {
		t.Errorf("the first host is %s %v", first, err)
	}
}
