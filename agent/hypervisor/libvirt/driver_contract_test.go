package libvirt

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	d, err := New(Options{Socket: daemon.Socket, VirtType: "qemu", Dir: dir, VNC: true,
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

// TestDisks checks the content of disks after each operation, on two real libvirtd.
func TestDisks(t *testing.T) {
	t.Parallel()
	daemons := map[string]*libvirtd.Daemon{}
	daemons[hypervisortest.Home], daemons[hypervisortest.Other] = libvirtd.StartPair(t)
	var mu sync.Mutex
	dirs := map[string]string{}
	sockets := t.TempDir()
	for name, daemon := range daemons {
		must(t, os.Symlink(daemon.Socket, filepath.Join(sockets, name)))
	}
	io := func(t *testing.T, h hypervisor.Hypervisor, id, command string, flags ...string) string {
		d := h.(*Driver)
		s := site{Driver: d, daemon: daemons[d.o.Host], name: d.o.Host}
		out, _ := exec.CommandContext(t.Context(), "qemu-io", append(flags, "-f", "qcow2", "-c", command,
			s.diskOf(t, id))...).CombinedOutput()
		return string(out)
	}
	hypervisortest.RunDisks(t, hypervisortest.Disks{
		Open: func(t *testing.T, host string) hypervisor.Hypervisor {
			mu.Lock()
			defer mu.Unlock()
			key := t.Name() + "/" + host
			if dirs[key] == "" {
				dirs[key] = daemons[host].GuestDir(t)
			}
			d := open(t, daemons[host], dirs[key])
			d.o.Host, d.o.Migration.URI = host, "qemu+unix:///system?socket="+filepath.Join(sockets, "%s")
			return d
		},
		Write: func(t *testing.T, h hypervisor.Hypervisor, id string, content byte) {
			if out := io(t, h, id, fmt.Sprintf("write -P %d 700M 64k", content)); !strings.Contains(out, "wrote") {
				t.Fatal(out)
			}
		},
		Read: func(t *testing.T, h hypervisor.Hypervisor, id string) byte {
			for content := range byte(10) {
				out := io(t, h, id, fmt.Sprintf("read -P %d 700M 64k", content), "-U", "-r")
				if strings.Contains(out, "read 65536") && !strings.Contains(out, "failed") {
					return content
				}
			}
			return 255
		},
	})
}
