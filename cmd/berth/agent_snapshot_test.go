package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A snapshot of a captured machine is equal to it. A directory that is not a machine is refused.
func TestAgentSnapshot(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	copied := filepath.Join(t.TempDir(), "copy.txtar")
	if status := run([]string{"agent", "snapshot", "--sysfs", sampleMachine}, &first, &first); status != 0 ||
		!strings.Contains(first.String(), "0000:21:00.4/physfn") {
		t.Fatalf("%d\n%s", status, &first)
	}
	if err := os.WriteFile(copied, first.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if status := run([]string{"agent", "snapshot", "--sysfs", copied}, &second, &second); status != 0 ||
		!bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%d\n%s", status, &second)
	}
	var out bytes.Buffer
	if status := run([]string{"agent", "snapshot", "--sysfs", t.TempDir()}, &out, &out); status != 1 ||
		!strings.Contains(out.String(), "not shaped like /sys") {
		t.Errorf("%d %s", status, &out)
	}
}

// A snapshot of a directory whose links lead above its root can be read, and berth agent check prints the same for
// both.
func TestAgentSnapshotOfADirectory(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy.txtar")
	device := filepath.Join(dir, "bus/pci/devices/0000:3b:00.0")
	if err := os.MkdirAll(device, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vendor": "0x8086", "device": "0x1572", "class": "0x020000",
		"sriov_totalvfs": "4", "sriov_vf_device": ""} {
		if err := os.WriteFile(filepath.Join(device, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"driver": "../../../../../../bus/pci/drivers/i40e",
		"iommu_group": "/sys/kernel/iommu_groups/7"} {
		if err := os.Symlink(target, filepath.Join(device, name)); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, stderr, status := output(t, "agent", "snapshot", "--sysfs", dir)
	if status != 0 || !strings.Contains(snapshot, "0000:3b:00.0/driver -> i40e --") || !strings.Contains(snapshot,
		"0000:3b:00.0/iommu_group -> 7 --") {
		t.Fatalf("%d %s\n%s", status, stderr, snapshot)
	}
	if err := os.WriteFile(copied, []byte(snapshot), 0o600); err != nil {
		t.Fatal(err)
	}
	path := writeConf(t, "[pci]", "report_in_placement = true", `device_spec = {"vendor_id":"8086"}`)
	printed := map[string]string{}
	for _, machine := range []string{dir, copied} {
		stdout, stderr, status := output(t, "agent", "check", "--config-file", path, "--sysfs", machine)
		if status != 0 || !strings.Contains(stdout, `0000:3b:00.0: sriov_vf_device "" is not a number: the `+
			`product_id of its VFs is taken from the VFs that exist`) {
			t.Errorf("%d %s\n%s", status, stderr, stdout)
		}
		printed[machine] = strings.ReplaceAll(stdout, machine, "it")
	}
	if printed[dir] != printed[copied] {
		t.Errorf("check of the directory:\n%s\nof its snapshot:\n%s", printed[dir], printed[copied])
	}
}
