package libvirt

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// memoryImages is an image service that can continue uploads.
type memoryImages struct {
	mu      sync.Mutex
	data    map[string][]byte
	status  map[string]string
	breakAt int64 // the next upload ends there; 0: it does not
	froms   []int64
}

func (m *memoryImages) Image(_ context.Context, id string) (image.Image, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status[id] == "" {
		return image.Image{}, fault.New(fault.NotFound, "there is no image %s", id)
	}
	sum := sha512.Sum512(m.data[id])
	return image.Image{ID: id, Status: m.status[id], Size: int64(len(m.data[id])), DiskFormat: "qcow2", HashAlgo: "sha512",
		HashValue: hex.EncodeToString(sum[:])}, nil
}

func (m *memoryImages) Download(_ context.Context, id string, _ int64) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(m.data[id])), 0, nil
}

func (m *memoryImages) Received(_ context.Context, id string) (int64, error) {
	return int64(len(m.data[id])), nil
}

func (m *memoryImages) Upload(_ context.Context, id string, data io.Reader, from, total int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.froms = append(m.froms, from)
	limit := total
	if m.breakAt > 0 {
		limit, m.breakAt = m.breakAt, 0
	}
	part, err := io.ReadAll(io.LimitReader(data, limit))
	m.data[id] = append(m.data[id][:from:from], part...)
	if err == nil && int64(len(m.data[id])) == total {
		m.status[id] = image.Active
		return nil
	}
	return fault.New(fault.Unavailable, "the connection has ended: %v", err)
}

// TestShelvedDisk uploads the disk of a stopped guest, with the data of its image, over an interruption of the image
// service and of the agent, and builds the guest again from it: the disk has what the guest has written, and needs no
// image.
func TestShelvedDisk(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	images := &memoryImages{data: map[string][]byte{}, status: map[string]string{qcow2Image: "queued"}}
	reopen := func() site {
		d := open(t, daemon, dir)
		d.o.Images = imagecache.New(filepath.Join(dir, "_base"), images, slog.New(slog.DiscardHandler))
		return site{Driver: d, daemon: daemon, name: "home"}
	}
	s := reopen()
	base := filepath.Join(dir, "_base")
	must(t, os.Mkdir(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.BootSector("booted from the disk\n"), 0o644))
	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB = rawImage, 1
	must(t, s.Build(t.Context(), g))
	if _, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the disk of a guest that runs: %v", err)
	}
	g.Stopped = true
	must(t, s.Build(t.Context(), g))
	s.mark(t, g.ID)

	images.breakAt = 70000
	if _, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("interrupted: %v", err)
	}
	s = reopen()
	for range 2 {
		uploaded, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image})
		if err != nil || uploaded.Bytes != int64(len(images.data[qcow2Image])) {
			t.Fatalf("%+v %v", uploaded, err)
		}
	}
	if len(images.froms) != 2 || images.froms[1] != 70000 {
		t.Errorf("uploads from %v", images.froms)
	}
	if size := len(images.data[qcow2Image]); size > 8<<20 {
		t.Errorf("the image has %d bytes: blank parts were copied", size)
	}
	s.hasMarker(t, g.ID)
	must(t, s.Destroy(t.Context(), g.ID))
	if _, err := os.Stat(s.path(g.ID)); !os.IsNotExist(err) {
		t.Errorf("files of the guest remain: %v", err)
	}

	missing := g
	missing.DiskImage = hypervisortest.ID("f")
	if err := s.Build(t.Context(), missing); !fault.Is(err, fault.NotFound) {
		t.Errorf("built without its disk: %v", err)
	}
	wantGuests(t, s.Driver)
	g.DiskImage, g.Stopped = qcow2Image, false
	must(t, s.Build(t.Context(), g))
	s.hasMarker(t, g.ID)
	awaitText(t, s.path(g.ID, "console.log"), "booted from the disk")
	disk := s.diskOf(t, g.ID)
	if backing, err := backingFile(disk); backing != "" || err != nil {
		t.Errorf("the disk refers to %q: %v", backing, err)
	}
	if out := run(t, "qemu-img", "info", "-U", disk); !strings.Contains(out, "1 GiB") {
		t.Errorf("the disk:\n%s", out)
	}
	g.DiskImage = ""
	wantGuests(t, s.Driver, g)
	must(t, s.Build(t.Context(), g))
	s.hasMarker(t, g.ID)
}

// TestShelvedDiskThatHasChanged uploads a disk again from its beginning if the guest has written to it meanwhile.
func TestShelvedDiskThatHasChanged(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	images := &memoryImages{data: map[string][]byte{}, status: map[string]string{qcow2Image: "queued"}, breakAt: 1000}
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.Images = imagecache.New(d.path("_base"), images, slog.New(slog.DiscardHandler))
	s := site{Driver: d, daemon: daemon, name: "home"}
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, s.Build(t.Context(), g))
	if _, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("interrupted: %v", err)
	}
	s.mark(t, g.ID)
	if _, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image}); err != nil {
		t.Fatal(err)
	}
	if len(images.froms) != 2 || images.froms[1] != 0 {
		t.Errorf("uploads from %v", images.froms)
	}
	must(t, s.Destroy(t.Context(), g.ID))
	g.DiskImage = qcow2Image
	must(t, s.Build(t.Context(), g))
	s.hasMarker(t, g.ID)
}

// TestRefusedShelving shelves a guest, and the image service refuses its disk: the guest lists what is left of the copy
// on the host, and EndUpload removes it. Otherwise it would take the room of the disk for as long as the server exists.
func TestRefusedShelving(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	images := &memoryImages{data: map[string][]byte{}, status: map[string]string{qcow2Image: "killed"}}
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.Images = imagecache.New(d.path("_base"), images, slog.New(slog.DiscardHandler))
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	if _, err := d.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image}); !fault.Is(err, fault.Conflict) {
		t.Errorf("refused: %v", err)
	}
	if left := one(t, d).Uploads; left != qcow2Image {
		t.Errorf("listed as left is %q", left)
	}
	must(t, d.EndUpload(t.Context(), g.ID))
	wantGuests(t, d, g)
	if left, _ := filepath.Glob(d.path(g.ID, "shelved*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
