package libvirt

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestContract runs the suite of all drivers on a real libvirtd with emulated guests.
func TestContract(t *testing.T) {
	t.Parallel()
	daemon, other := libvirtd.StartPair(t)
	var mu sync.Mutex
	dirs := map[string]string{}
	hypervisortest.Run(t, func(t *testing.T) hypervisor.Hypervisor {
		mu.Lock()
		defer mu.Unlock()
		if dirs[t.Name()] == "" {
			dirs[t.Name()] = daemon.GuestDir(t)
		}
		d := open(t, daemon, dirs[t.Name()])
		d.o.Migration.URI = "qemu+unix:///system?socket=" + other.Socket
		return d
	}, func(t *testing.T, g hypervisor.Guest) {
		d := open(t, other, other.GuestDir(t))
		d.o.Migration.Address = other.Address
		must(t, d.Receive(t.Context(), g))
	})
}

// open returns a driver of the daemon. The guests that exist when the test ends are destroyed.
func open(t *testing.T, daemon *libvirtd.Daemon, dir string) *Driver {
	t.Helper()
	d, err := New(Options{Socket: daemon.Socket, VirtType: "qemu", Dir: dir,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroyAll(t, d) })
	return d
}

func destroyAll(t *testing.T, d *Driver) {
	t.Helper()
	defer d.Close()
	ctx := context.WithoutCancel(t.Context())
	guests, err := d.Guests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guests {
		if err := d.Destroy(ctx, g.ID); err != nil {
			t.Error(err)
		}
	}
}
