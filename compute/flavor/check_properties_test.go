package flavor

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// A server from a flavor or an image that promises what Berth does not do is refused, with the name.
func TestRefusedProperties(t *testing.T) {
	for key, c := range map[string]struct{ value, says string }{
		"hw:mem_encryption":              {"true", "not encrypted"},
		"os:secure_boot":                 {"always", "write required, disabled, optional"},
		"hw:tpm_version":                 {"2.0", "would not move with a stopped server"},
		"hw:maxphysaddr_mode":            {"emulate", "bits of addresses"},
		"hw:maxphysaddr_bits":            {"42", "bits of addresses"},
		"accel:device_profile":           {"gpu", "Cyborg"},
		"capabilities:cpu_info:features": {"<in> aes", "write traits"},
		"quota:cpu_quota":                {"10000", "limits"},
		"pci_passthrough:Alias":          {"gpu:1", "did you mean pci_passthrough:alias?"},
		"pci_passthrough:alias":          {" ", "is empty"},
		"pci:matches:pcie_root":          {"gpu", "is not known"},
		"hw:numa_node":                   {"2", "did you mean hw:numa_nodes?"},
		"hw:cpu_pinning":                 {"true", "did you mean hw:cpu_policy?"},
		"hw:anything":                    {"x", "is not known; remove it"},
		"HW:cpu_policy":                  {"dedicated", "did you mean hw:cpu_policy?"},
		"hw_cpu_policy":                  {"dedicated", "did you mean hw:cpu_policy?"},
		"resource:VCPU":                  {"2", "did you mean resources:VCPU?"},
		"hw:locked_memory":               {"true", "not locked"},
		"hw:cpu_sockets":                 {"1", "write the VCPUs"},
		"hw:max_cpu_sockets":             {"3", "one core"},
		"hw:cpu_threads":                 {"2", "write 1, or remove it"},
		"hw:watchdog_action":             {"reset", "no watchdog"},
		"hide_hypervisor_id":             {"yes", "see their hypervisor"},
		"hw:numa_cpus.x":                 {"0", "is not known"},
	} {
		err := CheckProperties(Flavor{Name: "f", VCPUs: 4, ExtraSpecs: map[string]string{key: c.value}}, Image{}, nil)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "extra spec "+key) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s = %s: %v; want %q", key, c.value, err, c.says)
		}
	}
	for key, c := range map[string]struct{ value, says string }{
		"hw_firmware_type":     {"efi", "write bios, uefi"},
		"os_secure_boot":       {"yes", "write required, disabled, optional"},
		"hw_machine_type":      {"pc-i440fx-7.2", "q35, pc-q35-…"},
		"hw_disk_bus":          {"ide", "virtio, scsi, sata"},
		"hw_vif_model":         {"vmxnet3", "e1000"},
		"hw_video_model":       {"qxl", "none, vga"},
		"hw_qemu_guest_agent":  {"perhaps", "a channel"},
		"img_signature":        {"abc", "not verified"},
		"hw_mem_encryption":    {"1", "not encrypted"},
		"hw_disk_buss":         {"virtio", "did you mean hw_disk_bus?"},
		"os_secureboot":        {"required", "did you mean os_secure_boot?"},
		"img_anything":         {"x", "is not known"},
		"hw:cpu_policy":        {"dedicated", "did you mean hw_cpu_policy?"},
		"architecture":         {"aarch64", "x86_64"},
		"os_type":              {"windows", "UTC"},
		"img_root_device_name": {"/dev/sda", "/dev/vda"},
	} {
		err := CheckProperties(Flavor{VCPUs: 4}, Image{Properties: map[string]string{key: c.value}}, nil)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "image property "+key) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s = %s: %v; want %q", key, c.value, err, c.says)
		}
	}
}

// What Berth implements, what it does anyway, names of the operator, and what an administrator ignores are accepted.
func TestAcceptedProperties(t *testing.T) {
	f := Flavor{Name: "f", VCPUs: 4, ExtraSpecs: map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_mem.0": "1",
		"resources:VCPU": "0", "resources_a-1:CUSTOM_X": "1", "trait:CUSTOM_Y": "required", "trait1:CUSTOM_Y": "forbidden",
		"pci_passthrough:alias": "gpu:1", "group_policy": "none", "hw:mem_encryption": "False", "hw:cpu_sockets": "4",
		"hw:cpu_cores": "1", "hw:max_cpu_sockets": "8", "hw:max_cpu_threads": "2", "hw:serial_port_count": "1",
		"os:secure_boot": "disabled", "hw_rng:allowed": "True", "hw_video:ram_max_mb": "64", "hw:boot_menu": "no",
		"billing": "gold", "cloud:tier": "2", ":architecture": "x", "acme_hw:x": "y", "sw:x": "y",
		"hw:watchdog_action": "disabled", "quota:cpu_shares": "5", "hw:pmu": "true"}}
	i := Image{Properties: map[string]string{"hw_disk_bus": "virtio", "hw_vif_model": "VirtIO", "hw_machine_type": "q35",
		"hw_qemu_guest_agent": "no", "os_type": "linux", "os_distro": "debian", "os_glance_failed_import": "",
		"owner_specified.openstack.md5": "", "hw_numa_nodes": "1", "trait:HW_CPU_X86_AVX2": "required", "vm_mode": "hvm",
		"img_config_drive": "mandatory", "hw_cdrom_bus": "sata", "image_type": "snapshot", "hw_tpm_version": "2.0"}}
	if err := CheckProperties(f, i, []string{"quota:*", "hw:pmu", "hw_tpm_version"}); err != nil {
		t.Error(err)
	}
	for _, ignored := range [][]string{{"quota:*", "hw:pmu"}, {"hw:pmu", "hw_tpm_version"},
		{"*u:p", "quota:", "hw_tpm*"}} {
		if err := CheckProperties(f, i, ignored); !fault.Is(err, fault.Invalid) {
			t.Errorf("ignored %v: %v", ignored, err)
		}
	}
}

// Each name is in one list once, and docs/flavor-and-image-properties.md has the lists.
func TestDocumentedProperties(t *testing.T) {
	const file = "../../docs/flavor-and-image-properties.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, line := range strings.Split(string(text), "\n") {
		if regexp.MustCompile("^\\| `").MatchString(line) {
			written = append(written, line)
		}
	}
	var want []string
	seen := map[string]bool{}
	for _, list := range [][]Property{Specs, ImageProperties} {
		for _, p := range list {
			if seen[p.Name] {
				t.Errorf("%s is known twice", p.Name)
			}
			seen[p.Name] = true
			want = append(want, fmt.Sprintf("| `%s` | %s | %s |", p.Name, p.Values, p.Effect))
		}
	}
	if got, want := strings.Join(written, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("%s has\n%s\nand the code\n%s", file, got, want)
	}
}
