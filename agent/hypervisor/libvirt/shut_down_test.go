package libvirt

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// TestGuestShutsItselfDown boots a guest that powers itself off: it is listed as shut down, also by a new driver. A
// guest that the driver stops, or that an administrator ends, is not. The guest has a config drive with user data.
func TestGuestShutsItselfDown(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	base := filepath.Join(dir, "_base")
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	d.o.FirstBoot = func(_ context.Context, server string) (configdrive.Server, error) {
		return configdrive.Server{KeyName: "ann", PublicKey: "ssh-ed25519 AAAA", UserData: []byte("of " + server)}, nil
	}
	must(t, os.Mkdir(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.PowerOffSector("going down\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(base, qcow2Image+".raw"), libvirtd.BootSector("staying\n"), 0o644))

	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB = rawImage, 1
	must(t, d.Build(t.Context(), g))
	awaitText(t, d.path(g.ID, "console.log"), "going down")
	down := g
	down.Stopped, down.ShutDown = true, true
	awaitGuest(t, d, down)
	other := open(t, daemon, dir)
	wantGuests(t, other, down)
	drive, err := os.ReadFile(d.path(g.ID, "config.iso"))
	if err != nil || !bytes.Contains(drive, []byte("of "+g.ID)) || !bytes.Contains(drive, []byte("ssh-ed25519 AAAA")) {
		t.Errorf("the config drive has no key or no user data: %v", err)
	}

	stay := hypervisortest.Guest("b")
	stay.Image, stay.DiskGB = qcow2Image, 1
	must(t, d.Destroy(t.Context(), g.ID))
	must(t, d.Build(t.Context(), stay))
	c := dial(t, daemon)
	domains, err := c.Domains(t.Context())
	must(t, err)
	must(t, c.Destroy(t.Context(), domains[0])) // as virsh destroy
	ended := stay
	ended.Stopped = true
	wantGuests(t, d, ended)
	must(t, d.Build(t.Context(), stay))
	wantGuests(t, d, stay)
	must(t, d.Build(t.Context(), ended))
	wantGuests(t, d, ended)
}

// awaitGuest waits until the driver lists only this guest.
func awaitGuest(t *testing.T, d *Driver, g hypervisor.Guest) {
	t.Helper()
	testenv.Until(t, "the guest is listed", func() (bool, error) {
		guests, err := d.Guests(t.Context())
		must(t, err)
		there := len(guests) == 1 && guests[0].ShutDown == g.ShutDown && guests[0].Stopped == g.Stopped
		return there, fmt.Errorf("guests %+v", guests)
	})
	wantGuests(t, d, g)
}
