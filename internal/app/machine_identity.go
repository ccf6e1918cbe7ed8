package app

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

var productFile = "/sys/class/dmi/id/product_uuid" // tests change it

// machineID returns machine-id(5), or an empty string.
func machineID() string { return firstLine("/etc/machine-id") }

// lockedPlace identifies a directory of this machine, for a process that has a lock in it: an earlier process of the
// same place has ended, also if this one runs after a reboot or in another container. A copy of the directory is
// another place. The result is empty if the machine or the directory cannot be identified.
func lockedPlace(dir string) string {
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
	// Machines that were cloned with their machine-id have another product_uuid, which only root can read. The number of
	// the file system is left out, because it may change at a boot.
	product := firstLine(productFile)
	if product == "" { // a clone has at least booted by itself
		product = boot
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", machine, product)) + fmt.Sprintf(" dir %d", stat.Ino)
}

// firstLine returns the text of a file of one line, or an empty string if it cannot be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
