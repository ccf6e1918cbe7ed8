// Package lab runs a program on a real Linux kernel with the hardware that Berth manages: SR-IOV physical and virtual
// functions, plain PCI devices, an IOMMU and two NUMA nodes.
//
//	          one run                               the guest, seen from /sys/bus/pci/devices
//	payload/ ─────────▶ run-in-qemu.sh ── QEMU ──▶  0000:11:00.0  NVMe PF, VFs .1 to .4   NUMA node 0
//	   run                                          0000:21:00.0  NVMe PF, VFs .1 to .4   NUMA node 1
//	   berth, …                                     0000:22:00.0  e1000e NIC              NUMA node 1
//	output, status ◀─────────────────────────────   0000:00:03.0  edu device              no node
//
// With NICS=1 the guest also has two igb NICs, at 0000:12:00.0 and 0000:23:00.0, whose VFs are network interfaces.
//
// The machine is emulated by QEMU without KVM, so that it is the same everywhere and boots in about 20 seconds on any
// x86_64 Debian. run-in-qemu.sh does all of it and can be run by hand; Run does the same for tests. testdata/capture is
// a payload that prints the PCI part of /sys as an archive; testdata/lab-machine-sysfs.txtar is its output in the lab,
// and testdata/virtio-machine-sysfs.txtar its output on a virtual machine with only virtio devices.
//
// The tests that boot are behind the build tag lab.
package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/fault"
)

//go:embed run-in-qemu.sh
var boot string

// failed is the exit status of run-in-qemu.sh if the lab itself failed, not the payload.
const failed = 125

// grace is the time that run-in-qemu.sh has to switch the guest off and clean up after the context has ended.
const grace = 15 * time.Second

// Run boots the lab, copies payloadDir to /payload in the guest, runs ./run there as root, and returns its output
// on stdout and stderr. Programs must be static x86_64 binaries or scripts for busybox. The variables that
// run-in-qemu.sh documents (VFS, NICS, LAB_TIMEOUT and LAB_START in seconds, LAB_CACHE) are read from variables
// (NAME=value), else from the environment. Runs may be concurrent.
//
// The error is a fault: Unavailable if the lab failed (a payload without ./run, a package that cannot be installed, a
// timeout), with the last lines of the guest's console; Internal if the payload ended with a
// status other than 0, an *exec.ExitError in the chain. The output so far is returned with the error.
func Run(ctx context.Context, payloadDir string, variables ...string) (output string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", boot, "run-in-qemu.sh", payloadDir)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace

	err = cmd.Run()
	output = stdout.String()
	message := strings.TrimSpace(stderr.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return output, nil
	case ctx.Err() != nil:
		return output, fault.New(fault.Unavailable, "stopped before %s/run had ended: %w", payloadDir, context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited() && exit.ExitCode() != failed:
		return output, fault.New(fault.Internal, "%s/run ended in the guest with %w: %s", payloadDir, err, message)
	default:
		return output, fault.New(fault.Unavailable, "cannot run %s in the lab: %w: %s", payloadDir, err, message)
	}
}
