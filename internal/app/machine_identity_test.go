package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A machine is identified by its machine-id and by its hardware. If only root can read the latter, a clone has both
// ids of its original: the boot is part of the place, so that it is another one. A machine that has no such id, such as
// a small virtual machine without SMBIOS, is the same one on each boot.
func TestPlaceHasProduct(t *testing.T) {
	t.Parallel()
	old := productFiles
	t.Cleanup(func() { productFiles = old })
	smbios, tree := filepath.Join(t.TempDir(), "product"), filepath.Join(t.TempDir(), "uuid")
	productFiles = []string{smbios, tree}
	boot, dir := firstLine("/proc/sys/kernel/random/boot_id"), t.TempDir()
	if id := lockID(dir); machineID() != "" && strings.Contains(id, boot) || id == "" {
		t.Errorf("without an id of the hardware the id is %q", id)
	}
	if err := os.WriteFile(tree, []byte("partition\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id := lockID(dir); !strings.Contains(id, " partition dir ") || strings.Contains(id, boot) {
		t.Errorf("with an id in the device tree the id is %q", id)
	}
	if err := os.Mkdir(smbios, 0o700); err != nil { // root can read each file, but no directory
		t.Fatal(err)
	}
	if id := lockID(dir); boot == "" || !strings.Contains(id, boot) {
		t.Errorf("with an id that cannot be read the id is %q, want the boot %q in it", id, boot)
	}
}
