package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/libvirtd"
)

// TestLibvirtChapter runs the sh blocks of the guide's chapter on libvirt, in a namespace where the test's libvirtd is
// that of the machine. Only the directory of guests is another one.
func TestLibvirtChapter(t *testing.T) {
	virt := libvirtd.Start(t)
	t.Parallel()
	dir, instances := t.TempDir(), virt.GuestDir(t)
	script := "set -eux\ncd " + dir + "\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(
		guideChapter(t, "Guests of libvirt"), -1) {
		script += block[1]
	}
	script = strings.ReplaceAll(script, "/var/lib/berth/instances", instances)
	script = strings.Replace(script, "[DEFAULT]\n", "[oslo_concurrency]\nlock_path = "+dir+"\n[DEFAULT]\n"+
		"instances_path = "+instances+"\nshutdown_timeout = 0\n", 1) // the host is that of other runs, too
	if strings.Count(script, "lock_path") != 1 {
		t.Fatal("the form of the chapter's configuration has changed")
	}
	raw := filepath.Join(dir, "disk.raw")
	must(t, os.WriteFile(raw, libvirtd.BootSector("hello from the guest, login:\n"), 0o600))
	self, err := os.Executable()
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	must(t, os.Symlink(self, filepath.Join(dir, "bin", "berth")))
	script = "qemu-img convert -O qcow2 " + raw + " " + filepath.Join(dir, "disk.qcow2") + "\n" + script
	placement, compute, image := freePort(t), freePort(t), freePort(t)
	cmd := virt.Command(t.Context(), "sh", "-c", script)
	cmd.Env = append(os.Environ(), asBerth+"=1", "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
		"BERTH_LISTEN_PLACEMENT="+placement, "BERTH_LISTEN_COMPUTE="+compute, "BERTH_LISTEN_NETWORK=127.0.0.1:0",
		"BERTH_LISTEN_IMAGE="+image, "BERTH_PLACEMENT_URL=http://"+placement, "BERTH_COMPUTE_URL=http://"+compute,
		"BERTH_IMAGE_URL=http://"+image)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, read(t, filepath.Join(dir, "cloud.log")))
	}
	for _, want := range []string{"from the guest, login:", "ACTIVE", "kvm1", "running", "_base"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in the output of the chapter's commands:\n%s", want, out)
		}
	}
}
