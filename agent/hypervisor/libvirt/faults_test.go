package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// foreign is a domain that another program has defined.
const foreign = `<domain type='qemu'><name>other</name><uuid>bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb</uuid>
<memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os></domain>`

// TestForeignDomains checks that a domain of another program is not listed, not replaced by a guest that has its UUID,
// and not removed.
func TestForeignDomains(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	c := dial(t, daemon)
	other, err := c.Define(t.Context(), foreign)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, daemon, daemon.GuestDir(t))
	g := hypervisortest.Guest("b")
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	must(t, d.Destroy(t.Context(), g.ID))
	must(t, d.Destroy(t.Context(), g.ID))
	wantGuests(t, d)
	if found, err := c.Lookup(t.Context(), other.UUID); err != nil || found != other {
		t.Errorf("%+v %v", found, err)
	}
}

// TestDaemonEndsAndHangs kills libvirtd, which ends no guest, and lets it hang: calls are Unavailable, and the same
// calls succeed afterwards.
func TestDaemonEndsAndHangs(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	a, b := hypervisortest.Guest("a", 1), hypervisortest.Guest("b", 2)
	must(t, d.Build(t.Context(), a))
	daemon.Stop(t)
	if err := d.Build(t.Context(), b); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without a daemon: %v", err)
	}
	daemon.Resume(t)
	wantGuests(t, d, a)
	must(t, d.Build(t.Context(), b))
	wantGuests(t, d, a, b)

	proceed := daemon.Hang(t)
	d.o.CallTime = time.Second
	d.Close()
	for name, err := range map[string]error{"build": d.Build(t.Context(), hypervisortest.Guest("c")),
		"destroy": d.Destroy(t.Context(), b.ID), "rename": d.Rename(t.Context(), b.ID, hypervisortest.ID("d"), "")} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s while the daemon hangs: %v", name, err)
		}
	}
	proceed()
	d.o.CallTime = testenv.Patience
	must(t, d.Destroy(t.Context(), b.ID))
	wantGuests(t, d, a)
}

// TestInterruptedBuild ends a build at each of its steps, as kill -9 of the agent does: a new driver lists the guest
// completely or not at all, builds it, and leaves no file behind.
func TestInterruptedBuild(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	for _, step := range []string{"directory only", "defined", "unfinished disk"} {
		t.Run(step, func(t *testing.T) {
			dir := daemon.GuestDir(t)
			d := open(t, daemon, dir)
			g := hypervisortest.Guest("a", 1)
			c, host, err := d.connect(t.Context())
			must(t, err)
			b := &builder{d: d, c: c, host: host, guest: g}
			if step == "directory only" {
				must(t, d.writeRecord(uuid.MustParse(g.ID), domainxml.Guest{ID: g.ID, Domain: g.ID}))
				must(t, d.makeFiles(t.Context(), uuid.MustParse(g.ID), g, false, nil))
			} else if _, err := b.reserve(t.Context()); err != nil {
				t.Fatal(err)
			}
			if step == "unfinished disk" {
				must(t, d.makeDir(g.ID))
				must(t, os.WriteFile(d.filesOf(b.domain.UUID, g).Disk+".new", []byte("half"), 0o600))
			}
			again := open(t, daemon, dir)
			must(t, again.Start(t.Context()))
			if step == "directory only" {
				wantFiles(t, dir, "libvirt")
			}
			must(t, again.Build(t.Context(), g))
			wantGuests(t, again, g)
			wantFiles(t, dir, g.ID+"/config.iso", g.ID+"/console.log", g.ID+"/disk-0.qcow2", g.ID+"/guest.xml", "libvirt")
			must(t, again.Destroy(t.Context(), g.ID))
			wantFiles(t, dir, "libvirt")
		})
	}
}

// TestFailedBuildLeavesNothing builds a guest that libvirt refuses to start, one that it refuses to define, and one
// whose disk cannot be made.
func TestFailedBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	for name, change := range map[string]func(*hypervisor.Guest){
		"start":  func(g *hypervisor.Guest) { g.MemoryMB = 1 << 30 },
		"define": func(g *hypervisor.Guest) { g.VCPUs = 0 },
		"disk":   func(g *hypervisor.Guest) { g.DiskGB = 1 << 40 },
		"text":   func(g *hypervisor.Guest) { g.Name = "\x00" },
	} {
		g := hypervisortest.Guest("a", 1)
		change(&g)
		if err := d.Build(t.Context(), g); err == nil {
			t.Errorf("%s: built", name)
		}
		wantGuests(t, d)
		wantFiles(t, dir)
	}
	must(t, d.Build(t.Context(), hypervisortest.Guest("b", 1)))
}

// TestFullDisk builds a guest on a file system that is too small for its files: nothing remains, and the fault says
// why.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.SmallDir(t, "128k") // for the config drive, and not for the disk
	d := open(t, daemon, dir)
	err := d.Build(t.Context(), hypervisortest.Guest("a", 1))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "No space left on device") {
		t.Errorf("got %v", err)
	}
	wantGuests(t, d)
	wantFiles(t, dir)
}

