package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// installed is the program that the chapter's test runs in the place of apt-get: it fails unless the packages that it
// must install are installed.
const installed = `#!/bin/sh
case $1 in
install)
	for package; do
		case $package in install | -*) continue ;; esac
		dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$package" | grep '^installed ' || exit 1
	done ;;
update) ;;
*) exec /usr/bin/apt-get "$@" ;;
esac
`

// TestLibvirtChapter runs the sh blocks of the guide's chapter on libvirt, up to commands in the shell of a Linux guest
// that has the device, in a namespace where the test's libvirtd is that of the machine.
//
// What differs from a reader's machine: the packages are already there, and the test only checks that those of the
// chapter are. Guests run without KVM, which on some virtual machines passes the agent's trial and fails later. The
// device exists as files, and its guest has QEMU's device pci-testdev in its place (package libvirtd), so the guest
// finds the ids of that. libvirtd has no security module. The directory of guests is another one. On a loaded machine
// the console waits longer. TestNestedChapter of internal/lab runs the chapter with a real device.
func TestLibvirtChapter(t *testing.T) {
	virt := libvirtd.Start(t)
	t.Parallel()
	dir, instances := t.TempDir(), virt.GuestDir(t)
	script := "set -eux\ncd " + dir + "\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(
		guideChapter(t, "Guests of libvirt"), -1) {
		script += block[1]
	}
	for _, change := range [][2]string{
		{"/var/lib/berth/instances", instances},
		{"[DEFAULT]\n", "[oslo_concurrency]\nlock_path = " + dir + "\n[DEFAULT]\ninstances_path = " + instances +
			"\nshutdown_timeout = 0\n[libvirt]\nvirt_type = qemu\n[DEFAULT]\n"}, // the host is that of other runs, too
		{"server console web", "server console web --linger 20s"},
		{`"0x8086 0x10ca"`, `"0x1b36 0x0005"`},
	} {
		if !strings.Contains(script, change[0]) {
			t.Fatalf("the form of the chapter has changed: it has no %s", change[0])
		}
		script = strings.ReplaceAll(script, change[0], change[1])
	}
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	must(t, os.Symlink(program(t), filepath.Join(dir, "bin", "berth")))
	must(t, os.WriteFile(filepath.Join(dir, "bin", "apt-get"), []byte(installed), 0o700))
	placement, compute, image := testenv.FreeAddress(t), testenv.FreeAddress(t), testenv.FreeAddress(t)
	// The programs that build the image need a /proc of their own processes.
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.Patience) // so that the output shows where it waits
	defer cancel()
	cmd := virt.Command(ctx, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
		"BERTH_LISTEN_PLACEMENT="+placement, "BERTH_LISTEN_COMPUTE="+compute, "BERTH_LISTEN_NETWORK=127.0.0.1:0",
		"BERTH_LISTEN_IMAGE="+image, "BERTH_PLACEMENT_URL=http://"+placement, "BERTH_COMPUTE_URL=http://"+compute,
		"BERTH_IMAGE_URL=http://"+image)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "cloud.log")) // without it the services have not started
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	for _, want := range []string{"1 of them reported; 0 errors, 0 warnings", "ACTIVE", "kvm1", "running", "web# cd /sys",
		"_base"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in the output of the chapter's commands:\n%s", want, out)
		}
	}
}
