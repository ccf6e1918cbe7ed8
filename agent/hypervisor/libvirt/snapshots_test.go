package libvirt

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// virsh runs a command of virsh as an operator does.
func virsh(t *testing.T, daemon *libvirtd.Daemon, arguments ...string) {
	t.Helper()
	connection := []string{"-c", "qemu+unix:///system?socket=" + daemon.Socket}
	if out, err := exec.Command("virsh", append(connection, arguments...)...).CombinedOutput(); err != nil {
		t.Fatalf("virsh %v: %v: %s", arguments, err, out)
	}
}

// snapshot makes an external snapshot of a guest as an operator does. The guest writes to another file afterwards.
func snapshot(t *testing.T, daemon *libvirtd.Daemon, domain string) {
	t.Helper()
	virsh(t, daemon, "snapshot-create-as", domain, "before", "--disk-only", "--no-metadata")
}

// TestSnapshotsOfOperators changes, defines again and migrates a guest of which an operator has made a snapshot: each
// is refused as long as the guest uses another file than the one that it would get.
func TestSnapshotsOfOperators(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	must(t, d.Start(t.Context()))
	c := dial(t, daemon)
	g := hypervisortest.Guest("a")
	must(t, d.Build(t.Context(), g))
	disk := d.path(g.ID, diskName(0))
	overlay := strings.TrimSuffix(disk, ".qcow2") + ".before"
	refused := func(what string, g hypervisor.Guest) {
		t.Helper()
		if err := d.Build(t.Context(), g); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), overlay) {
			t.Errorf("%s: %v", what, err)
		}
	}
	snapshot(t, daemon, g.ID)
	must(t, d.Build(t.Context(), g))
	larger := g
	larger.MemoryMB *= 2
	refused("more memory", larger)
	err := d.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: "b"})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), overlay) {
		t.Errorf("migrated: %v", err)
	}
	virsh(t, daemon, "undefine", g.ID)
	refused("without a definition while it runs", g)
	must(t, end(t.Context(), c, lookup(t, c, g)))
	run(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0xcd 800M 1M", overlay)
	refused("without a definition", g)
	if _, err := os.Stat(overlay); err != nil {
		t.Error(err)
	}
	run(t, "qemu-img", "commit", "-q", overlay)
	must(t, os.Remove(overlay))
	must(t, d.Build(t.Context(), larger))
	wantGuests(t, d, larger)
	if out := run(t, "qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -P 0xcd 800M 1M", disk); strings.Contains(out,
		"failed") {
		t.Errorf("what was written after the snapshot is lost: %s", out)
	}
}

// TestCheckpointsOfOperators destroys a guest that has checkpoints, as programs for incremental backups make them.
func TestCheckpointsOfOperators(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	g := hypervisortest.Guest("a")
	must(t, d.Build(t.Context(), g))
	for _, name := range []string{"monday", "tuesday"} {
		virsh(t, daemon, "checkpoint-create-as", g.ID, name)
	}
	must(t, d.Destroy(t.Context(), g.ID))
	wantGuests(t, d)
	wantFiles(t, d.path())
}
