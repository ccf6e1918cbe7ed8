package libvirt

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestUndefinedGuests undefines guests as an administrator does: they are listed as lost, are defined again around the
// disk that they had, and are removed only by Destroy.
func TestUndefinedGuests(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	must(t, d.Start(t.Context()))
	c := dial(t, daemon)
	g := hypervisortest.Guest("a", 1)
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	writeMarker(t, d, g)

	undefine(t, c, g) // the guest is stopped
	must(t, open(t, daemon, dir).Start(t.Context()))
	wantLost(t, d, g, lostDefinition)
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	g.Stopped = false
	must(t, d.Build(t.Context(), g))

	undefine(t, c, g) // it runs
	wantLost(t, d, g, lostTransient)
	must(t, d.Build(t.Context(), g))
	wantGuests(t, d, g)
	if transient, err := rpc.Transient(t.Context(), c); err != nil || len(transient) != 0 {
		t.Errorf("without a definition are %v %v", transient, err)
	}

	undefine(t, c, g)
	must(t, end(t.Context(), c, lookup(t, c, g))) // its QEMU ends
	ended := g
	ended.Stopped = true
	wantLost(t, d, ended, lostDefinition)
	must(t, open(t, daemon, dir).Start(t.Context()))
	must(t, d.Rename(t.Context(), g.ID, hypervisortest.ID("b"), g.ID))
	must(t, d.Rename(t.Context(), hypervisortest.ID("b"), g.ID, ""))
	again := g
	again.Kept = true
	must(t, d.Build(t.Context(), again))
	wantGuests(t, d, g)
	must(t, end(t.Context(), c, lookup(t, c, g)))
	checkMarker(t, d, g)

	undefine(t, c, g)
	must(t, d.Destroy(t.Context(), g.ID))
	wantGuests(t, d)
	wantFiles(t, dir, markerName)
}

// TestOtherLibvirt lets the driver use a libvirt that does not have its guests, while their QEMU still runs: nothing is
// touched before an operator adopts it, and no second QEMU starts.
func TestOtherLibvirt(t *testing.T) {
	t.Parallel()
	first, second := libvirtd.Start(t), libvirtd.Start(t)
	dir := first.GuestDir(t)
	d := open(t, first, dir)
	must(t, d.Start(t.Context()))
	runs, stopped := hypervisortest.Guest("a"), hypervisortest.Guest("b")
	stopped.Stopped = true
	for _, g := range []hypervisor.Guest{runs, stopped} {
		must(t, d.Build(t.Context(), g))
	}
	writeMarker(t, d, stopped)
	other := open(t, second, dir)
	for name, err := range map[string]error{"start": other.Start(t.Context()), "build": other.Build(t.Context(), stopped),
		"destroy": other.Destroy(t.Context(), runs.ID),
		"rename":  other.Rename(t.Context(), runs.ID, hypervisortest.ID("c"), "")} {
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "berth agent adopt") {
			t.Errorf("%s with another libvirt: %v", name, err)
		}
	}
	wantGuests(t, d, runs, stopped)
	must(t, d.Start(t.Context())) // it is still the one that is known

	guests, why, err := other.Adoptable(t.Context())
	if err != nil || len(guests) != 2 || why == "" || guests[0].Lost == "" {
		t.Errorf("adoptable: %+v %q %v", guests, why, err)
	}
	must(t, other.Adopt(t.Context()))
	must(t, other.Build(t.Context(), stopped))
	checkMarker(t, other, stopped)
	err = other.Build(t.Context(), runs)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "process") {
		t.Errorf("built beside the running QEMU: %v", err)
	}
	for range 2 { // its files stay
		if err := other.Destroy(t.Context(), runs.ID); !fault.Is(err, fault.Unavailable) {
			t.Errorf("destroyed beside the running QEMU: %v", err)
		}
	}
	if guests, err := other.Guests(t.Context()); err != nil || len(guests) != 2 {
		t.Errorf("guests %+v %v", guests, err)
	}
	c := dial(t, first)
	must(t, end(t.Context(), c, lookup(t, c, runs)))
	must(t, other.Build(t.Context(), runs))
	wantGuests(t, other, runs, stopped)
	if _, err := open(t, first, dir).Guests(t.Context()); err != nil { // it has the domains, so it is known
		t.Error(err)
	}
	if err := d.Destroy(t.Context(), runs.ID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a definition that is not used any more was destroyed with the disk: %v", err)
	}
	must(t, other.Destroy(t.Context(), runs.ID))
}

