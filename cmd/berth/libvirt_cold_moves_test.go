package main

import (
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/openberth/berth/api/compute"
)

// coldMarker is what is written deep into the disk of a stopped guest.
const coldMarker = "-P 0xab 700M 64k"

// moveCold stops the server, writes into its disk, and then moves it: a cold migration, a resize that is reverted, one
// that is confirmed, and a drain of its host. What was written stays. It returns the host where the server is then.
func (m *migrationLab) moveCold(s compute.Server, from, to string) (at string) {
	t := m.t
	t.Helper()
	c := m.compute.compute()
	m.act(s, "SHUTOFF", "os-stop", nil)
	m.diskIO(from, s.ID, "write "+coldMarker)

	m.run(0, "", "server", "migrate", "counter", "--wait")
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

	m.run(0, "", "host", "drain", from, "--reason", "new fans")
	m.awaitNoGuest(from, s.ID)
	m.diskIO(to, s.ID, "read "+coldMarker)
	m.run(0, "", "host", "enable", from)
	return to
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
