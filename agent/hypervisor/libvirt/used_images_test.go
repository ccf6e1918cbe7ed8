package libvirt

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
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