// TestReinstalledLibvirt removes what libvirt knows, as a new installation does.
func TestReinstalledLibvirt(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	must(t, d.Start(t.Context()))
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	writeMarker(t, d, g)
	daemon.Stop(t)
	out, err := daemon.Command(t.Context(), "sh", "-c",
		"rm -r /etc/libvirt/qemu/*.xml /etc/libvirt/secrets").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	daemon.Resume(t)
	if _, err := d.Guests(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the guests of another libvirt: %v", err)
	}
	must(t, d.Adopt(t.Context()))
	wantLost(t, d, g, lostDefinition)
	must(t, d.Build(t.Context(), g))
	checkMarker(t, d, g)
}

// TestCopiedDomain copies the domain of a guest with another name and another UUID, and one with another name only:
// only the original is the guest.
func TestCopiedDomain(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	c := dial(t, daemon)
	text, err := c.XML(t.Context(), lookup(t, c, g), rpc.Persistent)
	must(t, err)
	copied := strings.NewReplacer("<name>berth-"+g.ID, "<name>mine", "<uuid>"+g.ID,
		"<uuid>"+hypervisortest.ID("b")).Replace(text)
	copy, err := c.Define(t.Context(), copied)
	must(t, err)
	wantGuests(t, d, g)
	capacity, err := d.Capacity(t.Context())
	finding := "the domain mine (" + copy.UUID.String() + ") is a copy of the guest"
	if err != nil || !strings.Contains(capacity.Remarks.String(), finding) ||
		!slices.ContainsFunc(capacity.Remarks, func(r hypervisor.Remark) bool { return r.Subject == "mine" }) {
		t.Errorf("remark %q %v", capacity.Remarks.String(), err)
	}
	g.Stopped = false
	must(t, d.Build(t.Context(), g))
	if one := lookup(t, c, g); one.ID < 0 {
		t.Error("the original does not run")
	}
	must(t, d.Destroy(t.Context(), g.ID))
	if found, err := c.Lookup(t.Context(), copy.UUID); err != nil || found.ID >= 0 {
		t.Errorf("the copy: %+v %v", found, err)
	}
	wantGuests(t, d)
	must(t, c.Undefine(t.Context(), copy))
}

// TestMissingDisk removes the disk of a guest, as a file system that is not mounted: the guest gets no blank one,
// except by a rebuild.
func TestMissingDisk(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	must(t, os.RemoveAll(d.path(g.ID)))
	wanted := g
	wanted.Stopped = false
	err := d.Build(t.Context(), wanted)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("started without its disk: %v", err)
	}
	wantGuests(t, d, g)
	wantFiles(t, dir)
	wanted.Build = 1
	must(t, d.Build(t.Context(), wanted))
	wantGuests(t, d, wanted)
}

// TestRecordsOfOthers checks what Start removes: only what a record declares as unfinished or as being removed.
func TestRecordsOfOthers(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	write := func(digit string, g domainxml.Guest) {
		g.ID = hypervisortest.ID(digit)
		g.Domain = g.ID
		must(t, d.writeRecord(uuid.MustParse(g.ID), g))
		must(t, os.WriteFile(d.path(g.ID, "disk-0.qcow2"), nil, 0o600))
	}
	write("1", domainxml.Guest{})
	write("2", domainxml.Guest{Held: domainxml.Held{Made: true, Removing: true}})
	write("3", domainxml.Guest{Held: domainxml.Held{Made: true}})
	arrived := hypervisortest.ID("5")
	write("5", domainxml.Guest{Incoming: true})
	other := hypervisortest.ID("4")
	must(t, os.Mkdir(d.path(other), 0o755))
	must(t, os.WriteFile(d.path(other, "disk-0.qcow2"), nil, 0o600))
	must(t, os.WriteFile(d.path(markerName), []byte(uuid.NewString()), 0o600))
	if err := d.Start(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("this libvirt has no guest of the directory: %v", err)
	}
	must(t, d.Adopt(t.Context()))
	must(t, d.Start(t.Context()))
	three := hypervisortest.ID("3")
	stay := []string{three + "/disk-0.qcow2", three + "/guest.xml", other + "/disk-0.qcow2", arrived + "/disk-0.qcow2",
		arrived + "/guest.xml", markerName}
	wantFiles(t, dir, stay...)
	for _, digit := range []string{"4", "5"} {
		if err := d.Build(t.Context(), hypervisortest.Guest(digit)); !fault.Is(err, fault.Conflict) {
			t.Errorf("built over the disk of another guest: %v", err)
		}
		must(t, d.Destroy(t.Context(), hypervisortest.ID(digit))) // as the agent does then
	}
	must(t, os.WriteFile(d.path(three, "guest.xml"), []byte("<gue"), 0o600))
	if _, err := d.Guests(t.Context()); err != nil {
		t.Error(err)
	}
	capacity, err := d.Capacity(t.Context())
	if err != nil || !strings.Contains(capacity.Remarks.String(), "guest.xml of a guest cannot") {
		t.Errorf("%q %v", capacity.Remarks.String(), err)
	}
	must(t, d.Destroy(t.Context(), three))
	wantFiles(t, dir, stay...)
}

