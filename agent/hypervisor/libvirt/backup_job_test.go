package libvirt

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// copies lists what uploads of copies have left in the directory of a guest.
func (s site) copies(t *testing.T, id string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.path(id), copyPrefix+"*"))
	must(t, err)
	return files
}

// TestCopyOfRunningGuest copies the disk of a guest that runs: an agent that was killed while libvirt copies finds the
// job again, the upload continues after an interruption, nothing stays on the host, and a guest boots from the copy.
func TestCopyOfRunningGuest(t *testing.T) {
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
	to := hypervisor.Upload{Image: qcow2Image, Copy: true}

	frozen := to
	frozen.Quiesce = true
	if _, err := s.Upload(t.Context(), g.ID, frozen); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "hw_qemu_guest_agent") {
		t.Errorf("without an agent of the guest: %v", err)
	}
	images.breakAt = 70000
	if _, err := s.Upload(t.Context(), g.ID, to); !fault.Is(err, fault.Unavailable) {
		t.Errorf("interrupted: %v", err)
	}
	if left := s.copies(t, g.ID); len(left) != 1 {
		t.Errorf("for the next attempt: %v", left)
	}
	s = reopen()
	if listed := one(t, s.Driver); listed.Uploads != qcow2Image || listed.Stopped {
		t.Errorf("listed %+v", listed)
	}
	uploaded, err := s.Upload(t.Context(), g.ID, to)
	if err != nil || uploaded.Bytes != int64(len(images.data[qcow2Image])) || uploaded.Bytes > 8<<20 {
		t.Fatalf("%+v %v", uploaded, err)
	}
	if len(images.froms) != 2 || images.froms[1] != 70000 {
		t.Errorf("uploads from %v", images.froms)
	}
	for range 2 {
		must(t, s.EndUpload(t.Context(), g.ID))
	}
	if left := s.copies(t, g.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if listed := one(t, s.Driver); listed.Uploads != "" || listed.Stopped {
		t.Errorf("listed %+v", listed)
	}
	twin := hypervisortest.Guest("b")
	twin.Image, twin.DiskGB = qcow2Image, 1
	must(t, s.Build(t.Context(), twin))
	awaitText(t, s.path(twin.ID, "console.log"), "booted from the disk")
}

// one returns the only guest of a driver.
func one(t *testing.T, d *Driver) hypervisor.Guest {
	t.Helper()
	guests, err := d.Guests(t.Context())
	if err != nil || len(guests) != 1 {
		t.Fatalf("%+v %v", guests, err)
	}
	return guests[0]
}

// TestCopyIsFoundOrEnded ends an agent after libvirt has begun to copy: the next one either continues or ends the job,
// and nothing of it stays.
func TestCopyIsFoundOrEnded(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	images := &memoryImages{data: map[string][]byte{}, status: map[string]string{qcow2Image: "queued"}}
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.Images = imagecache.New(d.path("_base"), images, slog.New(slog.DiscardHandler))
	s := site{Driver: d, daemon: daemon, name: "home"}
	g := hypervisortest.Guest("a")
	must(t, s.Build(t.Context(), g))
	c, _, err := d.connect(t.Context())
	must(t, err)
	for name, next := range map[string]func() error{
		"continued": func() error {
			_, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image, Copy: true})
			return err
		},
		"ended": func() error { return nil },
		"not quiesced": func() error { // nothing says that the job has begun while the file systems were frozen
			_, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image, Copy: true, Quiesce: true})
			if !fault.Is(err, fault.Conflict) || images.data[qcow2Image] != nil {
				t.Errorf("%v, and %d bytes are uploaded", err, len(images.data[qcow2Image]))
			}
			return nil
		},
		"another": func() error {
			_, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: rawImage, Copy: true})
			return err
		},
	} {
		images.status[qcow2Image], images.status[rawImage] = "queued", "queued"
		delete(images.data, qcow2Image)
		domains, _, err := d.list(t.Context(), c)
		must(t, err)
		found, _ := find(domains, g.ID)
		file := d.path(found.UUID.String(), copyPrefix+qcow2Image+".qcow2")
		must(t, diskBackup{d, c, found, hypervisor.Upload{Image: qcow2Image, Copy: true}, file}.begin(t.Context()))
		must(t, next())
		must(t, s.EndUpload(t.Context(), g.ID))
		if text, err := c.Backup(t.Context(), found.Domain); err != nil || text != "" {
			t.Errorf("%s: a job stays: %s %v", name, text, err)
		}
		if left := s.copies(t, g.ID); len(left) > 0 {
			t.Errorf("%s: left: %v", name, left)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Upload(ctx, g.ID, hypervisor.Upload{Image: qcow2Image, Copy: true}); err == nil {
		t.Error("a cancelled upload succeeds")
	}
	g.Stopped = true
	must(t, s.Build(t.Context(), g))
	s.mark(t, g.ID)
	images.status[qcow2Image] = "queued"
	if _, err := s.Upload(t.Context(), g.ID, hypervisor.Upload{Image: qcow2Image, Copy: true}); err != nil {
		t.Errorf("of a stopped guest: %v", err)
	}
}
