package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// captured writes a machine with two functions of a card, with their IOMMU group (none: -1) and the driver of the
// second one, and returns its path.
func captured(t *testing.T, group int, driver string) string {
	t.Helper()
	text := "A machine for tests.\n"
	for function, driver := range []string{"", driver} {
		address := fmt.Sprintf("0000:01:00.%d", function)
		dir := "devices/" + address + "/"
		text += fmt.Sprintf("-- bus/pci/devices/%s -> ../../../devices/%[1]s --\n", address)
		for name, content := range map[string]string{"vendor": "0x10de", "device": "0x20b0", "class": "0x030000",
			"numa_node": "0"} {
			text += "-- " + dir + name + " --\n" + content + "\n"
		}
		if driver != "" {
			text += "-- " + dir + "driver -> ../../bus/pci/drivers/" + driver + " --\n"
		}
		if group >= 0 {
			text += fmt.Sprintf("-- %siommu_group -> ../../kernel/iommu_groups/%d --\n", dir, group)
		}
	}
	path := filepath.Join(t.TempDir(), "machine.txtar")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// `agent check` warns that no network service is named in the configuration of an agent alone; berth up needs none.
func TestCheckOfUnreportedNetworks(t *testing.T) {
	const bridges = "[DEFAULT]\nhost = cmp1\n[ovs]\nbridge_mappings = physnet0:br-ex\n"
	for text, want := range map[string]bool{
		bridges + "[api]\nauth_strategy = noauth2\n":                                                        false,
		bridges + "[placement]\nendpoint_override = http://c:8778\n":                                        true,
		bridges + "[compute]\nendpoint_override = http://c:8774\n":                                          true,
		bridges + "[compute]\nendpoint_override = http://c:8774\n[neutron]\nendpoint_override = http://n\n": false,
	} {
		file := filepath.Join(t.TempDir(), "berth.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		checked, err := Check(captured(t, -1, ""), file)
		if got := strings.Contains(fmt.Sprint(checked.Findings), "because [neutron] names none"); err != nil || got != want {
			t.Errorf("%s%v %v", text, checked.Findings, err)
		}
	}
}

// `agent check` names the other devices of an IOMMU group that the host uses or that are not offered, and a machine
// without IOMMU. With libvirt a device is not offered if the host uses others of its group.
func TestCheckOfIOMMUGroups(t *testing.T) {
	for _, c := range []struct {
		driver, machine string
		offered         bool
		says            []string // none: no finding
	}{
		{"libvirt", captured(t, 7, "vfio-pci"), true, []string{"0000:01:00.0 is offered without 0000:01:00.1"}},
		{"libvirt", captured(t, 7, "snd_hda_intel"), false, []string{"IOMMU group 7", "0000:01:00.1 (driver snd_hda_intel)",
			"driverctl set-override 0000:01:00.1 vfio-pci", "not offered"}},
		{"fake.FakeDriver", captured(t, 7, "snd_hda_intel"), true, []string{"IOMMU group 7", "guests of libvirt"}},
		{"libvirt", captured(t, -1, ""), false, []string{"IOMMU: 0000:01:00.0", "intel_iommu=on"}},
		{"fake.FakeDriver", captured(t, -1, ""), true, nil},
	} {
		file := filepath.Join(t.TempDir(), "berth.conf")
		text := "[DEFAULT]\nhost = cmp1\ncompute_driver = " + c.driver + "\n[pci]\nreport_in_placement = true\n" +
			"device_spec = {\"address\": \"0000:01:00.0\"}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		checked, err := Check(c.machine, file)
		if err != nil {
			t.Fatal(err)
		}
		if first := checked.Devices[0]; first.Reported != c.offered || c.offered != (first.Why == "") {
			t.Errorf("%s: %+v", c.driver, first)
		}
		findings := fmt.Sprint(checked.Findings)
		for _, says := range c.says {
			if !strings.Contains(findings, says) {
				t.Errorf("%s: no %q in %s", c.driver, says, findings)
			}
		}
		if len(c.says) == 0 && strings.Contains(findings, "IOMMU") {
			t.Errorf("%s: %s", c.driver, findings)
		}
	}
}