// TestArrivalIsRecorded lists a guest that has arrived by live migration: it survives the loss of its definition.
func TestArrivalIsRecorded(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	must(t, d.Start(t.Context()))
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	record, err := d.readRecord(uuid.MustParse(g.ID))
	must(t, err)
	record.Incoming, record.Made = true, false // as Receive has written it
	must(t, d.writeRecord(uuid.MustParse(g.ID), record))
	wantGuests(t, d, g)
	undefine(t, dial(t, daemon), g)
	must(t, open(t, daemon, dir).Start(t.Context()))
	wantLost(t, d, g, lostDefinition)
}

// TestDestroyOfAUsedDisk destroys a guest that libvirt has as stopped, while another program uses its disk.
func TestDestroyOfAUsedDisk(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	g := hypervisortest.Guest("a")
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	file, err := os.OpenFile(d.path(g.ID, diskName(0)), os.O_RDWR, 0)
	must(t, err)
	const setFileLock = 37 // F_OFD_SETLK of Linux
	must(t, syscall.FcntlFlock(file.Fd(), setFileLock, &syscall.Flock_t{Type: syscall.F_RDLCK, Start: lockStart, Len: 1}))
	if err := d.Destroy(t.Context(), g.ID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("destroyed while its disk is used: %v", err)
	}
	wantGuests(t, d, g)
	must(t, file.Close())
	must(t, d.Destroy(t.Context(), g.ID))
	wantFiles(t, dir)
}

// lookup returns the domain of a guest.
func lookup(t *testing.T, c *rpc.Client, g hypervisor.Guest) rpc.Domain {
	t.Helper()
	domain, err := c.Lookup(t.Context(), uuid.MustParse(g.ID))
	must(t, err)
	return domain
}

// undefine removes the definition of a guest.
func undefine(t *testing.T, c *rpc.Client, g hypervisor.Guest) {
	t.Helper()
	must(t, c.Undefine(t.Context(), lookup(t, c, g)))
}

// wantLost checks that a guest is the only one, and is listed as lost.
func wantLost(t *testing.T, d *Driver, g hypervisor.Guest, why string) {
	t.Helper()
	g.Lost = why
	wantGuests(t, d, g)
}

// writeMarker writes something to the disk of a guest that does not run.
func writeMarker(t *testing.T, d *Driver, g hypervisor.Guest) {
	qemuIO(t, d, g, "write -P 0x42 1M 64k")
}

// checkMarker checks that the disk has what writeMarker has written.
func checkMarker(t *testing.T, d *Driver, g hypervisor.Guest) { qemuIO(t, d, g, "read -P 0x42 1M 64k") }

func qemuIO(t *testing.T, d *Driver, g hypervisor.Guest, command string) {
	t.Helper()
	disk := filepath.Join(d.o.Dir, g.ID, diskName(g.Build))
	out, err := exec.CommandContext(t.Context(), "qemu-io", "-c", command, disk).CombinedOutput()
	if err != nil || strings.Contains(string(out), "failed") {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// TestLateDefinition lets libvirtd hang while a guest is built, until the build has failed: the definition that
// libvirtd executes afterwards is listed, and Destroy removes it.
func TestLateDefinition(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	g := hypervisortest.Guest("a", 1)
	_, _, err := d.connect(t.Context())
	must(t, err)
	late, err := New(Options{Socket: daemon.Socket, VirtType: "qemu", Dir: dir, CallTime: 10 * time.Second})
	must(t, err)
	t.Cleanup(late.Close)
	c, host, err := late.connect(t.Context())
	must(t, err)
	b := &builder{d: late, c: c, host: host, guest: g}
	b.domain.UUID = uuid.MustParse(g.ID)
	proceed := daemon.Hang(t)
	if err := b.define(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("defined by a daemon that hangs: %v", err)
	}
	must(t, late.removeFiles(b.domain.UUID))
	proceed()
	stopped := g
	stopped.Stopped = true
	awaitGuest(t, d, stopped)
	must(t, d.Destroy(t.Context(), g.ID))
	wantFiles(t, dir)

	copied := filepath.Join(t.TempDir(), "copy")
	must(t, os.WriteFile(copied, nil, 0o600))
	must(t, d.writeRecord(b.domain.UUID, domainxml.Guest{ID: g.ID, Domain: g.ID}))
	must(t, place(t.Context(), d, b.domain.UUID, g, copies{disk: copied}))
	if err := b.keepIfUnknown(fault.New(fault.Unavailable, "libvirt hangs")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("kept: %v", err)
	}
	wantFiles(t, dir, g.ID+"/disk-0.qcow2", g.ID+"/guest.xml")
	if err := b.keepIfUnknown(&rpc.Error{}); err == nil {
		t.Error("the refusal is lost")
	}
	wantGuests(t, d)
	wantFiles(t, dir)
}
