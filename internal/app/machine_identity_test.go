package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without the product_uuid, which only root can read, a cloned machine has the machine-id of its original: its boot is
// part of the place, so that it is another one.
func TestPlaceWithoutProductHasBoot(t *testing.T) {
	old := productFile
	t.Cleanup(func() { productFile = old })
	productFile = filepath.Join(t.TempDir(), "product")
	boot, dir := firstLine("/proc/sys/kernel/random/boot_id"), t.TempDir()
	if place := lockedPlace(dir); boot == "" || !strings.Contains(place, boot) {
		t.Errorf("the place is %q, want the boot %q in it", place, boot)
	}
	if err := os.WriteFile(productFile, []byte("product\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	place := lockedPlace(dir)
	if !strings.Contains(place, " product dir ") || machineID() != "" && strings.Contains(place, boot) {
		t.Errorf("the place is %q", place)
	}
}
