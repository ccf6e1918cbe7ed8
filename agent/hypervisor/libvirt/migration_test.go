package libvirt

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testcert"
	"github.com/openberth/berth/internal/testenv"
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
	return openSites(t, daemonA, daemonB)
}

// openSites returns the drivers of the hosts of a pair.
func openSites(t *testing.T, daemonA, daemonB *libvirtd.Daemon) (a, b site) {
	t.Helper()
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
	testenv.Until(t, "the guest counts", func() bool {
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
	paused := pause(t, a, b)
	migrated(t, g, a, b)
	t.Logf("the guest was paused for %s", paused().Round(time.Millisecond))
	n = b.count(t, g.ID, n+20)
	paused = pause(t, b, a)
	migrated(t, g, b, a)
	t.Logf("the guest was paused for %s", paused().Round(time.Millisecond))
	a.count(t, g.ID, n+20)
	text, err := os.ReadFile(a.path(g.ID, "console.log"))
	if err != nil || strings.Contains(string(text), "0001\n") {
		t.Errorf("the guest was started again: %v", err)
	}
}

// TestEncryptedMigration migrates a guest between hosts whose QEMUs have certificates. It is refused if the destination
// does not trust the source, and the guest continues there.
func TestEncryptedMigration(t *testing.T) {
	t.Parallel()
	one, other := testcert.NewCA(t), testcert.NewCA(t)
	for _, ca := range []*testcert.CA{one, other} {
		t.Run(fmt.Sprint("one authority: ", ca == one), func(t *testing.T) {
			t.Parallel()
			daemonA, daemonB := libvirtd.StartEncryptedPair(t, one, ca)
			a, b := openSites(t, daemonA, daemonB)
			a.o.Migration.TLS, b.o.Migration.TLS = true, true
			g := counting()
			must(t, a.Build(t.Context(), g))
			n := a.count(t, g.ID, 20)
			if ca == one {
				migrated(t, g, a, b)
				b.count(t, g.ID, n+20)
				return
			}
			must(t, b.Receive(t.Context(), g))
			err := a.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: b.name})
			if err == nil || !strings.Contains(err.Error(), "ertificate") {
				t.Errorf("migrated to a host with another authority: %v", err)
			}
			a.count(t, g.ID, n+20)
			wantGuests(t, a.Driver, g)
		})
	}
}

// pause receives the events of two hosts. The returned function waits until the guest has continued at the destination,
// and returns the time since it was paused at the source.
func pause(t *testing.T, from, to site) func() time.Duration {
	t.Helper()
	await := func(s site, kind rpc.EventKind) <-chan time.Time {
		c, at := dial(t, s.daemon), make(chan time.Time, 1)
		go func() {
			for e := range c.Events() {
				if e.Kind == kind {
					at <- time.Now()
					return
				}
			}
		}()
		return at
	}
	suspended, resumed := await(from, rpc.EventSuspended), await(to, rpc.EventResumed)
	return func() time.Duration {
		began := <-suspended
		return (<-resumed).Sub(began)
	}
}

// TestInterruptedMigration ends the process of the source, which closes its connections, after each step of a
// migration. The guest then runs on one of the hosts without being started again, and both drivers say on which.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	interruptMigration(t, a, b)
}

// TestInterruptedMigrationInASharedDirectory is TestInterruptedMigration for hosts with one directory.
func TestInterruptedMigrationInASharedDirectory(t *testing.T) {
	t.Parallel()
	a, b, _, _ := openShared(t)
	interruptMigration(t, a, b)
	b.hasMarker(t, counting().ID)
}

