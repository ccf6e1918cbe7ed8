package libvirt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// The images of the tests.
const (
	rawImage   = "11111111-0000-4000-8000-000000000000"
	qcow2Image = "22222222-0000-4000-8000-000000000000"
	badImage   = "33333333-0000-4000-8000-000000000000"
)

// TestImages boots guests from a raw and from a qcow2 image, whose first instructions print a line to the console, and
// rebuilds a guest with another image. The images do not change.
func TestImages(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	base := filepath.Join(dir, "_base")
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	must(t, os.Mkdir(base, 0o711))
	raw, source := filepath.Join(base, rawImage+".raw"), filepath.Join(t.TempDir(), "disk")
	must(t, os.WriteFile(raw, libvirtd.BootSector("booted from raw\n"), 0o644))
	must(t, os.WriteFile(source, libvirtd.BootSector("booted from qcow2\n"), 0o644))
	run(t, "qemu-img", "convert", "-O", "qcow2", source, filepath.Join(base, qcow2Image+".qcow2"))
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", raw, filepath.Join(base, badImage+".qcow2"))

	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB = rawImage, 1
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	console := d.path(g.ID, "console.log")
	awaitText(t, console, "booted from raw")
	if out := run(t, "qemu-img", "info", "-U", d.path(g.ID, "disk-0.qcow2")); !strings.Contains(out, "1 GiB") {
		t.Errorf("the disk:\n%s", out)
	}
	g.Image, g.Build = qcow2Image, 1
	must(t, d.Build(t.Context(), g))
	awaitText(t, console, "booted from qcow2")
	g.Build = 2
	for image, says := range map[string]string{badImage: "backing file", hypervisortest.ID("f"): "no image service"} {
		next := g
		next.Image = image
		if err := d.Build(t.Context(), next); err == nil || !strings.Contains(err.Error(), says) ||
			fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", image, err)
		}
	}
	must(t, os.WriteFile(d.path(g.ID, diskName(2)), []byte("of an attempt with another image"), 0o600))
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	if out := run(t, "qemu-img", "info", "-U", d.path(g.ID, diskName(2))); !strings.Contains(out, qcow2Image) {
		t.Errorf("the disk:\n%s", out)
	}
	if data, err := os.ReadFile(raw); err != nil || !bytes.Equal(data, libvirtd.BootSector("booted from raw\n")) {
		t.Errorf("the image has changed: %v", err)
	}
	big := filepath.Join(base, hypervisortest.ID("e")+".qcow2")
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", big, "2G")
	b := hypervisortest.Guest("b")
	b.Image, b.DiskGB = hypervisortest.ID("e"), 1
	if err := d.Build(t.Context(), b); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "larger disk") {
		t.Errorf("too large: %v", err)
	}
}

// imageService is an image service with one raw image.
type imageService struct{ data []byte }

func (s imageService) Image(_ context.Context, id string) (image.Image, error) {
	return image.Image{ID: id, Status: image.Active, DiskFormat: "raw", Size: int64(len(s.data))}, nil
}

func (s imageService) Download(context.Context, string, int64) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(s.data)), 0, nil
}

// TestVanishedImage starts a stopped guest whose image has vanished from the host: it is downloaded again, and the
// guest boots its disk. Other data of the image service is refused.
func TestVanishedImage(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	base, quiet := filepath.Join(dir, "_base"), slog.New(slog.DiscardHandler)
	good := imageService{libvirtd.BootSector("booted from raw\n")}
	d.o.Images = imagecache.New(base, good, quiet)
	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB = rawImage, 1
	must(t, d.Build(t.Context(), g))
	awaitText(t, d.path(g.ID, "console.log"), "booted from raw")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	must(t, os.RemoveAll(base))
	must(t, os.Truncate(d.path(g.ID, "console.log"), 0))
	g.Stopped = false
	d.o.Images = imagecache.New(base, imageService{libvirtd.BootSector("other data\n")}, quiet)
	if err := d.Build(t.Context(), g); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "other data") {
		t.Errorf("with other data: %v", err)
	}
	d.o.Images = imagecache.New(base, good, quiet)
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	awaitText(t, d.path(g.ID, "console.log"), "booted from raw")
}

// TestHardware boots guests whose image chooses another disk bus, and a guest agent, a video device and a model of
// network interfaces. The driver reports what they have.
func TestHardware(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	base := filepath.Join(dir, "_base")
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	must(t, os.Mkdir(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.BootSector("booted\n"), 0o644))
	for id, h := range map[string]hypervisor.Hardware{"a": {DiskBus: "sata", Video: "vga", GuestAgent: true},
		"b": {DiskBus: "scsi", Video: "bochs"}, "c": {Machine: "pc-q35-6.2", Video: "virtio", NICModel: "e1000e"}} {
		g := hypervisortest.Guest(id)
		g.Image, g.DiskGB, g.Hardware = rawImage, 1, h
		must(t, d.Build(t.Context(), g))
		awaitText(t, d.path(g.ID, "console.log"), "booted")
		wantGuests(t, d, g)
		must(t, d.Destroy(t.Context(), g.ID))
	}
}

// awaitText waits until a file contains a text.
func awaitText(t *testing.T, file, text string) {
	t.Helper()
	testenv.Until(t, file+" contains "+text, func() error {
		data, err := os.ReadFile(file)
		if err == nil && !bytes.Contains(data, []byte(text)) {
			return errors.New(string(data))
		}
		return err
	})
}

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, arguments, err, out)
	}
	return string(out)
}
