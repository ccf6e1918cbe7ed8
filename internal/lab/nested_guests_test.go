//go:build nested

package lab

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/linuxguest"
)

// inMachine runs the test TEST in the root of this machine, which has libvirt and QEMU. Directories that programs of
// this machine use are empty there.
const inMachine = `#!/bin/sh
set -e
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t proc proc /host/proc
mount -o bind /dev /host/dev
mount -o bind /dev/pts /host/dev/pts
mount -o bind /dev/shm /host/dev/shm
mount -o bind /sys /host/sys
for name in tmp run etc/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt var/lib/berth; do
	mkdir -p "/host/$name"
	mount -t tmpfs -o mode=755 none "/host/$name"
done
mkdir -p /host/payload
mount -o bind /payload /host/payload
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec chroot /host /bin/sh -c 'cd /payload && exec ./vfguest.test -test.v -test.run "^TEST$" -test.timeout 18m'
`

// emulated are options of a kernel that runs on a CPU that is emulated by an emulated CPU. A kernel that changes its
// own code is slow there.
const emulated = "no_timer_check nokaslr noreplace-smp mitigations=off cryptomgr.notests apparmor=0"

// nestedPayload makes a payload that runs a test of package vfguest, with the image of a guest.
func nestedPayload(t *testing.T, test string) (dir string) {
	t.Helper()
	dir = payload(t, strings.Replace(inMachine, "TEST", test, 1))
	t.Setenv("GUEST_OPTIONS", emulated)
	if err := linuxguest.Build(t.Context(), filepath.Join(dir, "guest.img")); err != nil {
		t.Fatal(err)
	}
	buildTests(t, dir, "nested")
	t.Setenv("NESTED", "1")
	return dir
}

// TestNestedGuests runs the tests of package vfguest for guests of libvirt in the lab.
func TestNestedGuests(t *testing.T) {
	// The kernel for clouds has no driver for VFs of igb.
	t.Setenv("GUEST_KERNEL", "linux-image-amd64")
	t.Setenv("GUEST_MODULES", "igbvf nvme")
	dir := nestedPayload(t, "TestNestedGuests")
	t.Setenv("LAB_TIMEOUT", "1140")
	t.Log("\n" + run(t, dir))
}

// TestNestedChapter runs the sh blocks of the guide's chapter on guests of libvirt in the lab, with a VF of an igb NIC
// as the device. The address of the device is that of the lab. The packages are those of this machine, and the image is
// built before the lab boots, because the lab has no network. The emulated CPUs need longer pauses. All other commands
// are those of the chapter.
func TestNestedChapter(t *testing.T) {
	dir := nestedPayload(t, "TestNestedChapter")
	if err := os.WriteFile(filepath.Join(dir, "chapter.sh"), []byte(chapterInLab(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LAB_TIMEOUT", "900")
	t.Log("\n" + run(t, dir))
}

// chapterInLab returns the commands of the chapter with the differences of the lab.
func chapterInLab(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "5-guests.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(guide), "\n## Guests of libvirt\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	script := "set -eux\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(chapter, -1) {
		script += block[1]
	}
	for _, change := range [][2]string{
		{"apt-get ", ": apt-get "},
		{"0000:3b:00.1", "0000:12:10.0"},
		{"berth image build disk.img", "cp /payload/guest.img disk.img"},
		{"sleep 0.1", "sleep 5"},
		{"server console web", "server console web --linger 1m"},
	} {
		if !strings.Contains(script, change[0]) {
			t.Fatalf("the form of the chapter has changed: it has no %q", change[0])
		}
		script = strings.ReplaceAll(script, change[0], change[1])
	}
	return script
}
