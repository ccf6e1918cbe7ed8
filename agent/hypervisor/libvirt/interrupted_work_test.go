package libvirt

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestFaults interrupts the driver at each call that changes a domain of a real libvirtd, kills that, and lets it fail
// in the middle of a definition.
func TestFaults(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	var mu sync.Mutex
	dirs := map[string]string{}
	dir := func(t *testing.T) string {
		mu.Lock()
		defer mu.Unlock()
		if dirs[t.Name()] == "" {
			dirs[t.Name()] = daemon.GuestDir(t)
		}
		return dirs[t.Name()]
	}
	hypervisortest.RunFaults(t, hypervisortest.Faulty{
		Open: func(t *testing.T) hypervisor.Hypervisor { return open(t, daemon, dir(t)) },
		Cut: func(t *testing.T, point int) (hypervisor.Hypervisor, func() bool) {
			d, err := New(Options{VirtType: "qemu", Dir: dir(t)})
			must(t, err)
			t.Cleanup(d.Close)
			var reached func() bool
			d.o.Socket, reached = daemon.Cut(t, point)
			return d, reached
		},
		Restart: func(t *testing.T) {
			daemon.Stop(t)
			daemon.Resume(t)
		},
		Refuse: func(t *testing.T) (accept func()) { return daemon.RefuseDefinitions(t) },
		Left: func(t *testing.T) (left []string) {
			c := dial(t, daemon)
			domains, err := c.Domains(t.Context())
			must(t, err)
			for _, one := range domains {
				left = append(left, one.UUID.String())
			}
			entries, err := os.ReadDir(dir(t))
			must(t, err)
			for _, e := range entries {
				if _, err := uuid.Parse(e.Name()); err == nil {
					left = append(left, filepath.Join(dir(t), e.Name()))
				}
			}
			return left
		},
	})
}