// interruptMigration interrupts a migration from a to b after each of its steps.
func interruptMigration(t *testing.T, a, b site) {
	t.Helper()
	g := counting()
	g.Stopped = true
	must(t, a.Build(t.Context(), g))
	a.mark(t, g.ID)
	g.Stopped = false
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 3)
	for steps, name := range []string{"begin", "prepare", "perform", "finish"} {
		must(t, b.Receive(t.Context(), g))
		interrupted(t, a, b, g.ID, steps)
		if name == "finish" {
			break
		}
		testenv.Until(t, "the guest runs at the source after "+name, func() bool {
			return a.Build(t.Context(), g) == nil
		})
		wantGuests(t, a.Driver, g)
		n = a.count(t, g.ID, n+5)
		wantGuests(t, b.Driver)
	}
	testenv.Until(t, "the guest is known to have departed", func() bool {
		err := a.Build(t.Context(), g)
		return fault.Is(err, fault.Conflict) || err != nil && strings.Contains(err.Error(), "has departed")
	})
	gone := g
	gone.Departed = true
	wantGuests(t, a.Driver, gone)
	wantGuests(t, b.Driver, g)
	must(t, a.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: b.name}))
	b.count(t, g.ID, n+5)
	must(t, a.Destroy(t.Context(), g.ID))
	b.count(t, g.ID, n+10)
}

// interrupted performs steps of a migration and then closes the connections.
func interrupted(t *testing.T, from, to site, id string, last int) {
	t.Helper()
	m := perform(t, from, to, id, last)
	m.steps.Source.Close()
	m.steps.Target.Close()
}

// perform performs steps of a migration, whose connections remain open until the end of the test.
func perform(t *testing.T, from, to site, id string, last int) *migrator {
	t.Helper()
	ctx := t.Context()
	c, _, err := from.connect(ctx)
	must(t, err)
	domains, _, err := from.list(ctx, c)
	must(t, err)
	found, _ := find(domains, id)
	m := &migrator{d: from.Driver, domain: found, to: hypervisor.Destination{Host: to.name}}
	m.steps.Source, err = rpc.Dial(ctx, from.daemon.Socket, "qemu:///system", 0)
	must(t, err)
	t.Cleanup(func() { m.steps.Source.Close() })
	m.steps.Target, err = rpc.Dial(ctx, to.daemon.Socket, "qemu:///system", 0)
	must(t, err)
	t.Cleanup(func() { m.steps.Target.Close() })
	must(t, m.describe(ctx))
	must(t, m.store(ctx))
	all := []func(context.Context) error{m.steps.Begin, m.steps.Prepare, m.steps.Perform,
		func(ctx context.Context) error { return m.steps.Finish(ctx, false) }}
	for _, step := range all[:last+1] {
		must(t, step(ctx))
	}
	return m
}

// TestUnknownEndOfMigration leaves a guest paused between the copy and the end of its migration, while the destination
// cannot be asked. It does not continue before the destination answers.
func TestUnknownEndOfMigration(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g := counting()
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 3)
	must(t, b.Receive(t.Context(), g))
	interrupted(t, a, b, g.ID, 2)
	b.daemon.Stop(t)
	stopped := g
	stopped.Stopped = true
	testenv.Until(t, "the guest is paused", func() bool {
		guests, err := a.Guests(t.Context())
		return err == nil && len(guests) == 1 && guests[0].Stopped
	})
	err := a.Build(t.Context(), g)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("built: %v", err)
	}
	wantGuests(t, a.Driver, stopped)
	b.daemon.Resume(t)
	testenv.Until(t, "the guest continues", func() error { return a.Build(t.Context(), g) })
	wantGuests(t, a.Driver, g)
	a.count(t, g.ID, n+5)
}

// TestReceiverThatLibvirtLeaves kills libvirt of the destination between the end of its job and the end of QEMU that
// received the guest. The guest continues at the source, nothing is left at the destination, and the guest can migrate
// there. It waits while libvirt there has the job, and while a person has continued the domain there.
func TestReceiverThatLibvirtLeaves(t *testing.T) {
	t.Parallel()
	for _, continued := range []bool{false, true} {
		t.Run(fmt.Sprintf("continued there %t", continued), func(t *testing.T) {
			t.Parallel()
			a, b := openPair(t)
			leaveReceiver(t, a, b, continued)
		})
	}
}

