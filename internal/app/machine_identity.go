package app

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// productFiles have the identity that the machine or its hypervisor gives, in the order in which they are read: SMBIOS,
// the device trees of PowerVM and of KVM, Xen. Tests change them.
var productFiles = []string{"/sys/class/dmi/id/product_uuid", "/proc/device-tree/ibm,partition-uuid",
	"/proc/device-tree/vm,uuid", "/sys/hypervisor/uuid"}

// machineID returns machine-id(5), or an empty string.
func machineID() string { return firstLine("/etc/machine-id") }

// bootTime returns when this machine was started, or a zero time.
func bootTime() time.Time {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}
	}
	for line := range strings.Lines(string(text)) {
		if seconds, ok := strings.CutPrefix(line, "btime "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(seconds), 10, 64)
			if err != nil {
				return time.Time{}
			}
			return time.Unix(n, 0).UTC()
		}
	}
	return time.Time{}
}

// routedAddress returns the address of this machine from which it reaches other networks, of IPv4 if it has one; empty:
// it has no default route. No packet is sent: the kernel chooses the address for a destination of a documentation.
func routedAddress() string {
	for _, destination := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := net.Dial("udp", destination)
		if err != nil {
			continue
		}
		defer conn.Close()
		if at, is := conn.LocalAddr().(*net.UDPAddr); is && at.AddrPort().Addr().Unmap().IsGlobalUnicast() {
			return at.AddrPort().Addr().Unmap().String()
		}
	}
	return ""
}

// lockID identifies a directory of this machine, for a process that has a lock in it: an earlier process with the same
// id has ended, also if this one runs after a reboot or in another container. A copy of the directory has another id.
// The result is empty if the machine or the directory cannot be identified.
func lockID(dir string) string {
	machine := machineID()
	boot := firstLine("/proc/sys/kernel/random/boot_id")
	if machine == "" { // a container without one: the boot is that of its machine
		machine = boot
	}
	info, err := os.Stat(dir)
	if machine == "" || err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	// The number of the file system is left out, because it may change at a boot.
	product := productID()
	return strings.TrimSpace(fmt.Sprintf("%s %s", machine, product)) + fmt.Sprintf(" dir %d", stat.Ino)
}

// productID returns the identity of the machine's hardware or virtual hardware: machines that were cloned with their
// machine-id have another one. If only root can read it, the result is the boot: a clone has at least booted by itself.
// On a machine that has none, the result is empty, and the machine-id alone identifies it.
func productID() string {
	for _, file := range productFiles {
		text, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return firstLine("/proc/sys/kernel/random/boot_id")
		}
		return strings.TrimSpace(strings.TrimRight(string(text), "\x00"))
	}
	return ""
}

// firstLine returns the text of a file of one line, or an empty string if it cannot be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
