package linuxguest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The directories of root in the guest can be written by root alone, whatever the umask of the user who builds the
// image: otherwise dropbear refuses every key.
func TestImageBuiltWithoutMask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk.img")
	build := exec.Command("sh", "-c", `umask 0; exec bash -c "$0" build-image.sh "$1"`, script, disk)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list := exec.Command("sh", "-euc", `PATH=$1/usr/bin:$PATH mcopy -i "$0" ::initrd initrd
		gzip -dc initrd | "$1/bin/busybox" cpio -tv`, disk, packages(t))
	list.Dir, list.Env = dir, append(os.Environ(), "MTOOLS_SKIP_CHECK=1")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			found[fields[len(fields)-1]] = fields[0]
		}
	}
	for _, name := range []string{".", "root", "root/.ssh", "etc/dropbear"} {
		if found[name] != "drwxr-xr-x" {
			t.Errorf("%s has the mode %q", name, found[name])
		}
	}
}

// packages is where build-image.sh has unpacked the packages of the guest.
func packages(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("LAB_CACHE")
	if cache == "" {
		var err error
		if cache, err = os.UserCacheDir(); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(cache, "linux-guest", "root")
}
