//go:build nested

package lab

import (
	"path/filepath"
	"testing"

	"github.com/openberth/berth/internal/linuxguest"
)

// inMachine runs the tests in the root of this machine, which has libvirt and QEMU. Directories that programs of this
// machine use are empty there.
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
exec chroot /host /bin/sh -c 'cd /payload && exec ./vfguest.test -test.v -test.timeout 18m'
`

// TestNestedGuests runs the tests of package vfguest for guests of libvirt in the lab.
func TestNestedGuests(t *testing.T) {
	dir := payload(t, inMachine)
	// The kernel for clouds has no driver for VFs of igb.
	t.Setenv("GUEST_KERNEL", "linux-image-amd64")
	t.Setenv("GUEST_MODULES", "igbvf nvme")
	// A kernel that changes its own code is slow on a CPU that is emulated by an emulated CPU.
	t.Setenv("GUEST_OPTIONS", "no_timer_check nokaslr noreplace-smp mitigations=off cryptomgr.notests apparmor=0")
	if err := linuxguest.Build(t.Context(), filepath.Join(dir, "guest.img")); err != nil {
		t.Fatal(err)
	}
	buildTests(t, dir, "nested")
	t.Setenv("LAB_TIMEOUT", "1140")
	t.Setenv("NESTED", "1")
	t.Log("\n" + run(t, dir))
}
