package fake

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/fault"
)

// TestFaults interrupts the driver at each change of a file.
func TestFaults(t *testing.T) {
	hosts := fakeHosts{dirs: map[string]string{}}
	hypervisortest.RunFaults(t, hypervisortest.Faulty{
		Open:    func(t *testing.T) hypervisor.Hypervisor { return hosts.open(t) },
		Cut:     hosts.cut,
		Restart: func(*testing.T) {}, // it has no daemon
		Refuse:  hosts.refuse,
		Left: func(t *testing.T) (left []string) {
			files, err := filepath.Glob(filepath.Join(hosts.dir(t), "*"))
			if err != nil {
				t.Fatal(err)
			}
			return files
		},
	})
}

// fakeHosts are the hosts of subtests.
type fakeHosts struct {
	mu   sync.Mutex
	dirs map[string]string
	full bool // the disk
}

// dir returns the directory of the host of a subtest.
func (f *fakeHosts) dir(t *testing.T) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dirs[t.Name()] == "" {
		f.dirs[t.Name()] = t.TempDir()
	}
	return f.dirs[t.Name()]
}

// open returns a driver whose files are on a disk that can become full.
func (f *fakeHosts) open(t *testing.T) *Hypervisor {
	h, err := New(f.dir(t), hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	h.observe = func(path string) {
		if f.full && strings.HasSuffix(path, unfinished) {
			_ = os.Symlink("/dev/full", path) // it exists after the change
		}
	}
	return h
}

func (f *fakeHosts) refuse(*testing.T) (accept func()) {
	f.full = true
	return func() { f.full = false }
}

// cut returns a driver that panics at a point.
func (f *fakeHosts) cut(t *testing.T, point int) (hypervisor.Hypervisor, func() bool) {
	h, next := f.open(t), 0
	h.observe = func(string) {
		if next++; next > point {
			panic(killed{})
		}
	}
	return mortal{h}, func() bool { return next > point }
}

type killed struct{}

// mortal is a driver whose calls end where it is killed.
type mortal struct{ *Hypervisor }

func (m mortal) Build(ctx context.Context, g hypervisor.Guest) (err error) {
	defer die(&err)
	return m.Hypervisor.Build(ctx, g)
}

func (m mortal) Rename(ctx context.Context, was, id, server string) (err error) {
	defer die(&err)
	return m.Hypervisor.Rename(ctx, was, id, server)
}

func (m mortal) Destroy(ctx context.Context, id string) (err error) {
	defer die(&err)
	return m.Hypervisor.Destroy(ctx, id)
}

// die returns a fault to the caller of a killed driver.
func die(err *error) {
	if got := recover(); got != nil {
		if _, is := got.(killed); !is {
			panic(got)
		}
		*err = fault.New(fault.Unavailable, "killed")
	}
}
