package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// coldMarker is what is written deep into the disk of a stopped guest.
const coldMarker = "-P 0xab 700M 64k"

// TestLibvirtColdMoves moves a stopped server of two agents and two real libvirtd: a cold migration, a resize that is
// reverted, one that is confirmed, and a drain of its host. The agent of the destination and the libvirtd of the source
// are killed meanwhile. What was written into its disk stays.
func TestLibvirtColdMoves(t *testing.T) {
	t.Parallel()
	a, b := libvirtd.StartPair(t)
	m := newMigrationLab(t, a, b, func(disk string) error {
		noise := make([]byte, 1<<20) // no format
		rand.NewChaCha8([32]byte{}).Read(noise)
		return os.WriteFile(disk, noise, 0o600)
	})
	m.startAgents("")
	s, c := m.startCounter(), m.compute.compute()
	from, to := "cmp1", "cmp2"
	if *s.Host == to {
		from, to = to, from
	}
	m.act(s, "SHUTOFF", "os-stop", nil)
	m.diskIO(from, s.ID, "write "+coldMarker)
	m.diskIO(from, s.ID, "write -P 1 100M 200M")

	must(t, c.Act(t.Context(), s.ID, "migrate", nil))
	testenv.Until(t, "the disk is being copied", func() (bool, error) {
		files, err := filepath.Glob(filepath.Join(m.instances[to], "incoming", "*.qcow2"))
		return len(files) > 0, err
	})
	m.killAndRestart(to)
	m.hosts[from].Stop(t)
	m.hosts[from].Resume(t)
	testenv.Until(t, "the server is VERIFY_RESIZE", func() (bool, error) {
		now, err := c.Server(t.Context(), s.ID)
		why, _ := m.berth(0, "server", "why", "counter")
		return now.Status == "VERIFY_RESIZE", fmt.Errorf("%w %s", err, why)
	})
	m.diskIO(to, s.ID, "read "+coldMarker)
	m.act(s, "SHUTOFF", "confirmResize", nil)
	m.awaitNoGuest(from, s.ID)
	m.diskIO(to, s.ID, "read "+coldMarker)

	larger, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "larger", VCPUs: 1, RAM: 256, Disk: 2})
	must(t, err)
	resize := map[string]any{"flavorRef": larger.ID}
	m.act(s, "VERIFY_RESIZE", "resize", resize)
	m.diskIO(from, s.ID, "read "+coldMarker)
	m.act(s, "SHUTOFF", "revertResize", nil)
	m.diskIO(to, s.ID, "read "+coldMarker)
	m.awaitNoGuest(from, s.ID)
	m.act(s, "VERIFY_RESIZE", "resize", resize)
	m.act(s, "SHUTOFF", "confirmResize", nil)
	m.awaitNoGuest(to, s.ID)
	m.diskIO(from, s.ID, "read "+coldMarker)
	m.diskIO(from, s.ID, "read -P 0 1500M 64k") // it has grown

	testenv.Until(t, "the host is drained", func() (bool, error) { // when compute knows that no guest is left on the other
		stdout, stderr, status := output(t, m.args("host", "drain", from, "--reason", "new fans")...)
		return status == 0, fmt.Errorf("status %d: %s%s", status, stdout, stderr)
	})
	m.awaitNoGuest(from, s.ID)
	m.diskIO(to, s.ID, "read "+coldMarker)
	m.delete(s)
	m.awaitNoGuest(to, s.ID)
}

// diskIO reads or writes the disk of a guest that does not run.
func (m *migrationLab) diskIO(host, id, command string) {
	m.t.Helper()
	disk := filepath.Join(m.instances[host], id, "disk-0.qcow2")
	out, err := exec.CommandContext(m.t.Context(), "qemu-io", "-f", "qcow2", "-c", command, disk).CombinedOutput()
	if err != nil || strings.Contains(string(out), "failed") {
		m.t.Fatalf("%s of the disk on %s: %v: %s", command, host, err, out)
	}
}
