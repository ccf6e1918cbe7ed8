package libvirt

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// site is a host of a pair.
type site struct {
	*Driver
	daemon *libvirtd.Daemon
	name   string
}

// openPair returns the drivers of two hosts, named a and b, with an image that counts.
func openPair(t *testing.T) (a, b site) {
	t.Helper()
	daemonA, daemonB := libvirtd.StartPair(t)
	sockets := t.TempDir() // the sockets by the names of the hosts
	sites := []site{{daemon: daemonA, name: "a"}, {daemon: daemonB, name: "b"}}
	for i, s := range sites {
		must(t, os.Symlink(s.daemon.Socket, filepath.Join(sockets, s.name)))
		dir := s.daemon.GuestDir(t)
		d := open(t, s.daemon, dir)
		d.o.Migration = Migration{URI: "qemu+unix:///system?socket=" + filepath.Join(sockets, "%s"),
			Address: s.daemon.Address}
		base := filepath.Join(dir, "_base")
		d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
		must(t, os.Mkdir(base, 0o711))
		must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.CounterSector(), 0o644))
		sites[i].Driver = d
	}
	return sites[0], sites[1]
}

// counting returns a guest that counts.
func counting() hypervisor.Guest {
	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB, g.VCPUs, g.MemoryMB = rawImage, 1, 1, 64
	g.Interfaces = []hypervisor.Interface{{Port: hypervisortest.ID("1"), MAC: "fa:16:3e:00:00:01", VIF: "bridge",
		VNIC: "normal", Bridge: libvirtd.Bridge}}
	return g
}

var number = regexp.MustCompile(`(?m)^[0-9A-F]{4}$`)

// count waits until the guest has printed a number that is larger than another one, and returns it.
func (s site) count(t *testing.T, id string, above int) (now int) {
	t.Helper()
	eventually(t, "the guest counts", func() bool {
		text, err := os.ReadFile(s.path(id, "console.log"))
		all := number.FindAllString(string(text), -1)
		if err != nil || len(all) == 0 {
			return false
		}
		n, err := strconv.ParseInt(all[len(all)-1], 16, 32)
		now = int(n)
		return err == nil && now > above
	})
	return now
}

// migrated renames the guest at the source, as compute does, and migrates it.
func migrated(t *testing.T, g hypervisor.Guest, from, to site) {
	t.Helper()
	must(t, to.Receive(t.Context(), g))
	wantGuests(t, to.Driver) // it has not arrived
	move := hypervisortest.ID("e")
	must(t, from.Rename(t.Context(), g.ID, move, g.ID))
	must(t, from.Migrate(t.Context(), move, hypervisor.Destination{Host: to.name}))
	must(t, from.Migrate(t.Context(), move, hypervisor.Destination{Host: to.name}))
	gone := g
	gone.ID, gone.Server, gone.Departed = move, g.ID, true
	wantGuests(t, from.Driver, gone)
	wantGuests(t, to.Driver, g)
	if err := from.Build(t.Context(), gone); !fault.Is(err, fault.Conflict) {
		t.Errorf("a departed guest was built: %v", err)
	}
	must(t, to.Build(t.Context(), g))
	must(t, from.Destroy(t.Context(), move))
	wantGuests(t, from.Driver)
	if left, err := filepath.Glob(from.path(g.ID, "*")); len(left) > 0 || err != nil {
		t.Errorf("files at the source: %v %v", left, err)
	}
	wantGuests(t, to.Driver, g)
}

// TestMigration migrates a guest to another libvirtd and back. It continues to count.
func TestMigration(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g := counting()
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 20)
	migrated(t, g, a, b)
	n = b.count(t, g.ID, n+20)
	migrated(t, g, b, a)
	a.count(t, g.ID, n+20)
	text, err := os.ReadFile(a.path(g.ID, "console.log"))
	if err != nil || strings.Contains(string(text), "0001\n") {
		t.Errorf("the guest was started again: %v", err)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

var _ = cmp.Or[int]
var _ = context.Background
var _ rpc.State