func leaveReceiver(t *testing.T, a, b site, continued bool) {
	t.Helper()
	g := counting()
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 3)
	must(t, b.Receive(t.Context(), g))
	m := perform(t, a, b, g.ID, 2)
	wantUnknown := func(says string) {
		t.Helper()
		if err := a.Build(t.Context(), g); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), says) {
			t.Errorf("built: %v, want %s", err, says)
		}
	}
	wantUnknown("it still receives the guest")
	b.daemon.Stop(t)
	b.daemon.LoseJobs(t)
	m.steps.Source.Close()
	m.steps.Target.Close()
	b.daemon.Resume(t)
	if continued {
		there, err := rpc.Dial(t.Context(), b.daemon.Socket, "qemu:///system", 0)
		must(t, err)
		defer there.Close()
		receiver, err := there.Lookup(t.Context(), m.domain.UUID)
		must(t, err)
		must(t, there.Resume(t.Context(), receiver))
		wantUnknown("`virsh destroy " + receiver.Name + "`")
		must(t, there.Destroy(t.Context(), receiver))
	}
	testenv.Until(t, "the guest continues", func() error { return a.Build(t.Context(), g) })
	wantGuests(t, a.Driver, g)
	wantGuests(t, b.Driver)
	n = a.count(t, g.ID, n+5)
	must(t, a.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: b.name}))
	b.count(t, g.ID, n+5)
}

// TestFailedMigration migrates a guest in vain: to hosts that are not prepared or do not answer, and slowly, so that
// the migration is cancelled, takes too long, the daemon of the destination hangs, or that of the source ends. The
// guest runs on.
func TestFailedMigration(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g := counting()
	g.Stopped = true
	must(t, a.Build(t.Context(), g))
	to := hypervisor.Destination{Host: b.name}
	wantMigrate := func(ctx context.Context, kind fault.Kind, says string) {
		t.Helper()
		if err := a.Migrate(ctx, g.ID, to); !fault.Is(err, kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s: %s", err, kind, says)
		}
	}
	wantMigrate(t.Context(), fault.Conflict, "does not run")
	run(t, "qemu-io", "-c", "write -q -P 7 1M 200M", a.path(g.ID, diskName(0))) // slow to copy
	g.Stopped = false
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 3)
	wantMigrate(t.Context(), fault.Conflict, "has not prepared")
	b.daemon.Stop(t)
	wantMigrate(t.Context(), fault.Unavailable, "connection refused")
	b.daemon.Resume(t)

	must(t, b.Receive(t.Context(), g))
	a.o.Migration.Bandwidth, a.o.Migration.Limit = 1, time.Second
	wantMigrate(t.Context(), fault.Conflict, "has not ended within 2s")
	a.o.Migration.Limit = 0
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		b.awaitIncoming(t, g.ID, true)
	}()
	wantMigrate(ctx, fault.Unavailable, "aborted")
	n = a.count(t, g.ID, n+5)
	a.o.CallTime = 20 * time.Second
	hung := make(chan func(), 1)
	go func() {
		b.awaitIncoming(t, g.ID, true)
		hung <- b.daemon.Hang(t)
	}()
	wantMigrate(t.Context(), fault.Unavailable, "answer")
	(<-hung)()
	b.awaitIncoming(t, g.ID, false)
	n = a.count(t, g.ID, n+5)
	a.o.CallTime = 0
	var restarted sync.WaitGroup
	restarted.Go(func() {
		b.awaitIncoming(t, g.ID, true)
		a.daemon.Stop(t)
		a.daemon.Resume(t)
	})
	wantMigrate(t.Context(), fault.Unavailable, "")
	restarted.Wait()
	wantGuests(t, a.Driver, g)
	a.count(t, g.ID, n+5)

	must(t, b.Forget(t.Context(), g.ID))
	if left, err := filepath.Glob(b.path(g.ID, "*")); len(left) > 0 || err != nil {
		t.Errorf("files at the destination: %v %v", left, err)
	}
	must(t, a.Destroy(t.Context(), g.ID))
}

// awaitIncoming waits until a guest is being copied to a host, or is not.
func (s site) awaitIncoming(t *testing.T, id string, is bool) {
	t.Helper()
	held, _ := testenv.Wait(func() bool {
		c, _, err := s.connect(t.Context())
		if err != nil {
			return false
		}
		domains, _, err := s.list(t.Context(), c)
		found, there := findDomain(domains, id, true)
		return err == nil && there && found.running() == is
	})
	if !held { // another goroutine than the test's may wait
		t.Errorf("never: the guest is being copied: %v", is)
	}
}