// TestFailedRebuildKeepsTheGuest rebuilds a guest with a disk that cannot be made: the guest still runs as it was.
func TestFailedRebuildKeepsTheGuest(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	g := hypervisortest.Guest("a", 1)
	must(t, d.Build(t.Context(), g))
	next := g
	next.Build, next.DiskGB = 1, 1<<40
	if err := d.Build(t.Context(), next); err == nil {
		t.Error("rebuilt")
	}
	wantGuests(t, d, g)
	wantFiles(t, dir, g.ID+"/config.iso", g.ID+"/console.log", g.ID+"/disk-0.qcow2",
		g.ID+"/guest.xml")
	next.DiskGB = 1
	must(t, d.Build(t.Context(), next))
	wantFiles(t, dir, g.ID+"/config.iso", g.ID+"/console.log", g.ID+"/disk-1.qcow2",
		g.ID+"/guest.xml")
}

// TestWatch ends a guest by hand: the driver reports a change, and lists the guest as stopped. It reports changes also
// after a restart of the daemon.
func TestWatch(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	g := hypervisortest.Guest("a", 1)
	must(t, d.Build(t.Context(), g))
	changed := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	await(t, changed, "after the connection")
	kill := func() {
		c := dial(t, daemon)
		domain, err := c.Lookup(t.Context(), uuid.MustParse(g.ID))
		must(t, err)
		must(t, c.Destroy(t.Context(), domain))
	}
	kill()
	await(t, changed, "after the guest has ended")
	stopped := g
	stopped.Stopped = true
	wantGuests(t, d, stopped)
	daemon.Stop(t)
	daemon.Resume(t)
	await(t, changed, "after the restart of the daemon")
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	cancel()
	<-ended
}

// TestStopIsGraceful checks that a guest that ignores the request to shut down is ended after the configured time.
func TestStopIsGraceful(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.ShutdownTime = 300 * time.Millisecond
	g := hypervisortest.Guest("a")
	must(t, d.Build(t.Context(), g))
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
}

func await(t *testing.T, changed <-chan struct{}, when string) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(testenv.Patience):
		t.Fatalf("no change %s", when)
	}
}

func dial(t *testing.T, daemon *libvirtd.Daemon) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial(t.Context(), daemon.Socket, "qemu:///system", 0)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantGuests(t *testing.T, d *Driver, want ...hypervisor.Guest) {
	t.Helper()
	got, err := d.Guests(t.Context())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("guests %+v %v\nwant %+v", got, err, want)
	}
}

// wantFiles checks which files are below a directory; no directory may be empty.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	var got []string
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && path != dir && (!e.IsDir() || len(want) == 0) {
			got = append(got, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// TestTrial tries a guest with an emulated CPU: it powers itself off.
func TestTrial(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	began := time.Now()
	must(t, d.try(t.Context(), dial(t, daemon), domainxml.Host{Arch: "x86_64", Machine: "q35"}, testenv.Patience))
	if time.Since(began) >= testenv.Patience {
		t.Error("the guest was still running")
	}
	wantGuests(t, d)
	wantFiles(t, dir)
}

// TestKVM checks that a driver without a configured kind of guests finds one that works on this machine.
func TestKVM(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.VirtType = ""
	g := hypervisortest.Guest("a")
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	capacity, err := d.Capacity(t.Context())
	must(t, err)
	c := dial(t, daemon)
	domain, err := c.Lookup(t.Context(), uuid.MustParse(g.ID))
	must(t, err)
	xml, err := c.XML(t.Context(), domain, rpc.Persistent)
	must(t, err)
	slow := slices.Contains(capacity.Remarks, hypervisor.Remark{Text: emulated})
	if kvm := strings.HasPrefix(xml, "<domain type='kvm'"); kvm == slow {
		t.Errorf("KVM %v, remarks %q", kvm, capacity.Remarks)
	}
}

// TestRebuildEndsBeforeOldDiskIsRemoved ends the agent in a rebuild when the guest has its new disk: the next attempt
// removes the old one.
func TestRebuildEndsBeforeOldDiskIsRemoved(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	g := hypervisortest.Guest("a")
	must(t, d.Build(t.Context(), g))
	g.Build = 1
	c, host, err := d.connect(t.Context())
	must(t, err)
	b := &builder{d: d, c: c, host: host, guest: g}
	_, err = b.reserve(t.Context())
	must(t, err)
	must(t, b.makeFiles(t.Context()))
	b.made = true
	must(t, end(t.Context(), c, b.domain.Domain))
	must(t, b.define(t.Context()))
	again := open(t, daemon, dir)
	must(t, again.Build(t.Context(), g))
	wantGuests(t, again, g)
	wantFiles(t, dir, g.ID+"/config.iso", g.ID+"/console.log", g.ID+"/disk-1.qcow2", g.ID+"/guest.xml")
}

// TestDestroyOnFullDisk destroys a guest whose file system is full: that is what makes room.
func TestDestroyOnFullDisk(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.SmallDir(t, "4m"))
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	filler, err := os.Create(d.path("filler"))
	must(t, err)
	defer filler.Close()
	for page := make([]byte, 4096); err == nil; {
		_, err = filler.Write(page)
	}
	if err := d.writeRecord(uuid.MustParse(g.ID), domainxml.Guest{ID: g.ID}); !isFull(err) {
		t.Fatalf("the file system is not full: %v", err)
	}
	must(t, d.Destroy(t.Context(), g.ID))
	wantGuests(t, d)
	wantFiles(t, d.path(), "filler")
}
