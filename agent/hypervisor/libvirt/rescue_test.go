package libvirt

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestRescue lets a guest boot a rescue image, with its own disk beside it, and then its own disk again.
func TestRescue(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	base := filepath.Join(dir, "_base")
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	must(t, os.Mkdir(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.BootSector("its own disk\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(base, qcow2Image+".raw"), libvirtd.BootSector("the rescue image\n"), 0o644))
	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB = rawImage, 1
	must(t, d.Build(t.Context(), g))
	console, rescue := d.path(g.ID, "console.log"), d.path(g.ID, rescueName)
	awaitText(t, console, "its own disk")
	rescued := g
	rescued.Rescue = qcow2Image
	for range 2 { // repeated
		must(t, d.Build(t.Context(), rescued))
		wantGuests(t, d, rescued)
		awaitText(t, console, "the rescue image")
	}
	out := run(t, "virsh", "-c", "qemu+unix:///system?socket="+daemon.Socket, "dumpxml", "berth-"+g.ID)
	if !strings.Contains(out, d.path(g.ID, "disk-0.qcow2")) {
		t.Errorf("the rescued guest does not have its own disk:\n%s", out)
	}
	missing := g
	missing.Rescue = hypervisortest.ID("f")
	if err := d.Build(t.Context(), missing); err == nil || fault.Is(err, fault.Unavailable) {
		t.Errorf("an image that does not exist: %v", err)
	}
	wantGuests(t, d, rescued)
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", filepath.Join(base, badImage+".qcow2"), "100T")
	missing.Rescue = badImage
	if err := d.Build(t.Context(), missing); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "free") {
		t.Errorf("an image with a disk that the host has no room for: %v", err)
	}
	wantGuests(t, d, rescued)
	must(t, os.Truncate(console, 0)) // QEMU appends to it
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	if _, err := os.Stat(rescue); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the rescue disk remains: %v", err)
	}
	awaitText(t, console, "its own disk")
}

// TestRefusedRescue starts a guest after a rescue that was refused when the disk of its image existed: that is removed.
func TestRefusedRescue(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.Images = imagecache.New(d.path("_base"), nil, slog.New(slog.DiscardHandler))
	must(t, os.Mkdir(d.path("_base"), 0o711))
	must(t, os.WriteFile(d.path("_base", rawImage+".raw"), libvirtd.BootSector("x"), 0o644))
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	rescued := g
	rescued.Rescue = rawImage
	must(t, makeRescueDisk(t.Context(), d, rescued, d.path(g.ID, rescueName)))
	must(t, os.WriteFile(d.path(g.ID, rescueName+".new"), nil, 0o600)) // of an agent that was killed
	g.Stopped = false
	must(t, d.Build(t.Context(), g))
	if left, _ := filepath.Glob(d.path(g.ID, "rescue*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
