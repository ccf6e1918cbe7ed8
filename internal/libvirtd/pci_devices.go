package libvirtd

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Bridge is the bridge in the network of the daemon and its guests.
const Bridge = "br-berth"

// qemu is the program that libvirt runs in the place of QEMU. It runs QEMU with an emulated device for each device of
// the host.
const qemu = `#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
	argument=$1
	shift
	case $argument in
	'{"driver":"vfio-pci",'*)
		argument=$(echo "$argument" | sed 's/"driver":"vfio-pci","host":"[^"]*"/"driver":"pci-testdev"/') ;;
	esac
	set -- "$@" "$argument"
	n=$((n - 1))
done
exec %s "$@"
`

// memLock makes the limit of locked memory count as raised. libvirt raises it for guests with devices, and a container
// may not; without VFIO no memory is locked.
const memLock = `#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
enum { memlock = 8 }; // RLIMIT_MEMLOCK
int prlimit64(pid_t pid, int resource, const void *limit, void *old) {
	if (resource == memlock) limit = 0;
	return syscall(SYS_prlimit64, pid, resource, limit, old);
}
int prlimit(pid_t pid, int resource, const void *limit, void *old) { return prlimit64(pid, resource, limit, old); }
int setrlimit64(int resource, const void *limit) { return prlimit64(0, resource, limit, 0); }
int setrlimit(int resource, const void *limit) { return prlimit64(0, resource, limit, 0); }
`

// makeDevices makes the directories that replace /sys/bus/pci and /sys/kernel/iommu_groups: seven functions, each in
// its own IOMMU group and bound to vfio-pci already, because a file cannot bind itself to a driver.
func (d *Daemon) makeDevices(t testing.TB) {
	t.Helper()
	d.mkdir(t, "bin")
	d.write(t, "bin/memlock.c", memLock, 0o644)
	compile := exec.Command("cc", "-shared", "-fPIC", "-o", d.path("bin/memlock.so"), d.path("bin/memlock.c"))
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.write(t, "bin/qemu-system-x86_64", fmt.Sprintf(qemu, "/usr/bin/qemu-system-x86_64"), 0o755)
	d.mkdir(t, "pci/drivers/vfio-pci")
	d.write(t, "pci/drivers_probe", "", 0o644)
	for _, name := range []string{"bind", "unbind", "new_id", "remove_id"} {
		d.write(t, "pci/drivers/vfio-pci/"+name, "", 0o644)
	}
	for function := 1; function <= 7; function++ {
		address := fmt.Sprintf("0000:3b:00.%d", function)
		device, group := "pci/devices/"+address, fmt.Sprintf("iommu_groups/%d", function)
		d.mkdir(t, device)
		d.mkdir(t, group+"/devices")
		config := make([]byte, 256)
		binary.LittleEndian.PutUint16(config, 0x8086)
		binary.LittleEndian.PutUint16(config[2:], 0x10ca)
		binary.LittleEndian.PutUint16(config[10:], 0x0200)
		for name, text := range map[string]string{"vendor": "0x8086\n", "device": "0x10ca\n", "class": "0x020000\n",
			"config": string(config), "driver_override": "", "numa_node": "-1\n", "irq": "0\n", "resource": ""} {
			d.write(t, device+"/"+name, text, 0o644)
		}
		d.link(t, "../../drivers/vfio-pci", device+"/driver")
		d.link(t, "/sys/kernel/iommu_groups/"+filepath.Base(group), device+"/iommu_group")
		d.link(t, "/sys/bus/pci/devices/"+address, group+"/devices/"+address)
	}
}

func (d *Daemon) mkdir(t testing.TB, name string) {
	t.Helper()
	if err := os.MkdirAll(d.path(name), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (d *Daemon) write(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(d.path(name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (d *Daemon) link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, d.path(name)); err != nil {
		t.Fatal(err)
	}
}
