package libvirtd

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// preload replaces functions of libvirt and QEMU. The limit of locked memory counts as raised: libvirt raises it for
// guests with devices, and a container may not; without VFIO no memory is locked. A message of libvirt that attaches a
// device of the host to a running QEMU is changed like the arguments of the program qemu: QEMU gets as many bytes, with
// an emulated device in them. QEMU reads a message in pieces of any size, and the rest of it is in the socket.
const preload = `#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { memlock = 8 }; // RLIMIT_MEMLOCK
int prlimit64(pid_t pid, int resource, const void *limit, void *old) {
	if (resource == memlock && pid) { // of a running QEMU
		if (old) memset(old, 0xff, 16);
		return 0;
	}
	if (resource == memlock) limit = 0;
	return syscall(SYS_prlimit64, pid, resource, limit, old);
}
int prlimit(pid_t pid, int resource, const void *limit, void *old) { return prlimit64(pid, resource, limit, old); }
int setrlimit64(int resource, const void *limit) { return prlimit64(0, resource, limit, 0); }
int setrlimit(int resource, const void *limit) { return prlimit64(0, resource, limit, 0); }

static const char real[] = "\"driver\":\"vfio-pci\",\"host\":\"0000:3b:00.0\"";
static const char emulated[] = "\"driver\":\"pci-testdev\"                   ";
enum { size = sizeof real - 1, digit = 2 }; // the function is the last digit

static int is_device(const char *text) {
	return !memcmp(text, real, size - digit) && text[size - 1] == '"';
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
	static __thread size_t left; // bytes of the device that QEMU has not read yet
	char next[65536];
	struct iovec *to = message->msg_iov;
	ssize_t n = left ? 0 : syscall(SYS_recvfrom, fd, next, sizeof next, MSG_PEEK | MSG_DONTWAIT, 0, 0);
	if (flags & MSG_PEEK || message->msg_iovlen != 1 || n < 0) return syscall(SYS_recvmsg, fd, message, flags);
	size_t full = to->iov_len;
	for (ssize_t at = 0; at + size <= n; at++) {
		if (!is_device(next + at)) continue;
		if (at == 0) left = size;
		else if (at < to->iov_len) to->iov_len = at;
		break;
	}
	if (left && to->iov_len > left) to->iov_len = left;
	n = syscall(SYS_recvmsg, fd, message, flags);
	to->iov_len = full;
	if (left && n > 0) {
		memcpy(to->iov_base, emulated + size - left, n);
		left -= n;
	}
	return n;
}
`

// compiled returns the library of preload.
var compiled = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "preload")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	library := filepath.Join(dir, "preload.so")
	compile := exec.Command("cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-")
	compile.Stdin = strings.NewReader(preload)
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(library)
})

// makeDevices makes the directories that replace /sys/bus/pci and /sys/kernel/iommu_groups: seven functions, each in
// its own IOMMU group and bound to vfio-pci already, because a file cannot bind itself to a driver.
func (d *Daemon) makeDevices(t testing.TB) {
	t.Helper()
	library, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	d.mkdir(t, "bin")
	d.write(t, "bin/preload.so", string(library), 0o755)
	d.write(t, "bin/"+emulator, fmt.Sprintf(qemu, "/usr/bin/"+emulator), 0o755)
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
