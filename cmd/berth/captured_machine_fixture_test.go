package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine writes a captured machine with PFs that have vfs VFs each, and returns its path.
func machine(t *testing.T, pfs, vfs int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("A machine for tests: PFs 8086:1528 with VFs 8086:1515.\n")
	device := func(bus, fn int, product, class string, node int) string {
		address := fmt.Sprintf("0000:%02x:%02x.%d", bus, fn/8, fn%8)
		fmt.Fprintf(&b, "-- bus/pci/devices/%s -> ../../../devices/pci0000:00/%s --\n", address, address)
		dir := "devices/pci0000:00/" + address + "/"
		for file, text := range map[string]string{"vendor": "0x8086", "device": "0x" + product, "class": class,
			"numa_node": fmt.Sprint(node)} {
			fmt.Fprintf(&b, "-- %s%s --\n%s\n", dir, file, text)
		}
		return address
	}
	for i := range pfs {
		bus := 0x10 + i
		pf := device(bus, 0, "1528", "0x020000", i%2)
		fmt.Fprintf(&b, "-- devices/pci0000:00/%s/sriov_totalvfs --\n%d\n-- devices/pci0000:00/%s/sriov_numvfs --\n%d\n", pf,
			vfs, pf, vfs)
		for n := range vfs {
			vf := device(bus, n+1, "1515", "0x020000", i%2)
			fmt.Fprintf(&b, "-- devices/pci0000:00/%s/physfn -> ../%s --\n-- devices/pci0000:00/%s/virtfn%d -> ../%s --\n", vf,
				pf, pf, n, vf)
		}
	}
	path := filepath.Join(t.TempDir(), "machine.txtar")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// conf writes a configuration that offers the VFs of a machine of function machine, and returns its path.
func conf(t *testing.T, machine string, more ...string) string {
	t.Helper()
	text := `[DEFAULT]
host = cmp1
compute_driver = fake.FakeDriver
[oslo_concurrency]
lock_path = ` + t.TempDir() + `
[api]
auth_strategy = noauth2
[pci]
report_in_placement = true
device_spec = {"vendor_id": "8086", "product_id": "1515", "resource_class": "CUSTOM_VF"}
alias = {"name": "vf", "resource_class": "CUSTOM_VF", "device_type": "type-VF"}
[filter_scheduler]
pci_in_placement = true
[berth]
sysfs = ` + machine + "\n" + strings.Join(more, "\n")
	path := filepath.Join(t.TempDir(), "berth.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
