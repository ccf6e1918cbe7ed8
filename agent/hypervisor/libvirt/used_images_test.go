package libvirt

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestUnusedImagesAreRemoved checks that the copy of an image remains while a disk has it as its backing file, also the
// disk of an interrupted rebuild, and while a disk is being made.
func TestUnusedImagesAreRemoved(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	base := filepath.Join(dir, "_base")
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	d.o.Cleanup.Age = time.Hour
	must(t, os.Mkdir(base, 0o711))
	for _, image := range []string{rawImage, qcow2Image, badImage} {
		must(t, os.WriteFile(filepath.Join(base, image+".raw"), libvirtd.BootSector("x"), 0o644))
	}
	now := time.Now()
	remain := func(after time.Duration, want ...string) {
		t.Helper()
		must(t, removeUnusedImages(d, now.Add(after)))
		entries, err := os.ReadDir(base)
		must(t, err)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB = rawImage, 1
	must(t, d.Build(t.Context(), g))
	next := filepath.Join(dir, g.ID, diskName(1)) // the agent was killed in the middle of a rebuild
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", filepath.Join(base, qcow2Image+".raw"), next)
	d.making.RLock()
	remain(2*time.Hour, rawImage+".raw", rawImage+".sha512", qcow2Image+".raw", badImage+".raw")
	d.making.RUnlock()
	remain(30*time.Minute, rawImage+".raw", rawImage+".sha512", qcow2Image+".raw", badImage+".raw")
	remain(2*time.Hour, rawImage+".raw", rawImage+".sha512", qcow2Image+".raw")
	d.o.Cleanup.Most = 1 // the disks refer to what remains
	remain(2*time.Hour, rawImage+".raw", rawImage+".sha512", qcow2Image+".raw")
	d.o.Cleanup.Most = 0
	must(t, d.Destroy(t.Context(), g.ID))
	remain(150*time.Minute, rawImage+".raw", rawImage+".sha512", qcow2Image+".raw")
	d.o.Cleanup = Cleanup{Age: 100 * time.Hour, Most: 1}
	remain(4 * time.Hour)
}

// TestFilesOfOthers looks for the images that guests use, and for snapshots of a disk, in directories where others have
// left files that cannot be opened at once, such as a FIFO without a writer.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	d, err := New(Options{Dir: t.TempDir()})
	must(t, err)
	guest := d.path(hypervisortest.ID("a"))
	disk := filepath.Join(guest, diskName(0))
	for _, dir := range []string{guest, d.path("others")} {
		must(t, os.Mkdir(dir, 0o700))
		must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		must(t, os.Symlink("loop", filepath.Join(dir, "loop.d")))
		socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
		must(t, err)
		t.Cleanup(func() { socket.Close() })
	}
	must(t, os.Symlink("loop", d.path("loop")))
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-u", "-b", "/x/"+rawImage+".raw", disk, "1G")
	used, err := UsedImages(d)
	if err != nil || !used(rawImage+".raw") || used(qcow2Image+".raw") {
		t.Errorf("the images in use: %v", err)
	}
	if above, err := overlayOf(disk); above != "" || err != nil {
		t.Errorf("an overlay %q, %v", above, err)
	}
}

// TestPathLikeAPattern has the guests in a directory whose path has characters of patterns: disks are found there, so
// that images in use stay, and a guest that runs is not started a second time.
func TestPathLikeAPattern(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, filepath.Join(daemon.GuestDir(t), "[odd]*"))
	base := d.path("_base")
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	must(t, os.MkdirAll(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.BootSector("x"), 0o644))
	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB = rawImage, 1
	must(t, d.Build(t.Context(), g))
	must(t, removeUnusedImages(d, time.Now().Add(time.Hour)))
	if _, err := os.Stat(filepath.Join(base, rawImage+".raw")); err != nil {
		t.Errorf("an image that a guest uses: %v", err)
	}
	if err := d.checkUnused(uuid.MustParse(g.ID)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the disk of a guest that runs: %v", err)
	}
	rebuilt := g
	rebuilt.Build = 1
	must(t, d.Build(t.Context(), rebuilt))
	if _, err := os.Stat(d.path(g.ID, diskName(0))); !os.IsNotExist(err) {
		t.Errorf("the disk of the guest before its rebuild: %v", err)
	}
	must(t, d.Destroy(t.Context(), g.ID))
}

// TestUnreadableDirectory has directories that cannot be read now, as when a file system does not answer: the guest of
// one may have a disk, and the guests of another host may use any image.
func TestUnreadableDirectory(t *testing.T) {
	t.Parallel()
	d, err := New(Options{Dir: t.TempDir()})
	must(t, err)
	id := uuid.MustParse(hypervisortest.ID("a"))
	must(t, os.Symlink(id.String(), d.path(id.String())))
	for name, err := range map[string]error{"unlisted": d.removeUnlisted(id, id.String()), "used": d.checkUnused(id),
		"unfinished": d.removeUnfinished(id, false)} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.Symlink("on-b", d.path("on-b")))
	if _, err := UsedImages(d); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the images in use: %v", err)
	}
}
